'use strict';
// The page of `lathe serve`. Everything from sessions becomes text nodes: no markup is ever parsed.
(() => {
const $ = id => document.getElementById(id);
const el = (tag, props = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'class') node.className = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name in node && name !== 'role') node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child != null));
  return node;
};
// Terminal sequences, control characters and characters that reorder text.
const clean = text => String(text ?? '')
  .replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g, '')
  .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu, '');
const short = (text, most) => { text = clean(text).replace(/\s+/g, ' '); return text.length > most ? text.slice(0, most - 1) + '…' : text; };

// --- Markdown ---
function inline(text, into) {
  const pattern = /(`+)([^]*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|(?<![\w*])[*_]([^*_\n]+)[*_](?![\w*])|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"')\]]+)/g;
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    into.append(text.slice(at, match.index));
    const [all, , code, bold, italic, label, target, bare] = match;
    if (code !== undefined) into.append(el('code', {}, code));
    else if (bold !== undefined) { const b = el('strong'); inline(bold, b); into.append(b); }
    else if (italic !== undefined) { const i = el('em'); inline(italic, i); into.append(i); }
    else into.append(link(target ?? bare, label ?? bare));
    at = match.index + all.length;
  }
  into.append(text.slice(at));
}
// The address is shown when the label says something else.
function link(target, label) {
  const a = el('a', { href: target, target: '_blank', rel: 'noopener noreferrer' }, label);
  if (label !== target) a.title = target;
  return a;
}
function markdown(source) {
  const out = document.createDocumentFragment();
  const lines = clean(source).split('\n');
  let i = 0;
  const paragraph = [];
  const flush = () => {
    if (!paragraph.length) return;
    const p = el('p');
    paragraph.splice(0).forEach((line, n) => { if (n) p.append(el('br')); inline(line, p); });
    out.append(p);
  };
  while (i < lines.length) {
    const line = lines[i];
    let match;
    if ((match = /^\s*(```+|~~~+)/.exec(line))) {
      flush();
      const body = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(match[1]); i++) body.push(lines[i]);
      out.append(el('pre', {}, el('code', {}, body.join('\n'))));
    } else if ((match = /^(#{1,6})\s+(.*)/.exec(line))) {
      flush();
      const h = el('h' + Math.min(6, match[1].length + 2)); inline(match[2], h); out.append(h);
    } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      flush();
      const list = el(/^\s*\d/.test(line) ? 'ol' : 'ul');
      for (; i < lines.length && (match = /^\s*(?:[-*+]|\d+[.)])\s+(.*)/.exec(lines[i])); i++) {
        const li = el('li'); inline(match[1], li);
        while (i + 1 < lines.length && /^\s{2,}\S/.test(lines[i + 1]) && !/^\s*([-*+]|\d+[.)])\s+/.test(lines[i + 1])) { li.append(el('br')); inline(lines[++i].trim(), li); }
        list.append(li);
      }
      out.append(list); i--;
    } else if (/^\s*>/.test(line)) {
      flush();
      const body = [];
      for (; i < lines.length && /^\s*>/.test(lines[i]); i++) body.push(lines[i].replace(/^\s*> ?/, ''));
      out.append(el('blockquote', {}, markdown(body.join('\n')))); i--;
    } else if (/^\s*\|.*\|\s*$/.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[i + 1] ?? '')) {
      flush();
      const cells = row => row.trim().replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());
      const table = el('table');
      const add = (row, tag) => table.append(el('tr', {}, ...cells(row).map(cell => { const td = el(tag); inline(cell, td); return td; })));
      add(line, 'th');
      for (i += 2; i < lines.length && /^\s*\|/.test(lines[i]); i++) add(lines[i], 'td');
      out.append(table); i--;
    } else if (/^\s*([-*_])\s*(\1\s*){2,}$/.test(line)) { flush(); out.append(el('hr')); }
    else if (!line.trim()) flush();
    else paragraph.push(line);
    i++;
  }
  flush();
  return out;
}
// --- Differences ---
function diffRows(before, after) {
  const a = clean(before).split('\n'), b = clean(after).split('\n');
  let from = 0, end = 0;
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const rows = [];
  a.slice(Math.max(0, from - 3), from).forEach(line => rows.push(['', '  ' + line]));
  a.slice(from, a.length - end).forEach(line => rows.push(['del', '- ' + line]));
  b.slice(from, b.length - end).forEach(line => rows.push(['add', '+ ' + line]));
  a.slice(a.length - end, a.length - end + 3).forEach(line => rows.push(['', '  ' + line]));
  return rows;
}
const diffBox = rows => el('div', { class: 'diff', role: 'group', 'aria-label': 'Changes' }, ...rows.slice(0, 2000).map(([kind, line]) => el('div', { class: kind }, line)));
const unified = text => diffBox(clean(text).split('\n').map(line => [/^(\+\+\+|---|diff |index |@@)/.test(line) ? 'file' : line[0] === '+' ? 'add' : line[0] === '-' ? 'del' : '', line]));
// Everything that a call has is shown: what isn't can't be agreed to.
function inputView(name, input) {
  const box = el('div');
  const { file_path: file, description, ...rest } = input && typeof input === 'object' ? input : {};
  if (file) box.append(el('div', { class: 'diff' }, el('div', { class: 'file' }, clean(file))));
  const shown = (view, ...fields) => { box.append(view); fields.forEach(field => delete rest[field]); };
  if (typeof rest.old_string === 'string') shown(diffBox(diffRows(rest.old_string, rest.new_string ?? '')), 'old_string', 'new_string');
  if (name === 'MultiEdit' && Array.isArray(rest.edits)) shown(el('div', {}, ...rest.edits.map(edit => diffBox(diffRows(edit.old_string ?? '', edit.new_string ?? '')))), 'edits');
  if (name === 'Write') shown(diffBox(clean(rest.content).split('\n').map(line => ['add', '+ ' + line])), 'content');
  if (typeof rest.command === 'string') shown(el('pre', {}, clean(rest.command)), 'command');
  if (Object.keys(rest).length) box.append(el('pre', {}, clean(JSON.stringify(rest, null, 2))));
  if (description) box.append(el('p', { class: 'said' }, clean(typeof description === 'string' ? description : JSON.stringify(description))));
  return box;
}
const summary = (name, input) => `${clean(name)} ${short(input?.description || input?.command || input?.file_path || input?.pattern || input?.prompt || input?.url || input?.query || '', 140)}`;

