import { LiveKitRoom, useRoomContext } from "@livekit/components-react";
import { useAgent, useAgentMessage, useAgentPresence } from "curb-client/react";
import { StrictMode, useReducer } from "react";
import { createRoot } from "react-dom/client";

function Quote() {
  const agent = useAgent(useRoomContext());
  const { state } = useAgentPresence();
  const [shown, show] = useReducer((before: unknown[], one: unknown) => [...before, one], []);
  useAgentMessage("show-form", show);
  const ask = () => agent?.ask("quote", { plan: "basic" }).then(show, show);
  return <button onClick={ask}>The agent is {state}: {JSON.stringify(shown)}</button>;
}

const { url, token } = Object.fromEntries(new URLSearchParams(location.search)) as { url: string; token: string };
const app = <LiveKitRoom serverUrl={url} token={token}><Quote /></LiveKitRoom>;
createRoot(document.body).render(<StrictMode>{app}</StrictMode>);
