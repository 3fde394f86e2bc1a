// The messages of a queue: lists, single messages, the live tail and posting.

import { call, commandOf, open, path, pause, readPage, visible } from './api.js';
import { button, dialog, facts, field, h, pager, table } from './dom.js';
import { ago, before, countdown, duration } from './format.js';
import { parse, preview, tree, write } from './json.js';
import { markerOf } from './sample.js';

const STATES = { echo: true, include_claimed: true, include_delayed: true, include_origin: true, include_state: true, include_trace: true };
const TAIL_KEPT = 200;
const SAMPLE = '{\n  "hello": "world"\n}';

/** Shows a page of messages. Reading does not consume them. */
export async function messages(page, queue) {
  const tail = { stop: null, isPaused: false, items: [], waiting: [], filter: '' };
  let latest = null;
  let previous = [];
  const order = () => page.query.get('order') ?? 'desc';
  const marker = () => page.query.get('marker');
  const since = () => page.query.get('since');
  const request = () => ({ path: `${queue.path}/messages`, query: { ...STATES, order: since() ? 'asc' : order(), marker: marker(), since: marker() ? null : since() } });

  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal);
    if (!isNewest()) return;
    latest = dated(body);
    draw();
  };
  const go = (to, isBack = false) => {
    if (!isBack) previous.push(marker() ?? '');
    page.set({ marker: to });
    page.attempt(read);
  };
  const choose = values => {
    previous = [];
    page.set({ marker: null, ...values });
    page.attempt(read);
  };
  const draw = () => {
    const isTailing = tail.stop !== null;
    const items = isTailing ? shownOf(tail) : latest.messages;
    const next = items.length ? markerOf(latest) : null;
    const posted = () => page.attempt(read);
    page.show(
      h('p', { class: 'faint' }, 'Looking at messages does not consume them: claims and counts do not change.'),
      h('div', { class: 'bar' },
        h('select', { 'aria-label': 'Order', onchange: event => choose({ order: event.target.value, since: null }) },
          [['desc', 'Newest first'], ['asc', 'Oldest first']].map(([value, label]) => h('option', { value, selected: order() === value && !since() }, label))),
        h('input', { type: 'datetime-local', 'aria-label': 'Since', step: 1, value: since() ? localTime(since()) : '', onchange: event => choose({ since: event.target.value ? new Date(event.target.value).toISOString() : null, order: 'asc' }) }),
        button(isTailing ? 'Stop the live tail' : 'Live tail', () => (isTailing ? stopTail(tail, draw) : startTail(page, queue, tail, draw)), { 'aria-pressed': String(isTailing) }),
        button('Post a message', () => post(page, queue, posted), { class: 'primary' }),
        page.copy(request, 'This page')),
      isTailing ? tailBar(tail, draw) : null,
      items.length ? list(page, queue, items, posted) : empty(page, queue, isTailing, marker()),
      isTailing ? null : pager(marker() && (() => go(previous.pop() || null, true)), next && (() => go(next)), button('Refresh', posted)));
  };
  await page.attempt(read);
  if (page.signal.aborted) return;
  const opened = page.query.get('open');
  if (opened) await page.attempt(() => openById(page, queue, opened, () => page.attempt(read)), 'Open the message');
  if (page.query.get('post')) {
    page.set({ post: null });
    post(page, queue, () => page.attempt(read));
  }
}

function empty(page, queue, isTailing, marker) {
  if (isTailing) return h('p', { class: 'faint' }, 'New messages appear here.');
  if (marker) return h('p', {}, 'This is the end of the list.');
  const request = { method: 'POST', path: `${queue.path}/messages`, body: { messages: [{ body: { hello: 'world' } }] } };
  return h('div', { class: 'card' }, h('p', {}, 'There are no messages. Post one:'), h('pre', { class: 'command' }, commandOf(request)));
}