// --- State ---
let token = sessionStorage.getItem('token') || '';
let scope = sessionStorage.getItem('scope') || 'view';
const rank = { view: 0, prompt: 1, approve: 2, admin: 3 };
const may = wanted => rank[scope] >= rank[wanted];
// The relay, where the page comes from one.
let remote = null;
let entries = [], folders = [], current = null, searching = '';
const history = JSON.parse(sessionStorage.getItem('history') || '[]');
let historyAt = history.length, draft = '';
let files = [];

async function api(path, options = {}) {
  const headers = { Authorization: 'Bearer ' + token, ...options.headers };
  if (options.json !== undefined) { headers['Content-Type'] = 'application/json'; options.body = JSON.stringify(options.json); options.method = 'POST'; }
  const response = remote ? await remote.fetch(path, options) : await fetch(path, { ...options, headers, credentials: 'omit' });
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) lock();
  if (!response.ok) throw Object.assign(new Error(body.detail || response.statusText), { status: response.status, body });
  return body;
}
function lock() { if (!$('locked').open) $('locked').showModal(); }
function note(text) { $('note').textContent = text; }

// --- The list ---
async function refresh() {
  if (!token || document.hidden) return;
  try {
    const list = await api('/v1/sessions');
    entries = list.sessions; folders = list.folders;
    if (!searching) draw(entries);
    if (current) { const entry = entries.find(entry => entry.id === current.id); if (entry) { current.entry = current.socket ? { ...entry, state: current.entry.state } : entry; head(); if (!current.socket && entry.state !== 'ended' && !current.timer) current.connect(); } }
  } catch { /* The server is away; the next look finds it. */ }
}
const words = { 'needs-you': 'needs you', working: 'working', idle: 'idle', ended: 'ended' };
function draw(list, text) {
  const focused = document.activeElement?.dataset?.id;
  $('sessions').replaceChildren(...list.map(entry => el('li', {}, el('button', {
    type: 'button', 'data-id': entry.id, 'aria-current': String(current?.id === entry.id), onclick: () => open(entry),
  }, el('span', { class: 'name' }, short(entry.title || 'Untitled', 80)),
  el('span', { class: 'sub' }, el('span', { class: 'badge ' + entry.state }, words[entry.state] || entry.state), ' ', short(entry.activity || entry.hit || entry.folder || '', 90))))));
  if (!list.length) $('sessions').append(el('li', { class: 'sub' }, text || 'No sessions yet. Start one in a terminal with lathe.'));
  if (focused) $('sessions').querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
}
let searchTimer;
$('search').addEventListener('input', () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(async () => {
    searching = $('search').value.trim();
    if (!searching) return draw(entries);
    try {
      const found = await api('/v1/search?q=' + encodeURIComponent(searching));
      draw(found.map(found => ({ ...(entries.find(entry => entry.id === found.id) || { id: found.id, state: 'ended', title: found.title, folder: found.cwd }), hit: found.hits?.[0]?.snippet, activity: null })), 'Nothing found.');
    } catch (error) { draw([], error.message); }
  }, 200);
});

