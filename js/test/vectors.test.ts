/** The vectors and fixtures that every implementation of the protocol runs; fixtures/README.md tells their formats. */

import { readdirSync, readFileSync } from "node:fs";
import Ajv2020 from "ajv/dist/2020.js";
import { describe, expect, it, test, vi } from "vitest";
import { checkKey, decodeMessage, decodeRefusal, decodeReply, decodeSettings, encodeRequest } from "../src/envelope.js";
import {
  type AgentRefusedError,
  InvalidKeyError,
  type InvalidPayloadError,
  InvalidReplyError,
  isCurbError,
  type RpcErrorLike,
} from "../src/errors.js";
import { connectAgent } from "../src/index.js";
import { encodeJson } from "../src/jsonText.js";
import { inOrder } from "../src/ordering.js";
import { FakeRoom, participant } from "./fakeRoom.js";

const FIXTURES = new URL("../../fixtures/", import.meta.url);
// biome-ignore lint/suspicious/noExplicitAny: each file has a shape of its own
type Case = any;

const read = (path: string): Case => JSON.parse(readFileSync(new URL(path, FIXTURES), "utf8"));
const vectors = (name: string, part = "cases"): Case[] =>
  read(`vectors/${name}.json`)[part].map((one: Case, index: number) => ({ ...one, name: one.name ?? `${index}` }));

const caught = <T>(work: () => unknown): T => {
  try {
    work();
  } catch (error) {
    return error as T;
  }
  throw new Error("nothing was thrown");
};

test.each(vectors("encoding"))("encoding: $name", ({ value, text }) => {
  expect(encodeJson(value)).toBe(text);
});

const leaf = (one: Case): unknown => {
  switch (one.kind) {
    case "nan":
      return Number.NaN;
    case "infinity":
      return Infinity;
    case "-infinity":
      return -Infinity;
    case "property":
      return { [one.property]: 1 };
    case "arrays":
      return Array.from({ length: one.levels - 1 }).reduce<unknown[]>((inside) => [inside], []);
    case "cycle": {
      const cycle: unknown[] = [];
      cycle.push(cycle);
      return cycle;
    }
    default:
      return one[one.kind];
  }
};

