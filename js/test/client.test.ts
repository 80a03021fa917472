/** Requests: what is sent, when, and how each ends. Time is virtual. */

import { RpcError } from "livekit-client";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import {
  type AgentUnavailableError,
  connectAgent,
  fit,
  InvalidReplyError,
  isAgentRefusedError,
  isAgentUnavailableError,
  isRpcError,
  messages,
  type SessionUpdate,
  waitFor,
} from "../src/index.js";
import { ending } from "./ending.js";
import { FakeRoom, type Participant, participant, refusal } from "./fakeRoom.js";
import { after, client, never, room } from "./stage.js";

test("a message, as it travels, and its reply", async () => {
  room.join();
  expect(await client.ask("quote", { plan: "basic", none: undefined })).toEqual({ plan: "basic" });
  expect(await client.send("hello")).toBeUndefined();
  expect(await client.ask("nothing", null, { messageId: "m-1" })).toBeNull();
  const sent = room.requests.map(({ payload }) => JSON.parse(payload));
  expect(sent.map(({ key, payload }) => [key, payload])).toEqual([
    ["quote", { plan: "basic" }],
    ["hello", {}],
    ["nothing", null],
  ]);
  expect(sent[0].id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  expect(sent[2].id).toBe("m-1");
  expect(room.requests[0]).toMatchObject({ destinationIdentity: "agent", method: "curb.message" });
});

test("without randomUUID, as on a page without https, ids differ all the same", async () => {
  vi.stubGlobal("crypto", {});
  room.join();
  await client.send("a");
  await client.send("a");
  vi.unstubAllGlobals();
  const ids = room.requests.map(({ payload }) => JSON.parse(payload).id);
  expect(new Set(ids).size).toBe(2);
});

test("a refusal comes with its details, and shows that the agent is ready", async () => {
  room.join();
  room.answer = () =>
    Promise.reject(refusal("invalid_payload", { issues: [{ path: ["plan", 0], message: "Required" }] }));
  const error = await client.ask<never>("quote").catch((caught: Error) => caught);
  expect(isAgentRefusedError(error)).toBe(true);
  expect(error).toMatchObject({ code: "invalid_payload", issues: [{ path: ["plan", 0], message: "Required" }] });
  expect(error.message).toBe("invalid_payload: plan.0: Required");
  expect(client.presence.state).toBe("ready");
});

test.each([1402, 1500, 1502, 1503, 1504])("LiveKit's own error %d is passed on as it is", async (code) => {
  room.join();
  const own = new RpcError(code, "LiveKit says so");
  room.answer = () => Promise.reject(own);
  await expect(client.ask("quote")).rejects.toBe(own);
  expect(isRpcError(own)).toBe(true);
  expect(room.requests).toHaveLength(1);
});

test.each([new Error("aborted"), "aborted", null, undefined])("what is no RPC error is passed on: %s", async (own) => {
  room.join();
  room.answer = () => Promise.reject(own);
  await expect(client.ask("quote")).rejects.toBe(own);
});

test("a reply that is none, or does not fit the schema", async () => {
  room.join();
  const schema = z.object({ price: z.number() });
  expect(await fit(schema, client.ask("quote", { price: 12, more: 1 }))).toEqual({ price: 12 });
  const wrong = await fit(schema, client.ask("quote", { price: "12" })).catch((error) => error);
  expect(wrong).toBeInstanceOf(InvalidReplyError);
  expect(wrong).toMatchObject({ reply: { price: "12" }, issues: [{ path: ["price"] }] });
  expect(wrong.message).toMatch(/^what the agent sent does not fit: price: /);
  room.answer = () => "ok";
  await expect(client.ask("quote")).rejects.toMatchObject({ name: "InvalidReplyError", reply: "ok" });
  await expect(fit(schema, client.ask("quote"))).rejects.toMatchObject({ reply: "ok" });
});

test.each(["", "ok", "null", "[]", "{}"])("the agent took it, whatever it answers: %j", async (answer) => {
  room.join();
  room.answer = () => answer;
  expect(await client.send("hello")).toBeUndefined();
  expect(room.requests).toHaveLength(1);
});

test("settings are changed, and those in force returned", async () => {
  room.join();
  const settings = { tts: { provider: "a", voice: 17 }, stt: { provider: "b" }, llm: { provider: "c", model: "m" } };
  room.answer = () => JSON.stringify(settings);
  expect(await client.update({ tts: { voice: 17 } })).toEqual(settings);
  expect(room.requests[0]).toMatchObject({ method: "curb.update", payload: '{"tts":{"voice":17}}' });
  room.answer = () => "{}";
  await expect(client.update({})).rejects.toBeInstanceOf(InvalidReplyError);
  room.answer = () => Promise.reject(refusal("not_adjustable", { path: "tts.voice" }));
  await expect(client.update({})).rejects.toMatchObject({ code: "not_adjustable", path: "tts.voice" });
});

// Wrong calls

const cyclic: { self?: unknown } = {};
cyclic.self = [cyclic];

test.each([
  ["a function", { a: [() => 1] }, ["a", 0], "a.0 is Function"],
  ["BigInt", { n: 1n }, ["n"], "n is BigInt"],
  ["a symbol", [Symbol("s")], [0], "0 is Symbol"],
  ["undefined in an array", [undefined], [0], "0 is Undefined"],
  ["a Map", { m: new Map() }, ["m"], "m is Map"],
  ["a promise that was not awaited", Promise.resolve(1), [], "payload is Promise"],
  ["bytes", { b: new Uint8Array(1) }, ["b"], "b is Uint8Array"],
  ["NaN", { n: Number.NaN }, ["n"], "n is NaN"],
  ["2^53", { n: 2 ** 53 }, ["n"], "n is 9007199254740992; send JSON (integers to 2^53-1)"],
  ["half a pair", { t: "ok\udd1e" }, ["t"], "t is text with lone surrogates; send JSON"],
])("a payload with %s is named by its path, and nothing is sent", async (_, payload, path, text) => {
  room.join();
  for (const call of [client.ask("k", payload), client.send("k", payload), client.update(payload as SessionUpdate)]) {
    const error = await call.catch((caught: Error) => caught);
    expect(error).toMatchObject({ name: "InvalidPayloadError", path });
    expect((error as Error).message).toContain(text);
  }
  expect(room.requests).toEqual([]);
});

test("a cycle ends, and says so", async () => {
  await expect(client.ask("k", cyclic)).rejects.toMatchObject({
    name: "InvalidPayloadError",
    message: expect.stringMatching(/^self\.0\.self.* is over 200 levels deep; send JSON/),
  });
});

test("what has a toJSON is written as that says", async () => {
  room.join();
  class Money {
    constructor(readonly cents: number) {}
    toJSON() {
      return { cents: this.cents };
    }
  }
  expect(await client.ask("k", { at: new Date(0), price: new Money(5), bare: Object.create(null) })).toEqual({
    at: "1970-01-01T00:00:00.000Z",
    price: { cents: 5 },
    bare: {},
  });
});

test.each(["", "k".repeat(257), "😀".repeat(129), "ab\ud800", 7, null, undefined])(
  "the key %j is refused",
  async (given) => {
    const key = given as string;
    for (const call of [() => client.ask(key), () => client.send(key), () => waitFor(client, key)])
      await expect(call()).rejects.toMatchObject({
        name: "InvalidKeyError",
        message: expect.stringMatching(/^key .*256/),
      });
    for (const call of [() => client.on(key, () => {}), () => messages(client, key)])
      expect(call).toThrow(expect.objectContaining({ name: "InvalidKeyError" }));
  },
);

test.each([-1, Number.NaN, Infinity, 86_400_001, "3", true, null])("the time %j is refused", async (given) => {
  const options = { timeoutMs: given as number };
  for (const call of [client.ask("k", {}, options), client.update({}, options), waitFor(client, "k", options)])
    await expect(call).rejects.toMatchObject({
      name: "InvalidTimeoutError",
      message: expect.stringMatching(/^timeoutMs/),
    });
});

test.each(["", "i".repeat(129), "\ud834", 3])("the id %j is refused", async (messageId) => {
  await expect(client.ask("k", {}, { messageId: messageId as string })).rejects.toMatchObject({
    name: "UsageError",
    message: expect.stringMatching(/^id .*128/),
  });
});

test("a handler that is no function is refused", () => {
  expect(() => client.on("k", "show" as never)).toThrow("handler must be a function");
});

// Time

test("a call waits for the agent, ten seconds by default", async () => {
  const late = ending(client.ask("quote"));
  await after(9_900);
  expect(late).toEqual({});
  await after(200);
  const error = late.error as AgentUnavailableError;
  expect(isAgentUnavailableError(error)).toBe(true);
  expect(error).toMatchObject({
    state: "absent",
    message: expect.stringContaining("is it in the room?"),
  });
  expect(late.ms).toBeCloseTo(10_000, -2);

  const joined = ending(client.ask("quote", 1));
  await after(5_000);
  room.join();
  await after(0);
  expect(joined.value).toBe(1);
});

test("then the exchange has fifteen seconds, and LiveKit is told seven more", async () => {
  const asked = ending(client.ask("quote"));
  await after(9_000);
  room.answer = never;
  room.join();
  await after(14_900);
  expect(asked).toEqual({});
  await after(200);
  expect(asked.error).toBeInstanceOf(RpcError);
  expect(asked.error).toMatchObject({ code: 1502 });
  expect(room.requests[0]?.responseTimeout).toBe(22_000);
});

test.each([0, 200, 3_000])("a time-out of %d ms is one budget for both", async (timeoutMs) => {
  room.answer = never;
  const waited = ending(client.ask("quote", {}, { timeoutMs }));
  await after(timeoutMs / 2);
  room.join();
  await after(timeoutMs / 2 + 5);
  if (timeoutMs) expect(waited.error).toMatchObject({ code: 1502 });
  else expect(waited.error).toMatchObject({ state: "absent" });
  expect(waited.ms).toBeLessThanOrEqual(timeoutMs + 5);
});

test("LiveKit is told whole milliseconds, whatever is left of the time", async () => {
  room.join();
  expect(await client.ask("quote", 1, { timeoutMs: 1234.56 })).toBe(1);
  expect(room.requests[0]?.responseTimeout).toBe(8_235);
});

test("an agent that has not registered its methods is asked again, and said so at last", async () => {
  room.join();
  let registered = false;
  room.answer = () =>
    registered ? '{"reply":"done"}' : Promise.reject(new RpcError(1400, "Method not supported at destination"));
  const asked = ending(client.ask("quote"));
  await after(3_000);
  expect(asked).toEqual({});
  expect(client.presence.state).toBe("active");
  registered = true;
  await after(200);
  expect(asked.value).toBe("done");
  expect(client.presence.state).toBe("ready");

  registered = false;
  const given = ending(client.ask("quote", {}, { timeoutMs: 1_000 }));
  await after(1_000);
  expect(given.error).toMatchObject({ name: "AgentUnavailableError", state: "active" });
  expect((given.error as Error).message).toContain("no such method yet");
  expect(client.presence.state).toBe("active");
});

const lost = new RpcError(1501, "Connection timeout");

/** Loses this many requests, which LiveKit says of each after seven seconds; then they are answered. */
const lose = (count: number, answer = '{"reply":"done"}'): void => {
  let left = count;
  room.answer = async () => {
    if (left-- <= 0) return answer;
    await new Promise((resolve) => setTimeout(resolve, 7_000));
    throw lost;
  };
};

test("a request that LiveKit has lost is sent again, as it was", async () => {
  room.join();
  lose(1);
  const asked = ending(client.ask("quote"));
  await after(7_200);
  expect(asked.value).toBe("done");
  expect(room.requests).toHaveLength(2);
  expect(room.requests[1]?.payload).toBe(room.requests[0]?.payload);

  const settings = { tts: { provider: "a" }, stt: { provider: "b" }, llm: { provider: "c", model: "m" } };
  lose(1, JSON.stringify(settings));
  const updated = ending(client.update({}, { timeoutMs: 20_000 }));
  await after(7_200);
  expect(updated.value).toEqual(settings);
  expect(room.requests).toHaveLength(4);
});

test.each([
  [undefined, 14_100, 2, 1501],
  [7_200, 7_000, 1, 1501],
  [20_000, 20_000, 3, 1502],
])("with the time-out %s, what is lost is given up after %d ms", async (timeoutMs, ms, requests, code) => {
  room.join();
  lose(Infinity);
  const asked = ending(client.ask("quote", {}, { timeoutMs }));
  await after(ms - 50);
  expect(asked).toEqual({});
  await after(100);
  expect(asked.error).toMatchObject({ code });
  expect(room.requests).toHaveLength(requests);
});

test("what was lost on its way to an agent is not sent to the next of its name", async () => {
  room.join();
  lose(1);
  const asked = ending(client.ask("quote"));
  await after(1_000);
  room.leave();
  room.join();
  await after(6_100);
  expect(asked.error).toBe(lost);
  expect(room.requests).toHaveLength(1);
});

test("an agent that joined and is not active gets no request, until it is", async () => {
  const agent = room.join(participant("agent", { participantInfo: { state: 1, joinedAtMs: 1n } }));
  expect(client.presence).toEqual({ state: "joined", identity: "agent", isThere: false });
  const asked = ending(client.ask("quote", 1));
  await after(1_000);
  expect(room.requests).toEqual([]);
  agent.participantInfo.state = 2; // without an event, as before livekit-client 2.13, and in rtc-node
  await after(1_000);
  expect(asked.value).toBe(1);
});

test("an agent is seen to become active without an event and without a request", async () => {
  const states: string[] = [];
  client.onPresence(({ state }) => states.push(state));
  const agent = room.join({ ...participant(), participantInfo: undefined } as unknown as Participant);
  expect(states).toEqual(["joined"]); // livekit-client tells of a participant before it has its info
  agent.participantInfo = { state: 1, joinedAtMs: 1n };
  await after(1_500);
  expect(states).toEqual(["joined"]);
  agent.participantInfo.state = 2;
  await after(1_000);
  expect(states).toEqual(["joined", "active"]);
});

test("events alone show each step of an agent: nothing else is looked at meanwhile", async () => {
  const states: string[] = [];
  client.onPresence(({ state }) => states.push(state));
  const timers = vi.getTimerCount();
  const agent = participant("agent", { participantInfo: undefined as never });
  room.join(agent);
  agent.participantInfo = { state: 2, joinedAtMs: 1n }; // as livekit-client does, after its event
  await Promise.resolve();
  expect(states).toEqual(["joined", "active"]);
  expect(vi.getTimerCount(), "no timer runs").toBe(timers);
  agent.attributes["curb.ready"] = "1";
  room.happens("participantAttributesChanged");
  room.leave();
  expect(states).toEqual(["joined", "active", "ready", "absent"]);
  expect(vi.getTimerCount()).toBe(timers);
});

test("a disconnect ends requests at once: LiveKit alone would wait for the time-out", async () => {
  room.join();
  room.answer = never;
  const asked = ending(client.ask("quote"));
  await after(10);
  room.disconnect();
  const waiting = ending(client.send("quote"));
  await after(0);
  expect(asked.error).toBeInstanceOf(RpcError);
  expect(asked.error).toMatchObject({ code: 1503 });
  expect(waiting.error).toMatchObject({ name: "AgentUnavailableError", state: "lost" });

  room.setState("connected");
  room.join();
  room.answer = () => '{"reply":"again"}';
  expect(await client.ask("quote")).toBe("again");
});

test("an attempt to connect that fails does not end who waits for the next", async () => {
  const own = new FakeRoom();
  own.state = "disconnected";
  const early = connectAgent(own);
  const asked = ending(early.ask("quote", 1));
  own.setState("connecting");
  own.disconnect();
  await after(100);
  own.setState("connected");
  own.join();
  await after(0);
  expect(asked.value).toBe(1);
  early.close();
});

test("a room that was lost and is being connected again is waited for", async () => {
  room.join();
  room.disconnect();
  expect(client.presence.state).toBe("lost");
  room.setState("connecting");
  expect(client.presence).toEqual({ state: "unconnected", identity: null, isThere: false });
  const asked = ending(client.ask("quote", 1));
  const form = ending(waitFor(client, "form"));
  await after(100);
  expect([asked, form]).toEqual([{}, {}]);
  room.setState("connected");
  room.join();
  room.say({ key: "form", payload: 2 });
  await after(0);
  expect([asked.value, form.value]).toEqual([1, 2]);
});

test("an aborted call rejects with the signal's reason, at every stage", async () => {
  const reason = new Error("the form was left");
  await expect(client.ask("quote", {}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const stop = new AbortController();
  const { signal } = stop;
  const waiting = [
    client.ask("k", {}, { signal }),
    client.update({}, { signal }),
    waitFor(client, "k", { signal }),
  ].map(ending);
  const reading = ending(messages(client, "k", { signal }).next());
  stop.abort(reason);
  await after(0);
  expect([...waiting, reading].map(({ error }) => error)).toEqual([reason, reason, reason, reason]);

  room.join();
  room.answer = never;
  const other = new AbortController();
  const asked = ending(client.ask("quote", {}, { signal: other.signal }));
  await after(10);
  expect(room.requests).toHaveLength(1);
  other.abort(reason);
  await after(0);
  expect(asked.error).toBe(reason);
  expect(vi.getTimerCount(), "no timer stays").toBe(0);
});
