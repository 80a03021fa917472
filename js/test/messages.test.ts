/** The agent's messages: which of them come, in what order, to whom; and the agent's presence. Time is virtual. */

import { beforeEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { type AgentPresence, connectAgent, fit, fitting, type MessageMeta, messages, waitFor } from "../src/index.js";
import { ending } from "./ending.js";
import { FakeRoom, participant, Stream } from "./fakeRoom.js";
import { after, client, room, warned } from "./stage.js";

beforeEach(() => void room.join());

const listen = (key: string): unknown[] => {
  const got: unknown[] = [];
  client.on(key, (payload) => got.push(payload));
  return got;
};

test("a handler gets payload and meta until it is removed", async () => {
  const got: [unknown, MessageMeta][] = [];
  const remove = client.on("form", (...message) => got.push(message));
  room.say({ key: "form", id: "m-1", payload: { n: 1 }, more: true });
  await after(0);
  const { info } = room.say({ key: "form" });
  await after(0);
  expect(got).toEqual([
    [{ n: 1 }, { id: "m-1", senderIdentity: "agent" }],
    [{}, { id: info.id, senderIdentity: "agent" }],
  ]);
  remove();
  remove();
  room.say({ key: "form" });
  await after(0);
  expect(got).toHaveLength(2);
});

test("a message without an id has its stream's, of any length", async () => {
  const ids: string[] = [];
  client.on("form", (_, { id }) => ids.push(id));
  const id = "s".repeat(129);
  room.open("agent", new Stream({ id })).write('{"key":"form"}').end();
  room.say({ key: "form", id });
  await after(0);
  expect(ids, "its own is text of 1 to 128").toEqual([id]);
  expect(client.counts.malformed).toBe(1);
});

test("several handlers run in the order they were added, and the same twice", async () => {
  const got: string[] = [];
  const same = () => got.push("same");
  client.on("form", same);
  const remove = client.on("form", same);
  client.on("form", () => got.push("last"));
  room.say({ key: "form" });
  await after(0);
  expect(got).toEqual(["same", "same", "last"]);
  remove();
  room.say({ key: "form" });
  await after(0);
  expect(got.slice(3)).toEqual(["same", "last"]);
});

test("a signal ends the listening", async () => {
  const stop = new AbortController();
  const got: unknown[] = [];
  client.on("form", (payload) => got.push(payload), { signal: stop.signal });
  client.on("form", (payload) => got.push(payload), { signal: AbortSignal.abort() });
  room.say({ key: "form" });
  await after(0);
  stop.abort();
  room.say({ key: "form" });
  await after(0);
  expect(got).toEqual([{}]);
});

test("one warning for each key without a handler, all of them counted", async () => {
  for (const key of ["left", "left", "right", "left"]) room.say({ key });
  await after(0);
  expect(client.counts.unhandled).toEqual(
    new Map([
      ["left", 3],
      ["right", 1],
    ]),
  );
  expect(warned).toEqual(
    ["left", "right"].map((key) => `curb-client: a message "${key}" is dropped; add agent.on("${key}")`),
  );
});

test("what a handler throws is reported and disturbs nobody", async () => {
  const reported: unknown[] = [];
  vi.stubGlobal("reportError", (error: unknown) => reported.push(error));
  client.on("form", () => {
    throw new Error("plain");
  });
  client.on("form", async () => {
    throw new Error("later");
  });
  const got = listen("form");
  room.say({ key: "form" });
  await after(0);
  expect(reported).toEqual([new Error("plain"), new Error("later")]);
  expect(got).toEqual([{}]);
  vi.stubGlobal("reportError", undefined);
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  room.say({ key: "form" });
  await after(0);
  expect(logged).toHaveBeenCalledTimes(2);
  vi.unstubAllGlobals();
});

test("a schema checks payloads, keeps their order, and reports what does not fit", async () => {
  const reported: Error[] = [];
  vi.stubGlobal("reportError", (error: Error) => reported.push(error));
  const got: number[] = [];
  const slowFirst = z.object({ n: z.number() }).transform(async ({ n }) => {
    if (n === 1) await new Promise((resolve) => setTimeout(resolve, 50));
    return n;
  });
  client.on(
    "form",
    fitting(slowFirst, (n) => got.push(n)),
  );
  for (const n of [1, "two", 3]) room.say({ key: "form", payload: { n } });
  await after(100);
  expect(got).toEqual([1, 3]);
  expect(reported.map(({ name, message }) => [name, message])).toEqual([
    ["InvalidReplyError", expect.stringMatching(/^what the agent sent does not fit: n: /)],
  ]);
  vi.unstubAllGlobals();
});

// Order

test("messages come in the order in which their streams started", async () => {
  const got = listen("form");
  const [first, second] = [room.open(), room.open()];
  second.write('{"key":"form","payload":2}').end();
  await after(1_000);
  expect(got).toEqual([]);
  first.write('{"key":"form",').write('"payload":1}').end();
  await after(0);
  expect(got).toEqual([1, 2]);
  expect(client.counts.late).toBe(0);
});

test("a stuck stream is overtaken after two seconds, and late if it completes", async () => {
  const got = listen("form");
  const stuck = room.open();
  room.say({ key: "form", payload: 2 });
  await after(1_950);
  expect(got).toEqual([]);
  await after(100);
  expect(got).toEqual([2]);
  room.say({ key: "form", payload: 3 });
  await after(0);
  stuck.write('{"key":"form","payload":1}').end();
  await after(0);
  expect(got).toEqual([2, 3, 1]);
  expect(client.counts.late).toBe(1);
  expect(warned).toEqual([`curb-client: a message "form" came late`]);
});

test("a stream that never ends is given up when nothing comes for fifteen seconds", async () => {
  const got = listen("form");
  const hung = room.open().write('{"key":');
  await after(14_000);
  hung.write('"form"');
  await after(14_900);
  expect(client.counts.incomplete).toBe(0);
  await after(200);
  expect(client.counts.incomplete).toBe(1);
  expect(hung.closed).toBe(true);
  expect(warned[0]).toContain('a message from "agent" is dropped (incomplete): nothing in 15000 ms');
  room.open().end(new Error("the sender left"));
  await after(0);
  expect(client.counts.incomplete).toBe(2);
  expect(got).toEqual([]);
});

// Whose messages

test.each([
  "hello",
  "",
  "[]",
  "null",
  '"form"',
  '{"key":3}',
  '{"key":""}',
  '{"key":"form","id":7}',
  `{"key":"${"k".repeat(257)}"}`,
  '{"key":"\\ud800"}',
  "[".repeat(20_000),
])("the text %.20s is no message: counted, told, dropped", async (text) => {
  const got = listen("form");
  room.say(text);
  room.say({ key: "form" });
  await after(0);
  expect(got).toEqual([{}]);
  expect(client.counts.malformed).toBe(1);
  expect(warned).toEqual([expect.stringMatching(/^curb-client: a message from "agent" is dropped \(malformed\): ./)]);
});

test("others are not the agent, nor is this participant itself", async () => {
  const got = listen("form");
  room.join(participant("guest", { kind: 0 }));
  room.join(participant("avatar", { attributes: { "lk.publish_on_behalf": "agent" } }));
  for (const who of ["guest", "avatar", "avatar"]) room.say({ key: "form" }, who);
  room.say({ key: "form" }, "caller");
  await after(0);
  expect(client.counts.foreign).toBe(3);
  room.say({ key: "form", payload: 1 });
  await after(0);
  expect(got).toEqual([1]);
  expect(warned).toHaveLength(2);
});

test("an agent may speak before the room tells of it; a stranger is given up after five seconds", async () => {
  const got = listen("form");
  room.leave();
  room.say({ key: "form", payload: "last words" });
  room.say({ key: "form", payload: "first words" }, "next");
  room.say({ key: "form", payload: "nobody's" }, "stranger");
  await after(2_000);
  expect(got).toEqual(["last words"]);
  room.join("next");
  await after(100);
  expect(got).toEqual(["last words", "first words"]);
  await after(3_000);
  expect(client.counts.foreign).toBe(1);
});

test("the named participant is the agent, whatever its kind", async () => {
  const named = new FakeRoom();
  named.join();
  named.join(participant("bot", { kind: 0 }));
  const own = connectAgent(named, { agentIdentity: "bot" });
  expect(own.presence.identity).toBe("bot");
  const got: unknown[] = [];
  own.on("form", (payload) => got.push(payload));
  named.say({ key: "form", payload: 1 });
  named.say({ key: "form", payload: 2 }, "bot");
  await own.send("hello");
  await after(0);
  expect(got).toEqual([2]);
  expect(named.requests[0]?.destinationIdentity).toBe("bot");
  own.close();
});

// Presence

test("the first to join is the agent, ties by identity, and one that withdraws is gone", () => {
  const many = new FakeRoom();
  const at = (identity: string, ms: number) =>
    many.join(participant(identity, { participantInfo: { state: 2, joinedAtMs: BigInt(ms) } }));
  at("third", 3);
  const b = at("b", 2);
  const own = connectAgent(many);
  expect(own.presence.identity).toBe("b");
  const a = at("a", 2);
  expect(own.presence.identity).toBe("a");
  a.attributes["curb.ready"] = "1";
  many.happens("participantAttributesChanged");
  expect(own.presence).toEqual({ state: "ready", identity: "a", isThere: true });
  a.attributes = {};
  many.happens("participantAttributesChanged");
  expect(own.presence).toEqual({ state: "active", identity: b.identity, isThere: true });
  a.attributes["curb.ready"] = "1";
  many.happens("participantAttributesChanged");
  expect(own.presence.identity).toBe("a");
  own.close();
});

test("each change is told, a new visit under the same identity too", async () => {
  const seen: AgentPresence[] = [];
  const remove = client.onPresence((presence) => seen.push(presence));
  await client.ask("hello");
  room.join(); // the same identity, a new visit
  room.leave();
  remove();
  room.join();
  expect(seen.map(({ state }) => state)).toEqual(["ready", "absent", "active", "absent"]);
  expect(client.presence, "the same object until it changes").toBe(client.presence);
});

test("whoever is told may look: all are told of each change, in order", () => {
  const told: string[][] = [[], []];
  for (const list of told)
    client.onPresence(({ state, identity }) => list.push(`${state} ${identity}, seen ${client.presence.state}`));
  room.join("next");
  room.leave();
  const both = ["absent null, seen absent", "active next, seen active"];
  expect(told).toEqual([both, both]);
});

test.each(["absent", "active"])("a client that is closed when it is told of %s stays closed", async (at) => {
  const states: string[] = [];
  client.onPresence(({ state }) => {
    states.push(state);
    if (state === at) client.close();
  });
  room.join("next");
  room.leave();
  room.join("third");
  await after(2_000);
  expect(states).toEqual(at === "absent" ? ["absent", "closed"] : ["absent", "active", "closed"]);
  expect(client.presence).toEqual({ state: "closed", identity: null, isThere: false });
});

test("a room that connects without an event is noticed when asked", () => {
  const early = new FakeRoom();
  early.state = "disconnected";
  const own = connectAgent(early);
  expect(own.presence.state).toBe("unconnected");
  early.state = "connected";
  early.remoteParticipants.set("agent", participant());
  expect(own.presence.state).toBe("active");
  own.close();
});

// Waiting for messages

test("waitFor takes the next message, listens from the call on, and leaves nothing", async () => {
  const form = waitFor(client, "form");
  const typed = fit(z.object({ n: z.number() }), waitFor(client, "form"));
  room.say({ key: "form", payload: { n: 1 } });
  room.say({ key: "form", payload: { n: 2 } });
  expect(await form).toEqual({ n: 1 });
  expect(await typed).toEqual({ n: 1 });
  await after(0);
  room.say({ key: "form" });
  await after(0);
  expect(client.counts.unhandled.get("form")).toBeGreaterThanOrEqual(1);
  expect(vi.getTimerCount()).toBe(0);
});

test("waitFor ends with its time, a payload that does not fit, or the room", async () => {
  const late = waitFor(client, "form", { timeoutMs: 50 });
  await after(60);
  await expect(late).rejects.toMatchObject({
    name: "MessageTimeoutError",
    message: 'no message "form" within 50 ms; the agent is active',
  });
  const wrong = fit(z.string(), waitFor(client, "form"));
  room.say({ key: "form", payload: {} });
  await expect(wrong).rejects.toMatchObject({ name: "InvalidReplyError", reply: {} });
  const lost = waitFor(client, "form");
  room.disconnect();
  await expect(lost).rejects.toMatchObject({ name: "AgentUnavailableError", state: "lost" });
  await expect(waitFor(client, "form")).rejects.toMatchObject({ state: "lost" });
});

test("waitFor takes one message: what follows in the same breath is for others, or counted", async () => {
  const first = room.open();
  room.say({ key: "form", payload: 2 });
  const form = waitFor(client, "form");
  first.write('{"key":"form","payload":1}').end();
  expect(await form).toBe(1);
  expect(client.counts.unhandled.get("form")).toBe(1);
});

test("who waits for a message is told how long that was, when the room is lost", async () => {
  const form = ending(waitFor(client, "form"));
  const reading = ending(messages(client, "form").next());
  await after(3_000);
  room.disconnect();
  await after(0);
  for (const { error } of [form, reading]) expect(error).toMatchObject({ state: "lost", waitedMs: 3_000 });
});

test("messages keep what comes before they are read, and end with the loop", async () => {
  const numbers = messages<number>(client, "n");
  for (const payload of [1, 2, 3]) room.say({ key: "n", payload });
  await after(0);
  const got: number[] = [];
  for await (const [n, meta] of numbers) {
    got.push(n);
    expect(meta.senderIdentity).toBe("agent");
    if (n === 2) break;
  }
  expect(got).toEqual([1, 2]);
  room.say({ key: "n", payload: 4 });
  await after(0);
  expect(client.counts.unhandled.get("n"), "nobody listens any more").toBe(1);
});

test("messages that nobody iterates end with return, or with the signal", async () => {
  const numbers = messages<number>(client, "n");
  expect(await numbers.return()).toEqual({ done: true, value: undefined });
  const stop = new AbortController();
  const aborted = messages<number>(client, "n", { signal: stop.signal });
  room.say({ key: "n", payload: 1 });
  await after(0);
  expect(client.counts.unhandled.get("n"), "the second still listens").toBeUndefined();
  stop.abort(new Error("left"));
  for (const payload of [2, 3]) room.say({ key: "n", payload });
  await after(0);
  expect(client.counts.unhandled.get("n")).toBe(2);
  expect(await numbers.next()).toEqual({ done: true, value: undefined });
  expect((await aborted.next()).value?.[0], "what came before").toBe(1);
  await expect(aborted.next()).rejects.toThrow("left");
});

test("messages wait, then end with the client after what came before", async () => {
  const numbers = messages<number>(client, "n");
  const first = numbers.next();
  await after(60_000);
  room.say({ key: "n", payload: 1 });
  expect((await first).value?.[0]).toBe(1);
  room.say({ key: "n", payload: 2 });
  await after(0);
  client.close();
  const rest: number[] = [];
  for await (const [n] of numbers) rest.push(n);
  expect(rest).toEqual([2]);
});

test("messages fail when the room is lost, after what came before", async () => {
  const numbers = messages<number>(client, "n");
  room.say({ key: "n", payload: 1 });
  await after(0);
  room.disconnect();
  expect((await numbers.next()).value?.[0]).toBe(1);
  await expect(numbers.next()).rejects.toMatchObject({ state: "lost" });
});

test("a stream that is being read when the client closes delivers nothing and is closed", async () => {
  const got = listen("form");
  const stream = room.open("agent", new Stream());
  client.close();
  await after(0);
  stream.write('{"key":"form"}').end();
  await after(20_000);
  expect(got).toEqual([]);
  expect(stream.closed).toBe(true);
  expect(client.counts).toMatchObject({ incomplete: 0, malformed: 0 });
});
