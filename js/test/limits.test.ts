/** What a peer may make the client keep. Time is virtual. */

import { beforeEach, expect, test } from "vitest";
import { participant } from "./fakeRoom.js";
import { after, client, room, warned } from "./stage.js";

const MIB = 2 ** 20;

let got: unknown[];

beforeEach(() => {
  room.join();
  got = [];
  client.on("form", (payload) => got.push(payload));
});

test("a message over 4 MiB is dropped as soon as that shows, and the rest of it not kept", async () => {
  const big = room
    .open()
    .write('{"key":"form","payload":"')
    .write("é".repeat(2 * MIB));
  await after(0);
  expect(client.counts.overLimit).toBe(1);
  expect(warned).toEqual([
    expect.stringMatching(/"agent" is dropped \(overLimit\): over 4194304 bytes; send a reference/),
  ]);
  big.write("more").write("more");
  await after(0);
  expect(big.unread).toBe(0);
  const head = '{"key":"form","payload":"';
  room.say(`${head}${"x".repeat(4 * MIB - head.length - 2)}"}`);
  await after(0);
  expect(got).toEqual([expect.stringMatching(/^x+$/)]);
  expect(client.counts).toMatchObject({ overLimit: 1, incomplete: 0 });
});

test("messages that are not whole have 16 MiB together, given back by those that end", async () => {
  const four = [1, 2, 3, 4].map(() => room.open().write(" ".repeat(4 * MIB)));
  await after(0);
  room.say({ key: "form", payload: "one too many" });
  await after(0);
  expect(client.counts).toMatchObject({ overLimit: 1 });
  expect(warned).toEqual([expect.stringContaining("over 16777216 bytes are not whole yet")]);
  four.pop()?.end(new Error("the sender left"));
  await after(0);
  room.say({ key: "form", payload: "fits again" });
  await after(2_000);
  expect(got).toEqual(["fits again"]);
  expect(client.counts).toMatchObject({ overLimit: 1, incomplete: 1 });
});

test("1,024 messages at once, given back by those that end; strangers take none of them", async () => {
  room.join(participant("guest", { kind: 0 }));
  const open = Array.from({ length: 1024 }, () => room.open());
  const dropped = room.say({ key: "form", payload: "one too many" });
  room.open("guest");
  await after(0);
  expect(client.counts).toMatchObject({ overLimit: 1, foreign: 1 });
  expect(dropped.unread).toBe(0);
  expect(warned[0]).toContain("over 1024 are not whole yet");
  for (const stream of open.slice(0, 2)) stream.write('{"key":"form","payload":1}').end();
  await after(0);
  room.open("guest");
  room.say({ key: "form", payload: 2 });
  await after(2_000);
  expect(got).toEqual([1, 1, 2]);
  expect(client.counts).toMatchObject({ overLimit: 1, foreign: 2 });
});

test("what is known not to be the agent's is not waited for", async () => {
  room.join(participant("guest", { kind: 0 }));
  const hung = room.open("guest").write("{");
  await after(0);
  expect(client.counts).toMatchObject({ foreign: 1, incomplete: 0 });
  expect([hung.closed, hung.unread]).toEqual([true, 0]);
});

test("after 1,024 keys the others are counted together", async () => {
  for (const begin of [0, 550]) {
    for (let n = begin; n < begin + 550; n++) room.say({ key: `k${n}` });
    await after(0);
  }
  room.say({ key: "k0" });
  await after(0);
  const { unhandled } = client.counts;
  expect([unhandled.size, unhandled.get("k0"), unhandled.get("k1023"), unhandled.get("")]).toEqual([1025, 2, 1, 76]);
});
