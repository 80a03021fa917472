/** What must compile, and what must not; checked by `tsc`, never run. */

import type { Room as NodeRoom } from "@livekit/rtc-node";
import {
  type AgentClient,
  connectAgent,
  type EffectiveSettings,
  fit,
  fitting,
  isAgentRefusedError,
  isRpcError,
  messages,
  type SessionUpdate,
  type StandardSchema,
  waitFor,
} from "curb-client";
import type { Room } from "livekit-client";
import type { Room as OldRoom } from "livekit-client-2.9";
import { z } from "zod";

declare const room: Room;
declare const oldRoom: OldRoom;
declare const nodeRoom: NodeRoom;
declare const agent: AgentClient;
declare const priceSchema: StandardSchema<{ price: number }>;

connectAgent(room);
connectAgent(oldRoom, { agentIdentity: "agent" });
connectAgent(nodeRoom, {});
// @ts-expect-error a room is needed
connectAgent();
// @ts-expect-error the option is agentIdentity
connectAgent(room, { identity: "agent" });
// @ts-expect-error no room
connectAgent({});

// The protocol's own example
const quote = await agent.ask<{ price: number }>("quote", { plan: "basic" }, { timeoutMs: 5000 });
quote.price.toFixed();
const unknownReply = await agent.ask("quote");
// @ts-expect-error the reply is unknown until it is checked
unknownReply.price;
const checked: { price: number } = await fit(priceSchema, agent.ask("quote"));
checked.price.toFixed();
(await fit(z.string(), agent.ask("quote"))).trim();
// @ts-expect-error the schema gives an object
(await fit(priceSchema, agent.ask("quote"))).trim();
const nothing: Promise<void> = agent.send("claim-submitted", { claimId: "C-17" }, { messageId: "m-1" });
void nothing;
// @ts-expect-error a key is text
agent.send(7);
// @ts-expect-error milliseconds have their unit in the name
agent.ask("quote", {}, { timeout: 5 });
// @ts-expect-error a number of milliseconds
agent.ask("quote", {}, { timeoutMs: "5" });

const remove: () => void = agent.on("show-form", (payload, meta) => {
  meta.id.trim();
  // @ts-expect-error the payload is unknown until it is checked
  payload.fields;
});
remove();
agent.on(
  "price",
  fitting(priceSchema, ({ price }) => price.toFixed()),
);
agent.on("later", async () => {}, { signal: new AbortController().signal });
// @ts-expect-error no handler
agent.on("show-form");
// @ts-expect-error presence is read only
agent.presence.state = "ready";
// @ts-expect-error no such state
agent.presence.state === "gone";
agent.onPresence(({ identity, isThere }) => (isThere ? identity?.trim() : undefined));

for await (const [payload, meta] of messages<{ price: number }>(agent, "price")) {
  payload.price.toFixed();
  meta.senderIdentity.trim();
}
(await fit(priceSchema, waitFor(agent, "price", { timeoutMs: 5 }))).price.toFixed();
const form: unknown = await waitFor(agent, "show-form");
// @ts-expect-error the payload is unknown until it is checked
form.fields;
// @ts-expect-error waitFor sends nothing and has no id
waitFor(agent, "price", { messageId: "m" });

const settings: EffectiveSettings = await agent.update({ tts: { voice: 17 } });
settings.llm.model.trim();
const update: SessionUpdate = { llm: { provider: "openai", model: "m" } };
agent.update(update, { timeoutMs: 5 });
// @ts-expect-error no such provider
agent.update({ llm: { provider: "other", model: "m" } });
// @ts-expect-error provider and model belong together
agent.update({ llm: { model: "m" } });
// @ts-expect-error no such setting
agent.update({ tts: { speed: 2 } });

const caught: unknown = new Error();
if (isAgentRefusedError(caught)) {
  if (caught.code === "not_adjustable") caught.path?.trim();
  for (const { path, message } of caught.issues) message.concat(path.join());
}
if (isRpcError(caught)) caught.code.toFixed();
// @ts-expect-error not narrowed
caught.code;
