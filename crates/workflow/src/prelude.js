// The globals of a script. `send` hands a request over; `settle` is called with what comes back.
((send, most, mostItems) => {
  const total = most ?? null;
  const waiting = new Map();
  let next = 0;
  let used = 0;
  let nowIn;
  const known = ['label', 'phase', 'schema', 'model', 'effort', 'isolation', 'agentType'];
  const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value) ?? String(value));

  const request = (kind, body) => {
    // Made here, so that its stack names the line of the script.
    const failure = new Error('');
    const id = next++;
    // Throws if too much waits already; nothing is waited for then.
    send(kind, id, JSON.stringify(body));
    return new Promise((resolve, reject) => waiting.set(id, { resolve, reject, failure }));
  };

  const list = (name, value) => {
    if (!Array.isArray(value)) throw new TypeError(`${name} needs an array`);
    if (value.length > mostItems) throw new RangeError(`${name} takes at most ${mostItems} items, and there are ${value.length}`);
    return value;
  };

  const kept = (name, index, work) => work().catch((error) => {
    send('dropped', 0, JSON.stringify(`${name}, item ${index + 1}: ${error?.message ?? error}`));
    return null;
  });

  const globals = {
    agent(prompt, options) {
      if (typeof prompt !== 'string' || prompt.trim() === '') throw new TypeError('agent needs a prompt');
      const chosen = {};
      for (const [key, value] of Object.entries(options ?? {})) {
        if (!known.includes(key)) throw new TypeError(`agent has no option ${key}; there are ${known.join(', ')}`);
        if (value !== undefined && value !== null) chosen[key] = value;
      }
      chosen.phase ??= nowIn;
      return request('agent', [prompt, chosen]);
    },
    parallel(thunks) {
      list('parallel', thunks).forEach((thunk) => {
        if (typeof thunk !== 'function') throw new TypeError('parallel needs functions: () => agent(…)');
      });
      return Promise.all(thunks.map((thunk, index) => kept('parallel', index, async () => thunk())));
    },
    pipeline(items, ...stages) {
      list('pipeline', items);
      stages.forEach((stage) => {
        if (typeof stage !== 'function') throw new TypeError('the stages of a pipeline are functions');
      });
      return Promise.all(items.map((item, index) => kept('pipeline', index, async () => {
        let value = item;
        for (const stage of stages) value = await stage(value, item, index);
        return value;
      })));
    },
    phase(title) {
      nowIn = text(title);
      send('phase', 0, JSON.stringify(nowIn));
    },
    log(...parts) {
      send('log', 0, JSON.stringify(parts.map(text).join(' ')));
    },
    budget: Object.freeze({
      total,
      spent: () => used,
      remaining: () => (total === null ? Infinity : Math.max(0, total - used)),
    }),
    Date: function Date() { throw new Error('there is no clock in a workflow: pass times in args'); },
  };
  globals.Date.now = globals.Date.parse = globals.Date.UTC = globals.Date;
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: false, configurable: false, enumerable: true });
  }
  Object.defineProperty(Math, 'random', {
    value: () => { throw new Error('there is no randomness in a workflow: vary prompts by the index of an item'); },
    writable: false,
    configurable: false,
  });
  delete globalThis.eval;

  const nested = () => { throw new Error('a workflow that runs in another one can\'t run a third'); };
  const workflow = async (reference, given) => {
    if (typeof reference !== 'string') throw new TypeError('workflow needs a name or a path');
    const body = await request('workflow', reference);
    return body(given === undefined ? null : JSON.parse(JSON.stringify(given)), nested);
  };

  const settle = (id, good, value, tokens) => {
    const open = waiting.get(id);
    if (!open) return;
    waiting.delete(id);
    used = tokens;
    if (good) {
      open.resolve(value);
    } else {
      open.failure.message = value;
      open.reject(open.failure);
    }
  };
  return { settle, workflow, waits: () => waiting.size };
})