function wire(session) {
  const address = new URL('/v1/wire', location.href);
  address.protocol = address.protocol.replace('http', 'ws');
  address.searchParams.set('session', session);
  return new WebSocket(address, ['lathe.v1', 'lathe.token.' + token]);
}
// --- One session ---
class Session {
  constructor(entry) {
    Object.assign(this, { id: entry.id, entry, socket: null, cursor: null, pause: 0, timer: 0, closed: false, waiting: new Map(), unsent: new Map(), questions: new Map(), calls: new Map(), agents: new Map(), seen: new Set(), partial: null, oldest: null });
  }
  connect() {
    if (this.closed || this.socket) return;
    clearTimeout(this.timer); this.timer = 0;
    const socket = this.socket = remote ? remote.socket(this.id) : wire(this.id);
    socket.onopen = () => {
      socket.send(JSON.stringify({ hello: { v: 1, client: 'page', kind: 'page', ...(this.cursor && { after: this.cursor }) } }));
      for (const frame of this.unsent.values()) socket.send(frame);
    };
    socket.onmessage = message => { this.pause = 0; this.heard(); this.frame(JSON.parse(message.data)); };
    socket.onclose = () => { if (this.socket === socket) { this.socket = null; this.again(); } };
    this.heard();
  }
  // A connection that says nothing for 30 seconds is made again.
  heard() { clearTimeout(this.silence); this.silence = setTimeout(() => this.socket?.close(), 30000); }
  again() {
    if (this.closed || this.entry.state === 'ended') return;
    this.pause = Math.min(30000, Math.max(250, this.pause * 2));
    status('reconnecting');
    this.timer = setTimeout(() => { this.timer = 0; this.connect(); }, Math.random() * this.pause);
  }
  close() { this.closed = true; clearTimeout(this.timer); clearTimeout(this.silence); this.socket?.close(); this.socket = null; }
  op(op) {
    const id = crypto.randomUUID(), frame = JSON.stringify({ id, op });
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject }); this.unsent.set(id, frame);
      if (this.socket?.readyState === 1) this.socket.send(frame);
    });
  }
  frame(frame) {
    if (frame.snapshot) return this.snapshot(frame.snapshot);
    if (frame.seq !== undefined) {
      if (this.cursor && frame.seq <= this.cursor.seq) return;
      if (this.cursor) this.cursor.seq = frame.seq;
      return this.event(frame.event);
    }
    const done = this.waiting.get(frame.ack || frame.nak);
    if (done) {
      this.waiting.delete(frame.ack || frame.nak); this.unsent.delete(frame.ack || frame.nak);
      return frame.ack ? done.resolve() : done.reject(Object.assign(new Error(frame.why), frame));
    }
    if (frame.beat !== undefined) status(this.entry.state);
    if (frame.bye) { this.entry = { ...this.entry, state: 'ended' }; head(); add(el('div', { class: 'turn note' }, clean(frame.bye))); }
  }
  snapshot(snapshot) {
    this.cursor = { epoch: snapshot.epoch, seq: snapshot.seq };
    this.questions.clear(); this.calls.clear(); this.agents.clear(); this.seen.clear(); this.partial = null;
    $('log').replaceChildren(); $('questions').replaceChildren(); $('todos').hidden = true; drawAgents();
    this.oldest = snapshot.records.find(record => record.uuid)?.uuid;
    if (snapshot.records.length >= 200) older(this);
    snapshot.records.forEach(record => this.event(record));
    (snapshot.tasks || []).forEach(task => this.event(task));
    const text = (snapshot.partial || []).filter(block => block?.type === 'text').map(block => block.text).join('\n\n');
    if (text) this.stream(text);
    snapshot.questions.forEach(question => this.ask(question));
    queue(snapshot.queue || []);
    if (snapshot.init?.model) { $('model').value = snapshot.init.model; mode(snapshot.init.permissionMode); }
    this.entry = { ...this.entry, state: snapshot.state, title: snapshot.title || this.entry.title };
    head(); bottom(true);
  }
  stream(text) {
    if (!this.partial) { this.partial = { text: '', node: el('div', { class: 'turn assistant' }) }; add(this.partial.node); }
    this.partial.text += text;
    if (!this.partial.wait) this.partial.wait = requestAnimationFrame(() => { if (this.partial) { this.partial.wait = 0; this.partial.node.replaceChildren(markdown(this.partial.text)); bottom(); } });
  }
  event(event) {
    switch (event.type) {
      case 'stream_event': {
        const delta = event.event?.delta;
        if (event.event?.type === 'content_block_delta' && delta?.type === 'text_delta' && !event.parent_tool_use_id) this.stream(delta.text);
        if (event.event?.type === 'message_start') this.entry.state = 'working', head();
        break;
      }
      case 'assistant': case 'user': this.message(event); break;
      case 'result':
        this.drop(); this.entry.state = 'idle'; head();
        if (event.is_error) add(el('div', { class: 'turn error' }, clean(event.result || (event.errors || []).join('\n') || event.subtype)));
        break;
      case 'control_request': this.ask(event); break;
      case 'control_cancel_request': this.answered(event.request_id); break;
      case 'question_resolved': this.answered(event.request_id, event.by, event.reply); break;
      case 'system':
        if (event.subtype === 'queue') queue(event.queue || []);
        else if (event.subtype === 'init') { if (event.model) $('model').value = event.model; mode(event.permissionMode); }
        else if (event.subtype === 'status' && event.permissionMode) mode(event.permissionMode);
        else if (event.subtype === 'task_started') { this.agents.set(event.task_id, { name: event.description || event.task_type || 'task', parent: event.parent_task_id, phase: event.phase, state: 'running' }); drawAgents(); }
        else if (event.subtype === 'task_progress') this.used(event);
        else if (/^task_(notification|completed|ended)$/.test(event.subtype)) this.over(event);
        else if (event.subtype === 'compact_boundary') add(el('div', { class: 'turn note' }, 'The conversation was compacted.'));
    }
    bottom();
  }
  used(event) {
    const task = this.agents.get(event.task_id);
    if (task && event.usage) { task.tokens = event.usage.total_tokens; drawAgents(); }
  }
  // Agents of a workflow stay in its tree until the run is over.
  over(event) {
    const task = this.agents.get(event.task_id);
    if (task && this.agents.has(task.parent)) { task.state = clean(event.status || 'completed'); task.tokens = event.usage?.total_tokens ?? task.tokens; }
    else {
      this.agents.delete(event.task_id);
      for (const [id, child] of this.agents) if (child.parent === event.task_id) this.agents.delete(id);
    }
    drawAgents();
  }
  drop() { if (this.partial) { cancelAnimationFrame(this.partial.wait); this.partial.node.remove(); this.partial = null; } }
  message(event) {
    if (event.uuid) { if (this.seen.has(event.uuid)) return; this.seen.add(event.uuid); }
    if (event.isMeta) return;
    const content = event.message?.content ?? '';
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    if (event.type === 'assistant' && !event.parent_tool_use_id) this.drop();
    const turn = el('div', { class: `turn ${event.type}${event.parent_tool_use_id ? ' agent' : ''}` });
    for (const block of blocks) {
      if (block.type === 'text' && event.type === 'user') { const text = clean(block.text).replace(/<system-reminder>[^]*?(<\/system-reminder>|$)/g, '').trim(); if (text) turn.append(el('p', {}, text)); }
      else if (block.type === 'text') turn.append(markdown(block.text));
      else if (block.type === 'thinking' && block.thinking) turn.append(el('details', { class: 'call' }, el('summary', {}, 'Thinking'), markdown(block.thinking)));
      else if (block.type === 'image') turn.append(image(block));
      else if (block.type === 'tool_use') turn.append(this.call(block));
      else if (block.type === 'tool_result') this.outcome(block);
    }
    if (turn.childNodes.length) add(turn);
  }
  call(block) {
    if (block.name === 'TodoWrite') todos(block.input?.todos);
    const details = el('details', { class: 'call' }, el('summary', {}, summary(block.name, block.input)), inputView(block.name, block.input));
    if (typeof block.input?.old_string === 'string' || block.name === 'Write') details.open = true;
    this.calls.set(block.id, details);
    return details;
  }
  outcome(block) {
    const details = this.calls.get(block.tool_use_id);
    if (!details) return;
    if (block.is_error) details.classList.add('failed');
    const parts = typeof block.content === 'string' ? [{ type: 'text', text: block.content }] : block.content || [];
    for (const part of parts) details.append(part.type === 'image' ? image(part) : el('pre', {}, short2(part.text)));
  }
  ask(frame) {
    const request = frame.request || {};
    const show = { can_use_tool: question, elicitation: form }[request.subtype];
    if (!show || this.questions.has(frame.request_id)) return;
    const card = show(this, frame.request_id, request);
    this.questions.set(frame.request_id, card);
    $('questions').append(card);
    this.entry.state = 'needs-you'; head();
  }
  answered(id, by, reply) {
    const card = this.questions.get(id);
    if (!card) return;
    card.remove(); this.questions.delete(id);
    if (!this.questions.size) { this.entry.state = 'working'; head(); }
    const what = { allow: 'Allowed', deny: 'Denied', accept: 'Answered', decline: 'Declined', cancel: 'Put away' }[reply?.behavior || reply?.action] || 'Withdrawn';
    add(el('div', { class: 'turn note' }, `${what}${by ? ' by ' + clean(by) : ''}${reply?.message ? ': ' + short(reply.message, 200) : ''}`));
  }
}
const short2 = text => { text = clean(text); return text.length > 20000 ? text.slice(0, 20000) + '\n…' : text; };
function image(block) {
  const source = block.source || {};
  if (source.type !== 'base64' || !/^image\/(png|jpeg|gif|webp)$/.test(source.media_type) || !/^[A-Za-z0-9+/=]*$/.test(source.data)) return el('p', {}, '[image]');
  return el('img', { src: `data:${source.media_type};base64,${source.data}`, alt: 'Image in the conversation' });
}
// The card of a question, and how it is answered: once, and who was first is said.
function card(session, id, label) {
  const box = el('div');
  const card = el('section', { class: 'question', role: 'alertdialog', 'aria-label': label }, box);
  const problem = el('p', { role: 'alert' });
  const answer = async (type, answer, button) => {
    card.querySelectorAll('button').forEach(button => { button.disabled = true; });
    try { await session.op({ type, request_id: id, reply: answer }); session.answered(id, 'you', answer); }
    catch (error) {
      if (error.code === 'answered' || error.code === 'withdrawn') { session.answered(id, error.by, error.reply); note(error.code === 'answered' ? `Already answered${error.by ? ' by ' + clean(error.by) : ''}.` : 'The question was withdrawn.'); }
      else { problem.textContent = clean(error.message); card.querySelectorAll('button').forEach(button => { button.disabled = false; }); button?.focus(); }
    }
  };
  const finish = row => { if (may('approve')) box.append(row); else box.append(el('p', {}, 'This device may not answer questions.')); box.append(problem); return card; };
  return { box, answer, finish };
}
// What an MCP server asks: the fields of a form, or a page to open.
function form(session, id, request) {
  const { box, answer, finish } = card(session, id, 'Question of the server ' + clean(request.mcp_server_name));
  const reply = (reply, event) => answer('elicitation_reply', reply, event.target);
  box.append(el('h3', {}, `The server ${clean(request.mcp_server_name)} asks`), el('p', {}, clean(request.message)));
  const fields = el('form', { onsubmit: event => event.preventDefault() });
  const readers = [];
  if (request.mode === 'url') fields.append(el('pre', {}, clean(request.url)), el('p', {}, 'Open this page yourself if you trust it, then answer.'));
  else for (const [name, about] of Object.entries(request.requested_schema?.properties || {})) {
    const choices = about.enum || about.oneOf?.map(choice => choice.const);
    const required = (request.requested_schema.required || []).includes(name) && about.type !== 'boolean';
    const number = about.type === 'number' || about.type === 'integer';
    const input = choices
      ? el('select', { required }, el('option', { value: '' }, ''), ...choices.map((choice, at) => el('option', { value: String(choice) }, clean(about.enumNames?.[at] ?? about.oneOf?.[at]?.title ?? choice))))
      : el('input', { type: about.type === 'boolean' ? 'checkbox' : number ? 'number' : 'text', required });
    if (number) input.step = about.type === 'integer' ? '1' : 'any';
    if (about.type === 'boolean') input.checked = about.default === true; else if (about.default !== undefined) input.value = String(about.default);
    fields.append(el('label', { class: 'row' }, `${clean(about.title || name)}${about.description ? ' — ' + clean(about.description) : ''} `, input));
    readers.push(content => {
      if (about.type === 'boolean') content[name] = input.checked;
      else if (input.value !== '') content[name] = number ? Number(input.value) : input.value;
    });
  }
  box.append(fields);
  return finish(el('div', { class: 'row' },
    el('button', { type: 'button', class: 'yes', onclick: event => {
      if (!fields.reportValidity()) return;
      const content = {};
      readers.forEach(read => read(content));
      reply(request.mode === 'url' ? { action: 'accept' } : { action: 'accept', content }, event);
    } }, 'Answer'),
    el('button', { type: 'button', onclick: event => reply({ action: 'decline' }, event) }, 'Decline')));
}
function question(session, id, request) {
  const input = request.input || {};
  const { box, answer, finish } = card(session, id, 'Permission question: ' + clean(request.tool_name));
  const reply = (reply, button) => answer('permission_reply', reply, button);
  const row = el('div', { class: 'row' });
  if (request.tool_name === 'AskUserQuestion' && Array.isArray(input.questions)) {
    box.append(el('h3', {}, 'Lathe asks'));
    const answers = {};
    input.questions.forEach((asked, number) => {
      const kind = asked.multiSelect ? 'checkbox' : 'radio';
      const set = el('fieldset', {}, el('legend', {}, clean(asked.question)));
      (asked.options || []).forEach(option => set.append(el('label', { class: 'row' }, el('input', { type: kind, name: `${id}-${number}`, onchange: () => {
        answers[asked.question] = [...set.querySelectorAll('input:checked')].map(input => input.value).join(', ');
      }, value: option.label }), ` ${clean(option.label)}${option.description ? ' — ' + clean(option.description) : ''}`)));
      box.append(set);
    });
    row.append(el('button', { type: 'button', class: 'yes', onclick: event => reply({ behavior: 'allow', updatedInput: { ...input, answers } }, event.target) }, 'Answer'));
  } else {
    box.append(el('h3', {}, `${clean(request.display_name || request.tool_name)}: allow this?`));
    const why = request.description !== input.description && request.description || request.decision_reason;
    if (why) box.append(el('p', {}, clean(why)));
    box.append(inputView(request.tool_name, input));
    row.append(el('button', { type: 'button', class: 'yes', onclick: event => reply({ behavior: 'allow' }, event.target) }, 'Yes'));
    if (may('admin')) (request.permission_suggestions || []).forEach(suggestion => row.append(el('button', { type: 'button', onclick: event => reply({ behavior: 'allow', updatedPermissions: [suggestion] }, event.target) }, 'Yes, and ' + suggested(suggestion))));
  }
  const why = el('input', { type: 'text', placeholder: 'What to do instead', 'aria-label': 'What to do instead', onkeydown: event => { if (event.key === 'Enter') { event.preventDefault(); deny(event); } } });
  const deny = event => reply({ behavior: 'deny', message: why.value || 'The user said no.', interrupt: !why.value }, event.target);
  row.append(el('button', { type: 'button', onclick: deny }, 'No'), why);
  return finish(row);
}
function suggested(update) {
  if (update.type === 'setMode') return 'switch to ' + clean(update.mode);
  if (update.type === 'addDirectories') return 'add ' + clean((update.directories || []).join(', '));
  return 'don’t ask again for ' + short((update.rules || []).map(rule => rule.toolName + (rule.ruleContent ? `(${rule.ruleContent})` : '')).join(', '), 80);
}
function add(node) { $('log').append(node); bottom(); }
let stick = true;
$('log').addEventListener('scroll', () => { const log = $('log'); stick = log.scrollHeight - log.scrollTop - log.clientHeight < 60; });
function bottom(force) { if (force) stick = true; if (stick) $('log').scrollTop = $('log').scrollHeight; }
function todos(list) {
  $('todos').hidden = !list?.length;
  $('todos').replaceChildren(el('ul', {}, ...(list || []).map(todo => el('li', { class: clean(todo.status) }, `${{ completed: '✓', in_progress: '▸' }[todo.status] || '○'} ${clean(todo.content)}`))));
}
function drawAgents() {
  const all = current ? current.agents : new Map();
  const line = task => el('li', { class: 'task ' + task.state }, `${{ running: '⟳', completed: '✓' }[task.state] || '✗'} ${short(task.name, 100)}${task.tokens ? ` · ${task.tokens} tokens` : ''}`);
  const tree = id => {
    const own = [...all].filter(([, task]) => (all.has(task.parent) ? task.parent : undefined) === id);
    const phases = new Map();
    for (const entry of own) { const phase = id === undefined ? undefined : entry[1].phase; phases.set(phase, [...(phases.get(phase) || []), entry]); }
    return el('ul', {}, ...[...phases].flatMap(([phase, tasks]) => {
      const lines = tasks.flatMap(([key, task]) => [line(task), ...(own.length && [...all.values()].some(child => child.parent === key) ? [el('li', {}, tree(key))] : [])]);
      return phase ? [el('li', { class: 'phase' }, short(phase, 60)), ...lines] : lines;
    }));
  };
  $('agents').hidden = !all.size;
  $('agents').replaceChildren(tree(undefined));
}
function queue(list) { note(list.length ? `Waiting: ${list.map(item => short(item.text, 40)).join(' · ')}` : ''); }
function status(state) { $('state').className = 'badge ' + state; $('state').textContent = words[state] || state; }
function head() {
  const entry = current.entry;
  $('title').textContent = short(entry.title || 'Untitled', 120);
  $('where').textContent = clean(entry.folder || '');
  document.title = (entry.state === 'needs-you' ? '● ' : '') + $('title').textContent + ' · Lathe';
  status(current.socket || entry.state === 'ended' ? entry.state : 'reconnecting');
  $('interrupt').hidden = !['working', 'needs-you'].includes(entry.state) || !may('prompt');
  $('send').textContent = entry.state === 'ended' ? 'Continue' : 'Send';
  $('form').hidden = !may('prompt') || !!entry.moved;
  $('stop').hidden = entry.state === 'ended';
}
const MODES = ['default', 'acceptEdits', 'plan', 'auto', 'bypassPermissions'];
function mode(value) {
  const all = MODES.includes(value) || !value ? MODES : [...MODES, value];
  $('mode').replaceChildren(...all.map(name => el('option', { value: name, selected: name === value }, name)));
}
async function open(entry) {
  current?.close();
  current = new Session(entry);
  $('log').replaceChildren(); $('questions').replaceChildren(); $('todos').hidden = $('agents').hidden = true;
  $('session').hidden = false; $('app').dataset.view = 'session'; $('more').open = false;
  note(''); mode(); head(); draw(searching ? [] : entries); if (searching) $('search').dispatchEvent(new Event('input'));
  location.hash = 's=' + entry.id;
  if (entry.state === 'ended') await records(current); else current.connect();
  if (!matchMedia('(max-width:44rem)').matches) $('prompt').focus();
}
async function records(session, before) {
  try {
    const found = await api(`/v1/sessions/${session.id}/records?limit=100${before ? '&before=' + before : ''}`);
    if (session !== current) return;
    const log = $('log'), height = log.scrollHeight, kept = before ? [...log.childNodes] : [];
    log.replaceChildren(); stick = !before;
    session.oldest = found.records[0]?.uuid;
    if (found.more) older(session);
    found.records.forEach(record => session.message(record));
    log.append(...kept.filter(node => !node.dataset?.older));
    if (before) log.scrollTop = log.scrollHeight - height; else bottom(true);
    if (session.entry.moved) add(el('div', { class: 'turn note' }, 'Moved to ' + clean(session.entry.moved) + '.'));
  } catch (error) { add(el('div', { class: 'turn error' }, clean(error.message))); }
}
function older(session) {
  const button = el('button', { type: 'button', onclick: () => records(session, session.oldest) }, 'Show older messages');
  const holder = el('div', { class: 'turn' }, button); holder.dataset.older = '1';
  $('log').prepend(holder);
}
// --- Input ---
const grow = () => { const box = $('prompt'); box.style.height = 'auto'; box.style.height = Math.min(box.scrollHeight + 2, innerHeight * .4) + 'px'; };
$('prompt').addEventListener('input', grow);
$('prompt').addEventListener('keydown', event => {
  const box = event.target;
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && !matchMedia('(pointer:coarse)').matches) { event.preventDefault(); $('form').requestSubmit(); }
  else if (event.key === 'ArrowUp' && box.selectionStart === 0 && box.selectionEnd === 0 && historyAt > 0) { if (historyAt === history.length) draft = box.value; box.value = history[--historyAt]; grow(); box.setSelectionRange(0, 0); event.preventDefault(); }
  else if (event.key === 'ArrowDown' && box.selectionStart === box.value.length && historyAt < history.length) { box.value = ++historyAt === history.length ? draft : history[historyAt]; grow(); event.preventDefault(); }
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && current && !$('interrupt').hidden && !document.querySelector('dialog[open]')) interrupt();
  if (event.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { event.preventDefault(); $('search').focus(); }
});
$('form').addEventListener('submit', async event => {
  event.preventDefault();
  const typed = $('prompt').value.trim();
  if (!current || (!typed && !files.length)) return;
  const text = files.map(file => `@${file.path.includes(' ') ? JSON.stringify(file.path) : file.path} `).join('') + typed;
  const session = current;
  if (typed) { history.push(typed); history.splice(0, history.length - 100); sessionStorage.setItem('history', JSON.stringify(history)); }
  historyAt = history.length; draft = ''; $('prompt').value = ''; files = []; drawFiles(); grow();
  try {
    if (session.entry.state === 'ended') {
      note('Starting…');
      await api('/v1/sessions', { json: { resume: session.id, prompt: text } });
      session.entry.state = 'working'; session.connect(); note('');
    } else await session.op({ type: 'prompt', content: text });
  } catch (error) { note(clean(error.message)); if (!$('prompt').value) { $('prompt').value = typed; grow(); } }
});
const interrupt = () => current?.op({ type: 'interrupt' }).catch(error => note(clean(error.message)));
$('interrupt').addEventListener('click', interrupt);
$('mode').addEventListener('change', async () => { const wanted = $('mode').value; try { await current.op({ type: 'set_mode', mode: wanted }); note('Mode: ' + wanted); } catch (error) { note(clean(error.message)); } });
$('model').addEventListener('change', async () => { try { await current.op({ type: 'set_model', model: $('model').value.trim() }); note('Model: ' + $('model').value); } catch (error) { note(clean(error.message)); } });
$('stop').addEventListener('click', () => { if (confirm('End this session?')) current.op({ type: 'stop' }).catch(error => note(clean(error.message))); });
$('changes').addEventListener('click', async () => {
  $('more').open = false;
  try { const { diff } = await api(`/v1/sessions/${current.id}/diff`); add(el('div', { class: 'turn' }, diff ? unified(diff) : el('p', {}, 'No uncommitted changes.'))); bottom(true); } catch (error) { note(clean(error.message)); }
});
$('back').addEventListener('click', () => { $('app').dataset.view = 'list'; window.history.replaceState(null, '', '/'); });
// --- Attachments ---
function drawFiles() { $('files').replaceChildren(...files.map(file => el('li', {}, file.name, ' ', el('button', { type: 'button', 'aria-label': 'Remove ' + file.name, onclick: () => { files = files.filter(other => other !== file); drawFiles(); } }, '×')))); }
async function attach(list) {
  for (const file of list) {
    if (!current) return;
    note(`Uploading ${short(file.name, 40)}…`);
    try {
      const { path } = await api(`/v1/sessions/${current.id}/uploads?name=${encodeURIComponent(file.name || 'pasted.png')}`, { method: 'POST', body: file, headers: { 'Content-Type': 'application/octet-stream' } });
      files.push({ name: clean(file.name || 'pasted.png'), path }); drawFiles(); note('');
    } catch (error) { note(clean(error.message)); }
  }
}
$('attach').addEventListener('change', event => { attach([...event.target.files]); event.target.value = ''; });
$('prompt').addEventListener('paste', event => { const list = [...event.clipboardData.files]; if (list.length) { event.preventDefault(); attach(list); } });
$('session').addEventListener('dragover', event => { event.preventDefault(); $('session').classList.add('drop'); });
$('session').addEventListener('dragleave', () => $('session').classList.remove('drop'));
$('session').addEventListener('drop', event => { event.preventDefault(); $('session').classList.remove('drop'); attach([...event.dataTransfer.files]); });
// --- A new session ---
$('new').addEventListener('click', () => { $('folder').replaceChildren(...folders.map(folder => el('option', { value: folder }, clean(folder)))); $('start').showModal(); });
$('cancel').addEventListener('click', () => $('start').close());
$('start-form').addEventListener('submit', async event => {
  event.preventDefault();
  try {
    const { session } = await api('/v1/sessions', { json: { folder: $('folder').value, prompt: $('first').value, worktree: $('worktree').checked } });
    $('start').close(); $('first').value = '';
    await refresh();
    const entry = entries.find(entry => entry.id === session);
    if (entry) open(entry);
  } catch (error) { alert(clean(error.message)); }
});
// --- The fleet ---
let fleetTimer, fleetShown = '';
const age = seconds => seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${Math.floor(seconds / 60)} min` : seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
async function fleet() {
  clearTimeout(fleetTimer);
  if (!$('fleet').open) return;
  try {
    const board = await api('/v1/fleet');
    $('fleet-note').textContent = `${board.total} jobs · ${board.workers} workers · ${board.busy} of ${board.slots} slots busy`;
    // Drawn only where something changed, so that a button stays under the finger.
    const shown = JSON.stringify(board.jobs.map(job => ({ ...job, seconds: age(job.seconds) })));
    if (shown !== fleetShown) { fleetShown = shown; $('fleet-jobs').replaceChildren(...board.jobs.map(job)); }
    if (!board.jobs.length) $('fleet-jobs').replaceChildren(el('li', { class: 'sub' }, 'No jobs. Submit one in a terminal with lathe fleet submit.'));
  } catch (error) { $('fleet-note').textContent = clean(error.message); }
  fleetTimer = setTimeout(fleet, 2000);
}
function job(entry) {
  const act = (act, label, kind = '') => el('button', { type: 'button', class: kind, onclick: async event => {
    event.target.disabled = true;
    try { await api('/v1/fleet/' + encodeURIComponent(entry.id), { json: { act } }); fleetShown = ''; await fleet(); }
    catch (error) { event.target.disabled = false; $('fleet-note').textContent = clean(error.message); }
  } }, label);
  const row = el('div', { class: 'row' });
  if (may('approve')) {
    if (entry.question) row.append(act('allow', 'Allow', 'yes'), act('deny', 'Deny'));
    if (['queued', 'running', 'asking', 'parked'].includes(entry.state)) row.append(act('cancel', 'Cancel'));
    if (['failed', 'cancelled'].includes(entry.state)) row.append(act('retry', 'Retry'));
  }
  const facts = [entry.id, entry.worker, entry.costUsd ? '$' + entry.costUsd.toFixed(2) : '', age(entry.seconds), entry.reason].filter(Boolean).join(' · ');
  return el('li', { 'data-id': entry.id }, el('span', { class: 'badge ' + entry.state }, entry.state), ' ', short(entry.title, 200), el('p', { class: 'sub' }, short(facts, 300)),
    entry.question ? el('p', {}, short(entry.question, 500)) : null,
    entry.result ? el('details', {}, el('summary', {}, short(entry.result, 80)), markdown(short2(entry.result))) : null, row);
}
$('jobs').addEventListener('click', () => { fleetShown = ''; $('fleet').showModal(); fleet(); });
$('fleet-close').addEventListener('click', () => $('fleet').close());
// --- Start ---
const wake = () => { if (!document.hidden) { remote?.wake(); refresh(); if (current && !current.socket && current.timer) { current.pause = 0; current.connect(); } } };
addEventListener('online', wake);
document.addEventListener('visibilitychange', wake);
// Reaches the machine through the relay that served this page; a new device shows digits until it is admitted.
function relayed(given) {
  const kept = JSON.parse(sessionStorage.getItem('relay') || 'null');
  const place = given.get('r') ? { room: given.get('r'), key: given.get('k'), pairing: given.get('p'), secret: given.get('s') } : kept;
  if (!place) return null;
  return new Promise(resolve => {
    remote = new LatheRelay(place, {
      digits: digits => { $('digits').textContent = digits.slice(0, 3) + ' ' + digits.slice(3); if (!$('pairing').open) $('pairing').showModal(); },
      welcome: (welcome, place) => {
        if ($('pairing').open) $('pairing').close();
        token = place.token; scope = welcome.scope;
        sessionStorage.setItem('relay', JSON.stringify(place)); sessionStorage.setItem('scope', scope);
        resolve(true);
      },
      refused: why => { if ($('pairing').open) $('pairing').close(); note(clean(why)); lock(); resolve(false); },
      tampered: () => note('The relay changed something on the way; it was not taken.'),
    });
  });
}
// A link of a push message: shows its question, and answers it once.
async function answerLink(code) {
  const post = path => fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ code }), credentials: 'omit' }).then(async response => { const body = await response.json(); if (!response.ok) throw new Error(body.detail); return body; });
  const say = text => { $('link-text').textContent = clean(text); };
  $('link').showModal();
  try {
    const found = await post('/v1/links');
    say(found.question);
    $('link-whole').textContent = clean(found.whole);
    $('link-whole').hidden = false;
    $('link-use').textContent = found.allow ? 'Allow' : 'Deny';
    $('link-use').hidden = false;
    $('link-use').onclick = async () => { $('link-use').hidden = true; try { await post('/v1/links/use'); say(found.allow ? 'Allowed.' : 'Denied.'); } catch (error) { say(error.message); } };
  } catch (error) { say(error.message); }
}
async function begin() {
  const given = new URLSearchParams(location.hash.slice(1));
  const named = /^\/s\/([A-Za-z0-9-]+)$/.exec(location.pathname)?.[1];
  if (named && !given.get('s')) given.set('s', named);
  if (given.get('r')) window.history.replaceState(null, '', '/');
  if (await relayed(given) === false) return;
  if (given.get('a')) {
    window.history.replaceState(null, '', '/');
    return answerLink(given.get('a'));
  }
  if (given.get('c')) {
    window.history.replaceState(null, '', '/');
    try {
      const paired = await api('/v1/pair', { json: { code: given.get('c'), name: /Mobi/.test(navigator.userAgent) ? 'phone' : 'browser' } });
      token = paired.token; scope = paired.scope;
      sessionStorage.setItem('token', token); sessionStorage.setItem('scope', scope);
    } catch { return lock(); }
  }
  if (!token) return lock();
  $('new').hidden = !may('prompt');
  await refresh();
  const wanted = given.get('s') && entries.find(entry => entry.id === given.get('s') || entry.id.startsWith(given.get('s')));
  if (wanted) open(wanted);
  setInterval(refresh, 3000);
}
begin();
})();
