// A Curb agent in JavaScript, on LiveKit's SDK alone: it joins the room of LIVEKIT_TOKEN and answers the caller's app.
// To run it: npm ci, then LIVEKIT_URL=... LIVEKIT_TOKEN=... npm start
//
// Requests are calls of the RPC methods curb.message and curb.update. A refusal is an RPC error with the code as its
// message and the details as JSON in its data. What the agent says by itself is text with the topic curb.message.
import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { Room, RoomEvent, RpcError } from '@livekit/rtc-node';

const REFUSED = 4220; // the number of every refusal, outside of LiveKit's own 1001 to 1999
const REMEMBERED = 1024;

const refusal = (code, details) => new RpcError(REFUSED, code, details && JSON.stringify(details));
const invalid = (path, message) => refusal('invalid_payload', { issues: [{ path, message }] });

function quote({ plan }) {
  if (typeof plan !== 'string') throw invalid(['plan'], 'must be text');
  return { plan, price: 12 };
}

async function openForm() {
  await send('show-form', { fields: ['name', 'policy'] });
}

const handlers = new Map(Object.entries({ quote, 'open-form': openForm }));

function send(key, payload) {
  return room.localParticipant.sendText(JSON.stringify({ key, id: randomUUID(), payload }), { topic: 'curb.message' });
}

async function answer({ key, payload = {} }) {
  const handler = handlers.get(key);
  if (!handler) throw refusal('no_handler');
  if (payload === null || typeof payload !== 'object') throw invalid([], 'must be an object');
  try {
    return JSON.stringify({ reply: (await handler(payload)) ?? null });
  } catch (error) {
    if (error instanceof RpcError) throw error;
    console.error(`the handler of ${key} failed:`, error);
    throw refusal('handler_failed'); // LiveKit would say 1500, without a reason
  }
}

const answers = new Map(); // a request that is sent again, with the same id, gets the same answer

function onMessage({ callerIdentity, payload: text }) {
  const request = parse(text);
  const name = JSON.stringify([callerIdentity, request.id]);
  if (!answers.has(name)) {
    if (answers.size >= REMEMBERED) answers.delete(answers.keys().next().value);
    answers.set(name, answer(request));
    answers.get(name).catch(() => answers.delete(name)); // what was refused may be corrected and sent again
  }
  return answers.get(name);
}

function parse(text) {
  try {
    const { key, id, payload } = JSON.parse(text);
    if (typeof key === 'string' && typeof id === 'string') return { key, id, payload };
  } catch {} // no JSON at all
  throw invalid([], 'must be JSON with key, id and payload');
}

async function onUpdate() {
  throw refusal('not_adjustable'); // no setting of this agent may be changed during a call
}

async function leave() {
  // seen by the others at once, unlike the leaving itself
  const done = room.localParticipant.setAttributes({ 'curb.ready': '' });
  await Promise.race([done, setTimeout(300)]);
  await room.disconnect();
}

const room = new Room();
await room.connect(process.env.LIVEKIT_URL, process.env.LIVEKIT_TOKEN);
room.on(RoomEvent.Disconnected, () => process.exit()); // the SDK would keep the process alive
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, leave);
room.localParticipant.registerRpcMethod('curb.message', async (call) => onMessage(call));
room.localParticipant.registerRpcMethod('curb.update', onUpdate);
await room.localParticipant.setAttributes({ 'curb.ready': '1' }); // from now on no call is lost
