/** A client that was closed can be collected while its room lives on. */

import { expect, test } from "vitest";
import { type AgentClient, connectAgent, messages, waitFor } from "../src/index.js";
import { FakeRoom } from "./fakeRoom.js";

const collected = async (reference: WeakRef<object>): Promise<boolean> => {
  for (let attempt = 0; attempt < 50 && reference.deref(); attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    globalThis.gc?.();
  }
  return !reference.deref();
};

const use = async (room: FakeRoom, signal: AbortSignal, close: boolean): Promise<WeakRef<AgentClient>> => {
  const client = connectAgent(room);
  client.on("form", () => client, { signal });
  client.onPresence(() => client);
  const form = waitFor(client, "form", { signal });
  const news = messages(client, "news", { signal });
  room.say({ key: "form" });
  await form;
  expect(await client.ask("quote", 1, { signal })).toBe(1);
  if (close) client.close();
  await news.return();
  return new WeakRef(client);
};

test("after close", async () => {
  const room = new FakeRoom();
  room.join();
  const signal = new AbortController().signal;
  const client = await use(room, signal, true);
  expect(await collected(client)).toBe(true);
  expect([room.listening, signal.aborted], "both live until here").toEqual([0, false]);
});

test("and not before, or the test above proves nothing", async () => {
  const room = new FakeRoom();
  room.join();
  const client = await use(room, new AbortController().signal, false);
  expect(await collected(client)).toBe(false);
  expect(room.listening).toBeGreaterThan(0);
});
