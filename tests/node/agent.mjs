// A participant on @livekit/rtc-node alone, which answers, speaks, and does what it is told by calls of "do".
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AudioFrame, AudioSource, LocalAudioTrack, Room, RoomEvent, RpcError, TrackPublishOptions, TrackSource,
} from '@livekit/rtc-node';

const room = new Room();
const texts = []; // [identity, text, attributes]
const events = []; // names of what the room told
let publication, speaking = false;

for (const name of [RoomEvent.Reconnecting, RoomEvent.Reconnected, RoomEvent.TrackPublished]) {
  room.on(name, () => events.push(name));
}
room.on(RoomEvent.Disconnected, () => process.exit()); // the SDK would keep the process alive
room.registerTextStreamHandler('t', async (reader, { identity }) => {
  texts.push([identity, await reader.readAll(), reader.info.attributes]);
});

async function outcome(promise) {
  try {
    return ['ok', await promise];
  } catch ({ code, message, data }) {
    return ['failed', { code, message, data }];
  }
}

const actions = {
  ask: (options) => outcome(room.localParticipant.performRpc(options)),
  text: async ({ text, options }) => void (await room.localParticipant.sendText(text, options)),
  attributes: async (attributes) => void (await room.localParticipant.setAttributes(attributes)),
  told: () => ({ texts, events }),
  seen: (identity) => {
    const { kind, attributes } = room.remoteParticipants.get(identity);
    return { kind, attributes };
  },
  async speak() {
    const source = new AudioSource(48000, 1);
    const track = LocalAudioTrack.createAudioTrack('voice', source);
    const options = new TrackPublishOptions({ source: TrackSource.SOURCE_MICROPHONE });
    publication = await room.localParticipant.publishTrack(track, options);
    speaking = true;
    (async () => {
      while (speaking) await source.captureFrame(AudioFrame.create(48000, 1, 480));
      await source.close();
    })();
    return publication.sid;
  },
  async hush() {
    speaking = false;
    await sleep(50); // for the last frame
    await room.localParticipant.unpublishTrack(publication.sid);
  },
};

await room.connect(process.env.LIVEKIT_URL, process.env.LIVEKIT_TOKEN);
const methods = {
  echo: ({ callerIdentity, payload }) => `${callerIdentity}:${payload}`,
  count: ({ payload }) => String(payload.length),
  refuse: () => { throw new RpcError(4220, 'invalid_payload', '{"issues":[]}'); },
  fail: () => { throw new Error('a bug'); },
  do: async ({ payload }) => {
    const [action, argument] = JSON.parse(payload);
    return JSON.stringify((await actions[action](argument)) ?? null);
  },
};
for (const [name, answer] of Object.entries(methods)) {
  room.localParticipant.registerRpcMethod(name, async (call) => answer(call));
}
await room.localParticipant.setAttributes({ ready: '1' });
