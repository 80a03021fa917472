// @vitest-environment happy-dom
/** The hooks under StrictMode, which mounts everything twice; run with React 18 and 19. */

import { RoomContext } from "@livekit/components-react";
import { act, cleanup, render, screen } from "@testing-library/react";
import type { Room } from "livekit-client";
import { type ReactNode, StrictMode, useState, version } from "react";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectAgent } from "../src/index.js";
import { useAgent, useAgentMessage, useAgentPresence } from "../src/react.js";
import { FakeRoom } from "./fakeRoom.js";

/** The major version of React that these tests are to run with, see vitest.config.ts. */
declare const REACT: string;

let room: FakeRoom;
beforeEach(() => {
  room = new FakeRoom();
});
afterEach(cleanup);

const inRoom = (children: ReactNode, of = room) => (
  <StrictMode>
    <RoomContext.Provider value={of as unknown as Room}>{children}</RoomContext.Provider>
  </StrictMode>
);

const settled = () => act(() => new Promise<void>((resolve) => setTimeout(resolve, 10)));

function Quote({ log }: { log: unknown[] }) {
  const agent = useAgent();
  const { state } = useAgentPresence();
  const [form, setForm] = useState("none");
  useAgentMessage("show-form", (payload) => {
    log.push(payload);
    setForm(`form ${form} → ${(payload as { n: number }).n}`);
  });
  const ask = async () => log.push(await agent?.ask("quote", "price"));
  return (
    <button type="button" onClick={ask}>
      {state}, {form}
    </button>
  );
}

test("this is the React that is meant", () => {
  expect(version.split(".")[0]).toBe(REACT);
});

test("double mounting leaves one client, one handler, one reply", async () => {
  const log: unknown[] = [];
  room.join();
  const { unmount } = render(inRoom([<Quote key="a" log={log} />]));
  expect(() => connectAgent(room)).toThrow("is taken");
  room.say({ key: "show-form", payload: { n: 1 } });
  await settled();
  expect(log).toEqual([{ n: 1 }]);
  await act(async () => screen.getByRole("button").click());
  await settled();
  expect(log).toEqual([{ n: 1 }, "price"]);
  expect(room.requests).toHaveLength(1);
  expect(screen.getByRole("button").textContent).toBe("ready, form none → 1");
  room.say({ key: "show-form", payload: { n: 2 } });
  await settled();
  expect(screen.getByRole("button").textContent, "the newest handler").toBe("ready, form form none → 1 → 2");
  unmount();
  await settled();
  expect(room.listening, "the client is closed with its last component").toBe(0);
  connectAgent(room).close();
});

test("components share the client, and one that takes another's place keeps it", async () => {
  room.join();
  let release: (answer: string) => void = () => {};
  room.answer = () => new Promise((resolve) => (release = resolve));
  const replies: unknown[] = [];
  function Asking() {
    const agent = useAgent();
    return <button type="button" onClick={async () => replies.push(await agent?.ask("quote").catch((e) => e))} />;
  }
  function Other() {
    useAgentMessage("other", () => {});
    return null;
  }
  const { rerender, unmount } = render(inRoom([<Asking key="a" />, <Other key="b" />]));
  await act(async () => screen.getByRole("button").click());
  await settled();
  rerender(inRoom([<Other key="c" />]));
  await settled();
  release('{"reply":"kept"}');
  await settled();
  expect(replies).toEqual(["kept"]);
  unmount();
});

test("another room means another client; without a room there is none", async () => {
  const second = new FakeRoom();
  second.join("other");
  const seen: unknown[] = [];
  function Who({ of }: { of?: FakeRoom }) {
    seen.push(useAgent(of)?.presence.identity ?? "none", useAgentPresence(of).state);
    return null;
  }
  const { rerender, unmount } = render(<Who />);
  expect(seen.slice(-2)).toEqual(["none", "unconnected"]);
  room.join();
  rerender(<Who of={room} />);
  expect(seen.slice(-2)).toEqual(["agent", "active"]);
  rerender(<Who of={second} />);
  await settled();
  expect(seen.slice(-2)).toEqual(["other", "active"]);
  expect(room.listening).toBe(0);
  await act(async () => second.leave("other"));
  expect(seen.at(-1)).toBe("absent");
  unmount();
});