function list(page, queue, items, changed) {
  const openIt = message => show(page, queue, message, changed);
  const columns = [
    { title: 'Message', class: 'body', cell: message => h('button', { type: 'button', class: 'link', onclick: () => openIt(message), title: message.id }, h('bdi', { class: 'preview' }, preview(message.body))) },
    { title: 'State', cell: message => h('span', { class: `tag ${message.state}` }, message.state ?? 'posted') },
    { title: 'Available', class: 'figure', cell: message => (message.available_at ? countdown(message.available_at) : '–') },
    { title: 'Claims', class: 'figure', cell: message => message.claim_count ?? message.origin?.claim_count ?? '–' },
    { title: 'Age', class: 'figure', cell: message => ago(message.postedAt) },
  ];
  return table(columns, items, { key: message => message.id, label: 'Messages' });
}

async function openById(page, queue, id, changed) {
  const { body } = await call({ path: `${queue.path}/messages`, query: { ...STATES, ids: id } }, page.signal);
  if (body.messages.length) show(page, queue, dated(body).messages[0], changed);
  else page.notify('This message does not exist any more.');
}

/** Shows one message in a dialog. */
export function show(page, queue, message, changed) {
  page.set({ open: message.id });
  const one = path`${message.id}`;
  const text = typeof message.body === 'string' ? h('pre', { class: 'text', dir: 'auto' }, message.body) : null;
  const removal = { method: 'DELETE', path: `${queue.path}/messages/${one}`, query: { claim_id: message.claim_id } };
  const done = () => { close(); changed?.(); };
  const close = dialog(`Message ${message.id}`,
    facts(['State', message.state ?? 'posted'],
      message.client_id ? ['Claimed by', message.client_id] : null,
      message.claim_id ? ['Claim', message.claim_id] : null,
      message.available_at ? ['Available', countdown(message.available_at)] : null,
      message.claim_count === undefined ? null : ['Claims so far', message.claim_count],
      ['Posted', ago(message.postedAt)], ['Time to live', duration(message.ttl)],
      message.origin ? ['Dead letter of', h('a', { href: `#/queues/${encodeURIComponent(message.origin.queue)}` }, message.origin.queue)] : null,
      message.origin ? ['Claims there', message.origin.claim_count] : null,
      message.traceparent ? ['Trace', message.traceparent] : null),
    text ?? tree(message.body),
    h('div', { class: 'bar' },
      button('Copy the body', () => page.copyText(typeof message.body === 'string' ? message.body : write(message.body, { indent: 2 }).text, 'The body')),
      page.copy({ path: `${queue.path}/messages/${one}` }, 'Reading it'),
      message.origin ? page.action('Redrive to its origin', { method: 'POST', path: `${queue.path}/redrive`, body: { ids: [message.id] } }, { kind: 'primary', done }) : null,
      page.action('Delete', removal, { kind: 'danger', done })));
  document.querySelector('dialog:last-of-type').addEventListener('close', () => page.set({ open: null }));
}

/** Notes when the messages of a page were posted. */
export function dated(page) {
  for (const message of page.messages) message.postedAt = before(message.age);
  return page;
}

// The value of a field for a time has no zone.
function localTime(text) {
  const date = new Date(text);
  return new Date(date - 60000 * date.getTimezoneOffset()).toISOString().slice(0, 19);
}

