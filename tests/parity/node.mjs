// Apps in Node.js: reads {id, app, op, args} as lines, and answers each with a line "answer {id, outcome}".
import { createInterface } from 'node:readline';
import './app.js';
import { Room, SimulateScenarioKind } from '@livekit/rtc-node';
import { connectAgent, isRpcError, messages, waitFor } from './node.js';

const KINDS = { 'signal-reconnect': SimulateScenarioKind.SIMULATE_SIGNAL_RECONNECT, 'full-reconnect': SimulateScenarioKind.SIMULATE_FULL_RECONNECT };
const simulate = (room, scenario) => room.simulateScenario(KINDS[scenario]);
const apps = new Map();

process.on('unhandledRejection', (error) => process.stderr.write(`unhandled ${error?.stack ?? error}\n`));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, app, op, args } = JSON.parse(line);
  if (!apps.has(app)) apps.set(app, makeApp({ Room, connectAgent, isRpcError, messages, simulate, waitFor }));
  apps.get(app).do(op, args).then((outcome) => process.stdout.write(`\nanswer ${JSON.stringify({ id, outcome })}\n`));
}
process.exit(0); // the SDK would keep the process alive
