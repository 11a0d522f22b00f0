'use strict';
// The page's side of a relay: a handshake signed by the host's key, then numbered and encrypted frames. The keys come
// from the fragment of the link, which no server sees.
(() => {
const VERSION = 1, PART = 65536, FRAMES = 1000, BYTES = 4 << 20, WRONG = 64;
const utf8 = text => new TextEncoder().encode(text);
const base64 = bytes => { let text = ''; bytes = new Uint8Array(bytes); for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192)); return btoa(text); };
const unbase64 = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
const url = bytes => base64(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
const unurl = text => unbase64(text.replace(/-/g, '+').replace(/_/g, '/'));
const random = count => url(crypto.getRandomValues(new Uint8Array(count)));
const sha256 = text => crypto.subtle.digest('SHA-256', utf8(text));
const hex = async text => [...new Uint8Array(await sha256(text))].map(byte => byte.toString(16).padStart(2, '0')).join('');
const bound = frame => `${frame.v}|${frame.room}|${frame.from}|${frame.to}|${frame.stream}|${frame.seq}|${frame.ack}|${(frame.part || [0, 1]).join('/')}`;
const nonce = number => { const bytes = new DataView(new ArrayBuffer(12)); bytes.setUint32(4, Math.floor(number / 2 ** 32)); bytes.setUint32(8, number >>> 0); return bytes.buffer; };
async function agree(own, answer, known, said) {
  const other = await crypto.subtle.importKey('raw', unurl(answer.e), { name: 'ECDH', namedCurve: 'P-256' }, false, []);
  const shared = await crypto.subtle.deriveBits({ name: 'ECDH', public: other }, own, 256);
  const secret = await crypto.subtle.importKey('raw', shared, 'HKDF', false, ['deriveBits']);
  const salt = await sha256(`${known}\n${said}`);
  const derive = (info, count) => crypto.subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt, info: utf8(info) }, secret, count * 8);
  const key = async (info, use) => crypto.subtle.importKey('raw', await derive(info, 32), 'AES-GCM', false, [use]);
  const number = new DataView(await derive('digits', 8)).getBigUint64(0);
  return {
    stream: url(await derive('stream', 12)), digits: String(number % 1000000n).padStart(6, '0'),
    open: await key('host to device', 'decrypt'), seal: await key('device to host', 'encrypt'),
  };
}
// `place` is {room, key} with {pairing, secret} for a new device, or {device, token}. `told` gets digits, welcome, refused and state.
class Relay {
  constructor(place, told) {
    Object.assign(this, { place, told, pause: 0, count: 0, wires: new Map(), asked: new Map(), waiting: [] });
    this.connect();
  }
  connect() {
    this.timer = 0;
    Object.assign(this, { member: random(12), channel: null, welcome: false, chain: Promise.resolve(), out: Promise.resolve() });
    const address = new URL('/v1/room', location.href);
    address.protocol = address.protocol.replace('http', 'ws');
    address.searchParams.set('room', this.place.room); address.searchParams.set('as', this.member);
    const socket = this.line = new WebSocket(address, ['lathe.relay.v1']);
    socket.onopen = () => this.greet(socket);
    socket.onmessage = message => { this.chain = this.chain.then(() => this.line === socket && this.take(JSON.parse(message.data))).catch(() => {}); };
    socket.onclose = () => { if (this.line === socket) this.lost(); };
  }
  lost() {
    clearInterval(this.greeting); clearInterval(this.ticking); this.line = null; this.channel = null; this.welcome = false;
    for (const wire of [...this.wires.values()]) { wire.readyState = 3; wire.onclose?.(); }
    for (const asked of this.asked.values()) asked.reject(new Error('The connection was lost.'));
    this.wires.clear(); this.asked.clear();
    this.pause = Math.min(30000, Math.max(250, this.pause * 2));
    this.told.state?.('away');
    if (!this.over) this.timer = setTimeout(() => this.connect(), Math.random() * this.pause);
  }
  // The network is back, or the page was woken: at once.
  wake() { if (this.timer) { clearTimeout(this.timer); this.pause = 0; this.connect(); } }
  async greet(socket) {
    const { place } = this;
    const pair = await crypto.subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, false, ['deriveBits']);
    this.own = pair.privateKey;
    this.hi = { e: url(await crypto.subtle.exportKey('raw', pair.publicKey)), n: random(32), who: place.device ? 'device:' + place.device : 'pair:' + place.pairing, name: /Mobi/.test(navigator.userAgent) ? 'phone' : 'browser' };
    this.known = place.device ? await hex(place.token) : place.secret;
    const say = () => socket.readyState === 1 && !this.channel && socket.send(JSON.stringify({ ...this.head(), stream: '', seq: 0, ack: 0, ct: base64(utf8(JSON.stringify(this.hi))) }));
    say();
    // The host may not be there yet.
    this.greeting = setInterval(say, 3000);
  }
  head() { return { v: VERSION, room: this.place.room, from: this.member, to: 'host' }; }
  async take(frame) {
    const { place, channel } = this;
    this.heard = Date.now();
    if (frame.v !== VERSION || frame.room !== place.room || frame.from !== 'host' || frame.to !== this.member) return;
    if (!frame.stream) { if (!channel) await this.answered(JSON.parse(new TextDecoder().decode(unbase64(frame.ct)))); return; }
    if (!channel || frame.stream !== channel.stream) return;
    if (!frame.ct) { for (const kept of channel.kept) if (kept.seq >= frame.ack) this.line?.send(kept.text); return; }
    if (frame.seq < channel.in) return;
    if (frame.seq > channel.in) return this.line?.send(JSON.stringify({ ...this.head(), stream: channel.stream, seq: 0, ack: channel.in, ct: '' }));
    let bytes;
    try { bytes = new Uint8Array(await crypto.subtle.decrypt({ name: 'AES-GCM', iv: nonce(frame.seq), additionalData: utf8(bound(frame)) }, channel.open, unbase64(frame.ct))); }
    catch { this.told.tampered?.(); if (++channel.wrong > WRONG) this.line?.close(); return; }
    channel.in++;
    channel.kept = channel.kept.filter(kept => kept.seq >= frame.ack);
    if (!bytes.length && !frame.part) { channel.told++; return; }
    if (channel.in - channel.told >= 8) this.say(null);
    channel.parts.push(bytes);
    if (frame.part && frame.part[0] + 1 < frame.part[1]) return;
    const whole = new Uint8Array(channel.parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of channel.parts.splice(0)) { whole.set(part, at); at += part.length; }
    this.message(JSON.parse(new TextDecoder().decode(whole)));
  }
  async answered(answer) {
    const { place, hi } = this;
    const said = `lathe relay v1\n${place.room}\n${this.member}\n${hi.e}\n${hi.n}\n${hi.who}\n${hi.name}\n${answer.e}`;
    const key = await crypto.subtle.importKey('raw', unurl(place.key), { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify']);
    if (!await crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, unurl(answer.sig), utf8(said))) return this.told.tampered?.();
    const agreed = await agree(this.own, answer, this.known, said);
    clearInterval(this.greeting);
    this.channel = { ...agreed, in: 0, next: 0, told: 0, wrong: 0, kept: [], parts: [] };
    this.pause = 0;
    this.ticking = setInterval(() => { if (this.asked.size && Date.now() - this.heard > 20000) return this.line?.close(); if (this.channel && this.channel.in > this.channel.told) this.say(null); }, 500);
    if (!place.device) this.told.digits(agreed.digits);
  }
  // Messages are encrypted one after the other, so that their numbers are in order.
  say(message) {
    const { channel, line } = this;
    if (!channel || !line) return;
    this.out = this.out.then(async () => {
      if (this.channel !== channel) return;
      const all = message === null ? new Uint8Array() : utf8(JSON.stringify(message));
      const count = Math.max(1, Math.ceil(all.length / PART));
      for (let part = 0; part < count; part++) {
        const frame = { ...this.head(), stream: channel.stream, seq: channel.next++, ack: channel.in, ...(count > 1 && { part: [part, count] }) };
        channel.told = channel.in;
        frame.ct = base64(await crypto.subtle.encrypt({ name: 'AES-GCM', iv: nonce(frame.seq), additionalData: utf8(bound(frame)) }, channel.seal, all.subarray(part * PART, (part + 1) * PART)));
        const text = JSON.stringify(frame);
        channel.kept.push({ seq: frame.seq, text });
        if (line.readyState === 1) line.send(text);
      }
      if (channel.kept.length > FRAMES || channel.kept.reduce((sum, kept) => sum + kept.text.length, 0) > 4 * BYTES) line.close();
    }).catch(() => line.close());
  }
  message(message) {
    if (message.welcome) {
      const { token, device } = message.welcome;
      if (token) this.place = { room: this.place.room, key: this.place.key, device, token };
      this.welcome = true;
      this.told.welcome(message.welcome, this.place);
      for (const go of this.waiting.splice(0)) go();
    } else if (message.refused) { this.over = true; this.told.refused(message.refused); this.line?.close(); }
    else if (message.res) { const asked = this.asked.get(message.id); this.asked.delete(message.id); asked?.resolve(message.res); }
    else if (message.wire !== undefined) this.wires.get(message.wire)?.onmessage?.({ data: message.line });
    else if (message.closed !== undefined) { const wire = this.wires.get(message.closed); this.wires.delete(message.closed); if (wire) { wire.readyState = 3; wire.onclose?.(); } }
  }
  // Calls back once the host has let this device in.
  ready(go) { if (this.welcome) go(); else this.waiting.push(go); }
  // As fetch, for the API.
  async fetch(path, options) {
    const { body } = options;
    const ask = { method: options.method || 'GET', path };
    if (typeof body === 'string') ask.body = body; else if (body) ask.base64 = base64(await body.arrayBuffer());
    const found = await new Promise((resolve, reject) => this.ready(() => { const id = ++this.count; this.asked.set(id, { resolve, reject }); this.say({ id, req: ask }); }));
    return { status: found.status, ok: found.status < 400, statusText: String(found.status), json: async () => JSON.parse(found.body) };
  }
  // As a WebSocket to a session.
  socket(session) {
    const number = ++this.count;
    const wire = {
      readyState: 0, send: line => this.say({ wire: number, line }),
      close: () => { if (this.wires.delete(number)) { this.say({ close: number }); wire.readyState = 3; wire.onclose?.(); } },
    };
    this.wires.set(number, wire);
    // Later, as with a WebSocket: whoever asked has no callbacks there yet.
    this.ready(() => setTimeout(() => { if (!this.wires.has(number)) return; this.say({ open: number, session }); wire.readyState = 1; wire.onopen?.(); }));
    return wire;
  }
}
window.LatheRelay = Relay;
})();