function post(page, queue, posted) {
  const body = h('textarea', { rows: 10, spellcheck: 'false', 'aria-label': 'Body', oninput: () => check() });
  body.value = SAMPLE;
  const ttl = h('input', { type: 'number', min: 60, placeholder: 'default' });
  const delay = h('input', { type: 'number', min: 0, placeholder: 'default' });
  const tenant = h('input', { maxlength: 128, autocomplete: 'off' });
  const state = h('p', { class: 'faint', role: 'status' });
  const value = () => {
    try {
      return { text: body.value, isJson: parse(body.value) !== undefined };
    } catch (error) {
      return { text: JSON.stringify(body.value), isJson: false, problem: error.message };
    }
  };
  const check = () => {
    const { isJson, problem } = value();
    state.textContent = isJson ? 'This is valid JSON.' : `This is not JSON (${problem}), so it will be posted as a text.`;
    state.className = isJson ? 'faint' : 'warn';
  };
  const request = () => {
    const options = Object.entries({ ttl: ttl.value, delay: delay.value }).filter(([, one]) => one).map(([name, one]) => `"${name}": ${one}, `);
    if (tenant.value) options.push(`"tenant": ${JSON.stringify(tenant.value)}, `);
    return { method: 'POST', path: `${queue.path}/messages`, body: `{"messages": [{${options.join('')}"body": ${value().text}}]}` };
  };
  const close = dialog(`Post to ${queue.name}`, field('Body', body), state,
    h('div', { class: 'columns' }, field('Time to live, in seconds', ttl), field('Delay, in seconds', delay), field('Tenant', tenant, 'Only in fair queues.')),
    h('div', { class: 'bar' }, page.action('Post', request, { kind: 'primary', done: () => { close(); posted(); } })));
  check();
  body.focus();
}

function tailBar(tail, draw) {
  const pauseIt = () => {
    tail.isPaused = !tail.isPaused;
    if (!tail.isPaused) add(tail, tail.waiting.splice(0));
    draw();
  };
  const filter = event => { tail.filter = event.target.value; draw(); };
  return h('div', { class: 'bar' }, h('input', { type: 'search', placeholder: 'Show only bodies with…', 'aria-label': 'Filter', oninput: filter }),
    button(tail.isPaused ? `Go on (${tail.waiting.length} more)` : 'Pause', pauseIt), h('span', { class: 'faint', role: 'status' }, tail.problem ?? 'Connected.'));
}

function shownOf({ items, filter }) {
  if (!filter) return items;
  const text = message => (message.text ??= write(message.body, { max: 65536 }).text.toLowerCase());
  return items.filter(message => text(message).includes(filter.toLowerCase()));
}

function add(tail, messages) {
  tail.items = [...messages.reverse(), ...tail.items].slice(0, TAIL_KEPT);
}

function stopTail(tail, draw) {
  tail.stop.abort();
  tail.stop = null;
  draw();
}

/** Follows the queue by fetch, so that credentials stay in headers. */
function startTail(page, queue, tail, draw) {
  const stop = new AbortController();
  Object.assign(tail, { stop, items: [], waiting: [], isPaused: false, filter: '', problem: 'Connecting…' });
  page.signal.addEventListener('abort', () => stop.abort());
  let isDue = false;
  // One drawing for all messages that arrive together.
  const drawSoon = () => {
    if (!isDue) requestAnimationFrame(() => { isDue = false; if (tail.stop === stop) draw(); });
    isDue = true;
  };
  follow(queue, tail, stop.signal, drawSoon).catch(() => {});
  draw();
}

async function follow(queue, tail, signal, draw) {
  let position = { since: 'now' };
  for (;;) {
    try {
      const response = await open({ path: `${queue.path}/messages`, query: { echo: true, include_claimed: true, include_origin: true, include_trace: true, ...position } }, signal, 'text/event-stream');
      tail.problem = null;
      draw();
      for await (const message of events(response.body)) {
        position = { marker: message.id };
        message.postedAt = before(message.age);
        if (!tail.isPaused) add(tail, [message]);
        else tail.waiting = [...tail.waiting, message].slice(-TAIL_KEPT);
        draw();
      }
      tail.problem = 'The stream has ended. Trying again…';
    } catch (error) {
      if (signal.aborted) return;
      tail.problem = `${error.message} Trying again…`;
    }
    draw();
    await pause(2000, signal);
    await visible(signal);
  }
}

async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parts.push(value);
    if (!value.includes('\n')) continue;
    const blocks = parts.splice(0).join('').split('\n\n');
    parts.push(blocks.pop());
    for (const block of blocks) {
      const data = block.split('\n').filter(line => line.startsWith('data:')).map(line => line.slice(5).trimStart()).join('\n');
      const isFailure = /^event: ?failure$/m.test(block);
      if (isFailure) throw new Error(parse(data).description);
      if (data) yield parse(data);
    }
  }
}
