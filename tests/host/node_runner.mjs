// A runner in JavaScript, on node:http and LiveKit's SDK alone: enough of the host protocol for a call, to show that the
// host's side takes any. Its agent answers `quote`, and shows the caller's app what the host sends as `ops.notice`.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../../examples/node-agent/package.json', import.meta.url));
const { Room, RoomEvent, RpcError } = require('@livekit/rtc-node');

const { CURB_MANAGEMENT_TOKEN: token, CURB_MANAGEMENT_ADDRESS: address = '127.0.0.1:0' } = process.env;
const maxSessions = Number(process.env.CURB_MAX_SESSIONS ?? 1);
const calls = new Map();
const lines = [];
const readers = new Set();
const seqs = new Map();
let draining = false;

class Refusal extends Error {
  constructor(status, error, more = {}) {
    super(error);
    Object.assign(this, { status, body: { error, ...more } });
  }
}

function record(producer, recordClass, body) {
  const [seq, at] = [(seqs.get(producer) ?? 0) + 1, Date.now()];
  seqs.set(producer, seq);
  const full = recordClass === 'lifecycle' ? body : { seq, at, ...body };
  lines.push(`${JSON.stringify({ envelope: lines.length + 1, producer, seq, class: recordClass, at, body: full })}\n`);
  for (const reader of readers) reader.write(lines.at(-1));
  if (recordClass === 'lifecycle') console.log(`curb-hosted ${JSON.stringify(body)}`);
}

const event = (call, name, payload) => record(call.sessionId, 'conversation', { type: 'event', name, payload });
const going = () => [...calls.values()].filter(({ state }) => state !== 'ended');
const live = ({ sessionId, state, startedAtMs }) => ({ sessionId, state, startedAtMs });

async function join(call, url, roomToken) {
  call.room = new Room();
  await call.room.connect(url, roomToken);
  call.room.on(RoomEvent.Disconnected, () => end(call, 'room_lost'));
  call.room.on(RoomEvent.ParticipantDisconnected, () => end(call, 'caller_left'));
  call.room.localParticipant.registerRpcMethod('curb.message', async ({ payload }) => {
    const { key, payload: { plan } = {} } = JSON.parse(payload);
    if (key !== 'quote') throw new RpcError(4220, 'no_handler');
    return JSON.stringify({ reply: { plan, price: 12 } });
  });
  await call.room.localParticipant.setAttributes({ 'curb.ready': '1' });
  event(call, 'curb.started', { direction: 'inbound' });
  call.state = 'connected';
}

function end(call, reason) {
  if (call.state === 'ended') return;
  call.state = 'ended';
  event(call, 'curb.messages', { undeliveredToClient: {}, refusedQueuedHostMessages: 0 });
  event(call, 'curb.ended', { reason });
  call.room.disconnect().catch(() => {});
  if (draining) finish();
}

function finish() {
  if (going().length) return;
  record('runner', 'lifecycle', { event: 'ended' });
  for (const reader of readers) reader.end();
  server.close(() => process.exit(0));
  setTimeout(() => server.closeAllConnections(), 200); // those on which the last answers are still being written
}

function held(id) {
  const call = calls.get(id);
  if (!call || call.state === 'ended') throw new Refusal(404, 'session_not_found');
  return call;
}

const routes = {
  'POST /v1/sessions'({ sessionId, realtimeUrl, realtimeToken }) {
    if (calls.has(sessionId)) return [200, { sessionId, accepted: false }];
    if (draining) throw new Refusal(503, 'runner_draining');
    if (going().length >= maxSessions) throw new Refusal(409, 'runner_at_capacity');
    const call = { sessionId, state: 'starting', startedAtMs: Date.now(), ids: new Set() };
    calls.set(sessionId, call);
    join(call, realtimeUrl, realtimeToken).catch(() => end(call, 'join_failed'));
    return [201, { sessionId, accepted: true }];
  },
  'GET /v1/sessions/:id': (_, id) => [200, live(calls.get(id) ?? held(id))],
  'DELETE /v1/sessions/:id'(_, id, query) {
    const stopped = going().some(({ sessionId }) => sessionId === id);
    if (stopped) end(calls.get(id), query.get('reason') ?? 'stopped');
    return [200, { sessionId: id, stopped }];
  },
  async 'POST /v1/sessions/:id/messages'({ id: messageId, name, payload }, id) {
    const call = held(id);
    if (name !== 'ops.notice') throw new Refusal(422, 'no_handler');
    const delivered = !call.ids.has(messageId);
    call.ids.add(messageId);
    const text = JSON.stringify({ key: 'show-notice', id: messageId, payload });
    if (delivered) await call.room.localParticipant.sendText(text, { topic: 'curb.message' });
    const said = { id: `thanks-${messageId}`, name: 'thanks', payload: { id: messageId }, expectsReply: false };
    if (delivered) record(id, 'host', { type: 'host', ...said });
    return [202, { id: messageId, delivered }];
  },
  'GET /v1/runner': () => [
    200,
    { protocolVersion: 1, maxSessions, activeSessions: going().length, draining, sessions: going().map(live) },
  ],
  'POST /v1/runner/drain'() {
    if (!draining) {
      draining = true;
      record('runner', 'lifecycle', { event: 'draining' });
      setImmediate(finish);
    }
    return [202, { draining: true, activeSessions: going().length }];
  },
};

async function answer(request, response) {
  const { pathname, searchParams } = new URL(request.url, 'http://runner');
  if (pathname === '/health') return [200, { ok: true, protocolVersion: 1, versions: [1] }];
  if (request.headers.authorization !== `Bearer ${token}`) throw new Refusal(401, 'unauthorized');
  if (!pathname.startsWith('/v1/')) throw new Refusal(404, 'unknown_version', { versions: [1] });
  if (pathname === '/v1/runner/events') {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    for (const line of lines.slice(Number(searchParams.get('from') ?? lines.length))) response.write(line);
    readers.add(response.on('close', () => readers.delete(response)));
    return undefined;
  }
  const id = decodeURIComponent(/^\/v1\/sessions\/([^/]+)/.exec(pathname)?.[1] ?? '');
  const route = routes[`${request.method} ${pathname.replace(/^\/v1\/sessions\/[^/]+/, '/v1/sessions/:id')}`];
  if (!route) throw new Refusal(404, 'not_found');
  const chunks = await request.toArray();
  return route(chunks.length ? JSON.parse(Buffer.concat(chunks)) : {}, id, searchParams);
}

const server = createServer((request, response) => {
  answer(request, response)
    .catch((error) => [error.status ?? 500, error.body ?? { error: 'internal', detail: String(error) }])
    .then((answered) => {
      if (answered) response.writeHead(answered[0], { 'content-type': 'application/json' });
      if (answered) response.end(JSON.stringify(answered[1]));
    });
});
const [host, port] = address.split(':');
server.listen(Number(port), host, () => {
  const ready = { event: 'ready', address: `${host}:${server.address().port}`, maxSessions, warmupMs: 0 };
  record('runner', 'lifecycle', ready);
});
