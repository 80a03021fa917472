/** A room, the client in it and what it warned of, made anew for each test of the file that imports this. Time is virtual. */

import { afterEach, beforeEach, expect, vi } from "vitest";
import { type AgentClient, connectAgent } from "../src/index.js";
import { FakeRoom } from "./fakeRoom.js";

export let room: FakeRoom;
export let client: AgentClient;
export let warned: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  warned = [];
  vi.spyOn(console, "warn").mockImplementation((text) => void warned.push(text));
  room = new FakeRoom();
  client = connectAgent(room);
});

afterEach(() => {
  client.close();
  expect(room.listening, "nothing stays registered in the room").toBe(0);
  vi.useRealTimers();
});

export const after = (ms: number) => vi.advanceTimersByTimeAsync(ms);
export const never = () => new Promise<string>(() => {});
