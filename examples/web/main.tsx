import { LiveKitRoom, useRoomContext } from "@livekit/components-react";
import { useAgent, useAgentMessage, useAgentPresence } from "curb-client/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

function Quote() {
  const agent = useAgent(useRoomContext());
  const { state } = useAgentPresence();
  const [answer, setAnswer] = useState<unknown>("none yet");
  const [form, setForm] = useState<unknown>("none yet");
  useAgentMessage("show-form", setForm);
  const ask = () => agent?.ask("quote", { plan: "basic" }).then(setAnswer, (error: Error) => setAnswer(error.message));
  return <button onClick={ask}>The agent is {state}. Quote: {JSON.stringify(answer)}. Form: {JSON.stringify(form)}.</button>;
}

const { url, token } = Object.fromEntries(new URLSearchParams(location.search)) as { url: string; token: string };
createRoot(document.body).render(<LiveKitRoom serverUrl={url} token={token}><Quote /></LiveKitRoom>);
