// @vitest-environment happy-dom
/** The hooks under StrictMode, which mounts everything twice; run with React 18 and 19. */

import { RoomContext } from "@livekit/components-react";
import { act, cleanup, render, screen } from "@testing-library/react";
import type { Room } from "livekit-client";
import { Component, type ReactNode, StrictMode, useEffect, useState, version } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
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

test("what is sent for a room never goes to the one before", async () => {
  const second = new FakeRoom();
  for (const each of [room, second]) each.join();
  const seen: [isFirst: boolean, state: string][] = [];
  function Kept() {
    useAgent(room);
    return null;
  }
  function Hello({ of }: { of: FakeRoom }) {
    const agent = useAgent(of);
    seen.push([of === room, useAgentPresence(of).state]);
    useEffect(() => {
      agent?.ask("hello", of === room);
    }, [agent, of]);
    return null;
  }
  const app = (of: FakeRoom) => [<Kept key="kept" />, <Hello key="hello" of={of} />];
  const { rerender, unmount } = render(app(room));
  await settled();
  rerender(app(second));
  await settled();
  const sent = [room, second].map(({ requests }) => requests.map(({ payload }) => JSON.parse(payload).payload));
  expect(sent).toEqual([[true], [false]]);
  expect(seen.find(([isFirst]) => !isFirst)).toEqual([false, "unconnected"]);
  unmount();
});

class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError = (error: Error) => ({ error });
  override render = () => this.state.error?.name ?? this.props.children;
}

// React 18's development build runs effects in an event of its own; happy-dom lets an error out of it, which React does
// not survive.
test.skipIf(REACT === "18")("a hook that throws leaves the room to the next client", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {}); // React tells of the error
  function Bad() {
    useAgentMessage("", () => {});
    return null;
  }
  const { container, unmount } = render(
    <Boundary>
      <Bad />
    </Boundary>,
    { wrapper: ({ children }) => inRoom(children) },
  );
  await settled();
  expect(container.textContent).toBe("InvalidKeyError");
  expect(room.listening).toBe(0);
  connectAgent(room).close();
  unmount();
});

test("a component that closes the client does not close it for those that come after", async () => {
  room.join();
  const log: unknown[] = [];
  function Closing() {
    const agent = useAgent();
    useEffect(() => {
      agent?.ask("quote", "price").then(
        (reply) => log.push(reply),
        (error) => log.push(error.name),
      );
      return () => agent?.close();
    }, [agent]);
    return null;
  }
  function Other() {
    useAgentPresence();
    return null;
  }
  const { rerender, unmount } = render(inRoom([<Other key="o" />, <Closing key="a" />]));
  await settled();
  log.length = 0; // StrictMode has closed it once already
  rerender(inRoom([<Other key="o" />]));
  await settled();
  rerender(inRoom([<Other key="o" />, <Closing key="b" />]));
  await settled();
  expect(log.at(-1)).toBe("price");
  unmount();
  await settled();
  expect(room.listening).toBe(0);
});

test("a render does not make others render", async () => {
  const complaints: unknown[] = [];
  vi.spyOn(console, "error").mockImplementation((...complaint) => void complaints.push(complaint));
  room.join();
  let renderAgain = () => {};
  function First() {
    const [times, setTimes] = useState(0);
    renderAgain = () => setTimes(times + 1);
    return useAgentPresence(room).state;
  }
  function Second() {
    return useAgentPresence(room).state;
  }
  const { container, unmount } = render([<First key="1" />, <Second key="2" />]);
  await settled();
  expect(container.textContent).toBe("activeactive");
  room.remoteParticipants.delete("agent"); // while livekit-client reconnects, its event comes later
  await act(async () => renderAgain());
  await settled();
  expect(complaints).toEqual([]);
  room.happens("participantDisconnected");
  await settled();
  expect(container.textContent).toBe("absentabsent");
  unmount();
});
