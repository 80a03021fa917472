// A caller's page on livekit-client alone, for every version of it that the tests run with.
const { DisconnectReason, Room, RoomEvent, RpcError } = LivekitClient;

const TOLD = [
  RoomEvent.Connected, RoomEvent.Reconnecting, RoomEvent.SignalReconnecting, RoomEvent.Reconnected,
  RoomEvent.Disconnected, RoomEvent.ParticipantConnected, RoomEvent.ParticipantDisconnected,
  RoomEvent.ParticipantAttributesChanged, RoomEvent.TrackPublished, RoomEvent.TrackUnpublished,
  RoomEvent.TrackSubscribed, RoomEvent.TrackMuted, RoomEvent.TrackUnmuted, RoomEvent.LocalTrackPublished,
];
const events = []; // [name, ...arguments] of what the room told
const texts = []; // [identity, text, attributes]
const packets = []; // [identity, text, topic]
let room;

function plain(value) {
  if (value === null || typeof value !== 'object') return value;
  return value.identity ?? value.trackName ?? value.kind ?? { ...value };
}

function makeRoom() {
  room = new Room();
  for (const name of TOLD) {
    room.on(name, (...args) => {
      if (name === RoomEvent.Disconnected) args = [DisconnectReason[args[0]]];
      events.push([name, ...args.map(plain)]);
    });
  }
  room.on(RoomEvent.DataReceived, (data, sender, kind, topic) => {
    packets.push([sender?.identity, new TextDecoder().decode(data), topic]);
  });
  room.registerTextStreamHandler('t', async (reader, { identity }) => {
    texts.push([identity, await reader.readAll(), reader.info.attributes]);
  });
  const methods = {
    echo: (call) => `${call.callerIdentity}:${call.payload}`,
    count: (call) => String(call.payload.length),
    fill: (call) => filling(Number(call.payload)),
    refuse: () => { throw new RpcError(4220, 'invalid_payload', '{"issues":[]}'); },
    fail: () => { throw new Error('a bug'); },
  };
  for (const [name, answer] of Object.entries(methods)) {
    room.localParticipant.registerRpcMethod(name, async (call) => answer(call));
  }
}

async function join(url, token) {
  makeRoom();
  await room.connect(url, token);
  await room.localParticipant.setAttributes({ ready: '1' });
  return room.localParticipant.sid;
}

function filling(bytes) {
  // that compression cannot shrink much
  const random = crypto.getRandomValues(new Uint8Array(Math.min(bytes, 65536)));
  return Array.from(random, (value) => (value % 36).toString(36)).join('');
}

// What a promise comes to: ['ok', value], or the error.
async function outcome(promise) {
  try {
    return ['ok', await promise];
  } catch (error) {
    const { name, message, code, data, reason, status } = error;
    return ['failed', { name, message, code, data, reason, status }];
  }
}

const ask = (destinationIdentity, method, payload, responseTimeout = 30_000) =>
  outcome(room.localParticipant.performRpc({ destinationIdentity, method, payload, responseTimeout }));

function seen(identity) {
  const participant = room.remoteParticipants.get(identity);
  if (!participant) return null;
  const { sid, kind, name, metadata, attributes } = participant;
  const tracks = [...participant.trackPublications.values()];
  return {
    sid, kind, name, metadata, attributes: { ...attributes },
    tracks: tracks.map((each) => [each.trackName, each.kind, each.source, each.isMuted, each.isSubscribed]),
  };
}