test.each(vectors("encoding_refused"))("not encoded: $name", (one) => {
  const value = one.at.reduceRight(
    (inside: unknown, step: string | number) =>
      typeof step === "string" ? { [step]: inside } : [...Array(step).fill(null), inside],
    leaf(one),
  );
  if (one.accepted) return expect(encodeJson(value)).toMatch(/^\[\[/);
  const error = caught<InvalidPayloadError>(() => encodeJson(value));
  expect(isCurbError(error, "InvalidPayloadError")).toBe(true);
  expect(error.path).toEqual(one.path.times ? Array(one.path.times).fill(one.path.step) : one.path);
});

test.each(vectors("sizes"))("size: $bytes bytes ($name)", (one) => {
  const file = read("vectors/sizes.json");
  const payload = one.payload.map((run: Case) => run.character.repeat(run.count)).join("");
  const encode = () => encodeRequest(file.key, file.id, payload);
  if (one.accepted) return expect(new TextEncoder().encode(encode()).length).toBe(one.bytes);
  const { code, size, limit, message } = caught<AgentRefusedError>(encode);
  expect({ code, size, limit }).toEqual({ code: "payload_too_large", size: one.bytes, limit: file.limit });
  expect(message).toContain(`${one.bytes} of ${file.limit} bytes`);
});

test.each(vectors("keys"))("key: $count times $character", (one) => {
  const key = one.character.repeat(one.count);
  if (one.send) checkKey(key);
  else expect(() => checkKey(key)).toThrow(InvalidKeyError);
  if (one.receive === undefined) return;
  const receive = () => decodeMessage(JSON.stringify({ key }), "s");
  if (one.receive) expect(receive().key).toBe(key);
  else expect(receive).toThrow(/^key /);
});

test.each(vectors("requests", "encode"))("request: $name", ({ key, id, payload, text }) => {
  expect(encodeRequest(key, id, payload)).toBe(text);
});

test.each(vectors("messages", "decode"))("message: $name", ({ text, value, malformed }) => {
  const decode = () => decodeMessage(text, "the stream's");
  if (value) return expect(decode()).toEqual({ ...value, id: value.id ?? "the stream's" });
  const [[property] = []] = malformed;
  if (property) expect(decode).toThrow(new RegExp(`^${property} must be text of 1 to`));
  else expect(decode).toThrow();
});

test.each(vectors("replies", "decode"))("reply: $name", ({ text, reply, invalid }) => {
  if (invalid) expect(() => decodeReply(text)).toThrow(InvalidReplyError);
  else expect(decodeReply(text)).toEqual(reply);
});

test.each(vectors("refusals"))("refusal: $name", ({ number, message, data, refusal }) => {
  const refused = decodeRefusal({ code: number, message, data: data ?? undefined } as RpcErrorLike);
  if (!refusal) return expect(refused).toBeUndefined();
  expect({ code: refused?.code, issues: refused?.issues, path: refused?.path ?? null }).toEqual(refusal);
  expect(refused?.message.startsWith(refusal.code)).toBe(true);
});

test.each(vectors("ordering"))("ordering: $name", ({ name, overtake, events }) => {
  const late = name.includes("before the overtaking"); // of the timer, which in virtual time can only stand still
  vi.useFakeTimers();
  const begun = Date.now();
  let deliveries: object[] = [];
  const start = inOrder<string>((message, late) => deliveries.push({ message, late: !!late }), overtake * 1000);
  const ends: ReturnType<typeof start>[] = [];
  for (const event of events) {
    if (event.do === "start") {
      expect(ends.push(start())).toBe(event.stream + 1);
      continue;
    }
    deliveries = [];
    if (event.at && !late) vi.advanceTimersByTime(begun + event.at * 1000 - Date.now());
    if (event.do !== "overtake") ends[event.stream]?.(event.message);
    expect(deliveries).toEqual(event.deliveries);
    expect(vi.getTimerCount() > 0).toBe(event.deadline !== null);
  }
  vi.useRealTimers();
});

describe("states, as the room shows them", () => {
  /** Brings a client into the state, in a room that the caller connected himself. */
  const reach = (state: string) => {
    const room = new FakeRoom();
    if (state === "unconnected") room.state = "disconnected";
    const agent = participant("agent", { participantInfo: { state: state === "joined" ? 1 : 2, joinedAtMs: 1n } });
    if (state === "ready") agent.attributes["curb.ready"] = "1";
    if (["joined", "active", "ready"].includes(state)) room.join(agent);
    const client = connectAgent(room);
    if (state === "lost") room.disconnect();
    if (state === "closed") client.close();
    expect(client.presence.state).toBe(state);
    return { room, client };
  };

  const happen: Record<string, (room: FakeRoom, client: ReturnType<typeof connectAgent>) => unknown> = {
    room_connected: (room) => room.setState("connected"),
    room_lost: (room) => room.disconnect(),
    agent_joined: (room) =>
      room.remoteParticipants.size ||
      room.join(participant("agent", { participantInfo: { state: 1, joinedAtMs: 1n } })),
    agent_active: (room) => {
      for (const one of room.remoteParticipants.values()) one.participantInfo.state = 2;
      room.happens("participantActive");
    },
    agent_ready: (room) => {
      for (const one of room.remoteParticipants.values()) {
        one.participantInfo.state = 2;
        one.attributes["curb.ready"] = "1";
      }
      room.happens("participantAttributesChanged");
    },
    agent_left: (room) => room.leave(),
    close: (_, client) => client.close(),
  };

  // A web app's room is joined again by connecting it, hence no `rejoining`; a room that was never connected is not
  // lost; `agent_unregistered` needs an answered request, see client.test.ts.
  const shown = vectors("states").filter(
    ({ state, event }) =>
      happen[event] &&
      !(state === "unconnected" && ["room_lost", "agent_joined"].includes(event)) &&
      !(state === "lost" && event === "agent_joined"),
  );

  it.each(shown)("$state, $event: $after", ({ state, event, after }) => {
    const { room, client } = reach(state);
    happen[event]?.(room, client);
    expect(client.presence.state).toBe(after);
  });
});

// Fixtures

const ajv = new Ajv2020.default({ strict: false });
ajv.addSchema({
  ...JSON.parse(readFileSync(new URL("../curb_client/protocol/protocol.schema.json", FIXTURES), "utf8")),
  $id: "curb",
});

const fixtures = ["valid", "invalid"].flatMap((verdict) =>
  readdirSync(new URL(verdict, FIXTURES)).map((file) => ({
    path: `${verdict}/${file}`,
    type: file.split(".")[0] as string,
    fits: verdict === "valid",
  })),
);

test("there are fixtures of every type", () => {
  const types = new Set(fixtures.map(({ type }) => type));
  expect(fixtures.length).toBeGreaterThan(400);
  expect(types.size).toBeGreaterThan(20);
});

test.each(fixtures)("fixture: $path", ({ path, type, fits }) => {
  const validate = ajv.getSchema(`curb#/$defs/${type}`);
  expect(validate?.(read(path))).toBe(fits);
});

const decoders: Record<string, (text: string) => unknown> = {
  AgentMessage: (text) => decodeMessage(text, "s"),
  EffectiveSettings: decodeSettings,
  MessageReply: decodeReply,
};

test.each(fixtures.filter(({ type }) => decoders[type]))("decoder: $path", ({ path, type, fits }) => {
  const text = JSON.stringify(read(path));
  if (fits) decoders[type]?.(text);
  else expect(() => decoders[type]?.(text)).toThrow();
});

test.each(fixtures.filter(({ type }) => type === "RefusalData"))("data of a refusal: $path", ({ path, fits }) => {
  const details = read(path);
  const refused = decodeRefusal({ code: 4220, message: "no", data: JSON.stringify(details) } as RpcErrorLike);
  expect(refused?.issues.length).toBe(fits ? (details.issues ?? []).length : 0);
  expect(refused?.path ?? null).toBe(fits ? (details.path ?? null) : null);
});
