/** One client a room, what closing it ends, and how its errors are known. Time is virtual. */

import { expect, test, vi } from "vitest";
import {
  type AgentRefusedError,
  ClosedError,
  connectAgent,
  isAgentRefusedError,
  isAgentUnavailableError,
  isCurbError,
  isRpcError,
  messages,
  waitFor,
} from "../src/index.js";
import { ending } from "./ending.js";
import { FakeRoom } from "./fakeRoom.js";
import { after, client, never, room } from "./stage.js";

test("a room takes one client", () => {
  expect(() => connectAgent(room)).toThrow(expect.objectContaining({ name: "RoomInUseError" }));
  client.close();
  client.close();
  const next = connectAgent(room);
  client.close();
  expect(() => connectAgent(room)).toThrow("curb.message is taken; close the other client");
  next.close();
});

test("a room whose topic is taken is left as it was", () => {
  const taken = new FakeRoom();
  taken.registerTextStreamHandler("curb.message", () => {});
  expect(() => connectAgent(taken)).toThrow("curb.message is taken");
  expect(taken.listening).toBe(1);
  taken.unregisterTextStreamHandler("curb.message");
  connectAgent(taken).close();
});

test("closing ends what waits, and what is called afterwards", async () => {
  room.join();
  room.answer = never;
  const asked = ending(client.ask("quote"));
  const form = ending(waitFor(client, "form"));
  const reading = ending(messages(client, "form").next());
  await after(10);
  client.close();
  await after(0);
  expect(asked.error).toBeInstanceOf(ClosedError);
  expect(form.error).toBeInstanceOf(ClosedError);
  expect(reading.value).toEqual({ done: true, value: undefined });
  for (const call of [client.ask("quote"), waitFor(client, "form"), client.update({})])
    await expect(call).rejects.toBeInstanceOf(ClosedError);
  expect(() => client.on("form", () => {})).toThrow(ClosedError);
  expect(vi.getTimerCount()).toBe(0);
});

test("errors are known by their name, whichever realm or copy they are of", () => {
  const other = { name: "AgentRefusedError", code: "no_handler", message: "no_handler" } as AgentRefusedError;
  expect(isAgentRefusedError(other)).toBe(true);
  expect(isAgentUnavailableError(other)).toBe(false);
  expect(isCurbError(new ClosedError("closed"), "ClosedError")).toBe(true);
  for (const none of [undefined, null, "text", new Error("no"), new DOMException("no", "AbortError")]) {
    expect(isAgentRefusedError(none)).toBe(false);
    expect(isRpcError(none)).toBe(false);
  }
  expect(isRpcError(other)).toBe(false);
});
