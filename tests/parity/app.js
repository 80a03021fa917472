// A caller's app that is told what to do, in a page and in Node.js alike; apps.py has the same in Python.
// makeApp(...).do(op, args) resolves to ["ok", value] or ["failed", {name, ...}].
globalThis.makeApp = ({ Room, connectAgent, isRpcError, messages, simulate, waitFor }) => {
  const TOLD = ['code', 'path', 'issues', 'size', 'limit', 'state'];
  const logs = new Map(); // by name: [payload, sender] of each message
  const stops = new Map();
  const states = [];
  let room = new Room();
  let agent;

  const ms = ({ timeout, ...others } = {}) => ({ ...others, timeoutMs: timeout === undefined ? undefined : timeout * 1000 });
  const odd = { '<NaN>': NaN, '<2^53>': 2 ** 53, '<lone surrogate>': '\ud800' };
  const revived = (value) => JSON.parse(JSON.stringify(value), (_, each) => (typeof each === 'string' && each in odd ? odd[each] : each));
  const plain = (error) => {
    const told = Object.fromEntries(TOLD.filter((name) => error[name] !== undefined).map((name) => [name, error[name]]));
    if (told.issues?.length === 0) delete told.issues;
    return { name: isRpcError(error) ? 'RpcError' : error.name, ...told };
  };

  const ops = {
    async connect(url, token) {
      await room.connect(url, token);
      await room.localParticipant.setAttributes({ here: '1' }); // so that the others hear of it at once
    },
    connection: () => room.state,
    disconnect: () => room.disconnect(),
    async simulate(scenario) {
      const back = new Promise((resolve) => room.once('reconnected', resolve));
      await simulate(room, scenario);
      await back;
      // livekit-client says so a moment too early: what is sent then is lost.
      while (room.engine?.attemptingReconnect) await new Promise((resolve) => setTimeout(resolve, 10));
    },
    open(agentIdentity) {
      logs.clear();
      agent = connectAgent(room, { agentIdentity: agentIdentity ?? undefined });
      states.splice(0, Infinity, agent.presence.state);
      agent.onPresence(({ state }) => states.push(state));
    },
    second: () => void connectAgent(room),
    close: () => agent.close(),
    send: (key, payload, options) => agent.send(key, revived(payload), ms(options)),
    ask: (key, payload, options) => agent.ask(key, revived(payload), ms(options)),
    askNothing: (key) => agent.ask(key),
    update: (settings, options) => agent.update(settings, ms(options)),
    waitFor: (key, options) => waitFor(agent, key, ms(options)),
    on(key, name) {
      if (!logs.has(name)) logs.set(name, []);
      stops.set(name, agent.on(key, (payload, { senderIdentity }) => void logs.get(name).push([payload, senderIdentity])));
    },
    off: (name) => stops.get(name)(),
    log: (name) => logs.get(name),
    async messages(key, count) {
      const found = [];
      for await (const [payload] of messages(agent, key)) if (found.push(payload) === count) break;
      return found;
    },
    presence: () => ({ state: agent.presence.state, identity: agent.presence.identity }),
    told: () => states,
    counts: () => ({ ...agent.counts, over_limit: agent.counts.overLimit, unhandled: Object.fromEntries(agent.counts.unhandled) }),
  };

  return {
    async do(op, args) {
      try {
        return ['ok', (await ops[op](...args)) ?? null];
      } catch (error) {
        return ['failed', plain(error)];
      }
    },
  };
};
