/** A caller on \@livekit/rtc-node, against an agent in Python: prints what it found as one line of JSON. */

import { dispose, Room, RpcError } from "@livekit/rtc-node";

const { connectAgent, waitFor } = await import(process.env.CURB_NODE_CLIENT);

const room = new Room();
const agent = connectAgent(room);
const found = { before: agent.presence.state, forms: [] };
agent.on("show-form", (payload) => found.forms.push(payload));
const early = agent.ask("quote", { plan: "basic" }, { timeoutMs: 30_000 });
const form = waitFor(agent, "show-form", { timeoutMs: 30_000 });
await room.connect(process.env.LIVEKIT_URL, process.env.LIVEKIT_TOKEN, { autoSubscribe: false, dynacast: false });

found.reply = await early;
await agent.send("open-form", { n: 7 });
found.form = await form;
found.during = agent.presence;
found.refused = await agent.ask("no-such-key").catch(({ name, code }) => ({ name, code }));
found.settings = await agent.update({ tts: { voice: 17 } });
found.notAdjustable = await agent.update({ stt: { language: "en" } }).catch(({ code, path }) => ({ code, path }));
const late = await agent.ask("wait", {}, { timeoutMs: 300 }).catch((error) => error);
found.late = [late instanceof RpcError, late.code];
found.patient = await agent.ask("wait", {}, { timeoutMs: 10_000 });
const unfinished = agent.ask("wait").catch((error) => error);
await new Promise((resolve) => setTimeout(resolve, 200));
await room.disconnect();
const broken = await unfinished;
found.broken = [broken instanceof RpcError, broken.code];
found.after = agent.presence.state;
agent.close();
await dispose();
process.stdout.write(`\nfound ${JSON.stringify(found)}\n`, () => process.exit(0));
