// The messages of a queue: lists, single messages, the live tail and posting.

import { call, open, path, pause, readPage, visible } from './api.js';
import { button, dialog, facts, field, h, table } from './dom.js';
import { ago, before, countdown, duration, localTime } from './format.js';
import { breathe, parse, preview, tree, write } from './json.js';
import { redrive } from './redrive.js';
import { markerOf } from './sample.js';
import { drafts, projectShown, uuid } from './session.js';

const STATES = { echo: true, include_claimed: true, include_delayed: true, include_origin: true, include_state: true, include_trace: true };
const TAIL_KEPT = 100;
/** Time between two drawings of the live tail. */
const TAIL_MS = 250;
const SAMPLE = '{\n  "hello": "world"\n}';

/** Shows a page of messages. Reading does not consume them. */
export async function messages(page, queue) {
  const tail = { stop: null, isPaused: false, items: [], waiting: [], filter: '' };
  let latest = null;
  const order = () => page.query.get('order') ?? 'desc';
  const since = () => page.query.get('since');
  const request = () => ({ path: `${queue.path}/messages`, query: { ...STATES, order: since() ? 'asc' : order(), marker: page.marker, since: page.marker ? null : since() } });

  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal);
    if (!isNewest()) return;
    latest = await dated(body);
    draw();
  };
  const choose = values => {
    page.set({ marker: null, ...values });
    page.attempt(read);
  };
  // The messages of the tail are the newest ones.
  const endTail = () => {
    stopTail(tail, draw);
    page.attempt(read);
  };
  const chooseOrder = value => {
    document.getElementById('since').value = '';
    choose({ order: value, since: null });
  };
  const draw = () => {
    const isTailing = tail.stop !== null;
    const items = isTailing ? shownOf(tail) : latest.messages;
    const posted = () => page.attempt(read);
    page.show(
      h('p.faint', {}, 'Looking at messages does not consume them: claims and counts do not change.'),
      h('div.bar', {},
        h('select', { 'aria-label': 'Order', disabled: isTailing, onchange: event => chooseOrder(event.target.value) },
          [['desc', 'Newest first'], ['asc', 'Oldest first']].map(([value, label]) => h('option', { value, selected: value === (since() ? 'asc' : order()) }, label))),
        h('label', { for: 'since' }, 'Posted since'),
        h('input', { type: 'datetime-local', 'aria-label': 'Since', id: 'since', step: 1, disabled: isTailing, value: since() ? localTime(new Date(since())) : '', onchange: event => choose({ since: event.target.value ? new Date(event.target.value).toISOString() : null, order: 'asc' }) }),
        button(isTailing ? 'Stop the live tail' : 'Live tail', () => (isTailing ? endTail() : startTail(page, queue, tail, draw)), { 'aria-pressed': String(isTailing) }),
        button('Post a message', () => post(page, queue, posted), { class: 'primary' }),
        page.copy(request, 'This page')),
      isTailing ? tailBar(tail, draw) : null,
      items.length ? list(page, queue, items, posted) : empty(page, queue, isTailing, page.marker),
      isTailing ? null : page.pager(markerOf(latest, 'messages'), read, button('Refresh', posted)));
  };
  await page.attempt(read);
  if (page.signal.aborted) return;
  const opened = page.query.get('open');
  if (opened) await page.attempt(() => openById(page, queue, opened, () => page.attempt(read)), 'Opening the message');
  if (page.query.get('post')) {
    page.set({ post: null });
    post(page, queue, () => page.attempt(read));
  }
}

function empty(page, queue, isTailing, marker) {
  if (isTailing) return h('p.faint', {}, 'New messages appear here.');
  if (marker) return h('p', {}, 'This is the end of the list.');
  const request = { method: 'POST', path: `${queue.path}/messages`, body: { messages: [{ ttl: 86400, body: { hello: 'world' } }] } };
  return h('div.card', {}, page.empty('There are no messages. Post one, or use the button above:', request));
}

function list(page, queue, items, changed) {
  const openIt = message => show(page, queue, message, changed);
  const columns = [
    ['Message', message => h('button', { type: 'button', class: 'link', onclick: () => openIt(message), title: message.id }, h('bdi.preview', {}, preview(message))), 'body'],
    ['State', message => h('span', { class: `tag ${message.state}` }, message.state ?? 'posted')],
    ['Available in', message => (message.available_at ? countdown(message.available_at) : '–'), 'figure'],
    ['Claim count', message => message.claim_count ?? message.origin?.claim_count ?? '–', 'figure'],
    ['Posted', message => ago(message.postedAt), 'figure'],
  ];
  return table(columns, items, { key: message => message.id, label: 'Messages' });
}

/** Shows the message with this id, if it still exists. */
export async function openById(page, queue, id, changed) {
  const { body } = await call({ path: `${queue.path}/messages`, query: { ...STATES, ids: id } }, page.signal);
  if (body.messages.length) show(page, queue, (await dated(body)).messages[0], changed);
  else page.notify('This message does not exist any more.');
}

/** Shows one message in a dialog. */
export function show(page, queue, message, changed) {
  page.set({ open: message.id });
  const one = path`${message.id}`;
  const text = typeof message.body === 'string' ? h('pre.text', { dir: 'auto' }, message.body) : null;
  const removal = { method: 'DELETE', path: `${queue.path}/messages/${one}`, query: { claim_id: message.claim_id } };
  const done = () => { close(); changed?.(); };
  const close = dialog(`Message ${message.id}`,
    facts(['State', message.state ?? 'posted'],
      message.client_id ? ['Claimed by', message.client_id] : null,
      message.claim_id ? ['Claim', message.claim_id] : null,
      message.available_at ? ['Available', countdown(message.available_at)] : null,
      message.claim_count === undefined ? null : ['Claim count', message.claim_count],
      ['Posted', ago(message.postedAt)], ['Time to live', duration(message.ttl)],
      message.origin ? ['Dead letter of', h('a', { href: `#/${message.origin.topic ? 'topics' : 'queues'}/${encodeURIComponent(message.origin.queue)}` }, message.origin.queue)] : null,
      message.origin?.claim_count ? ['Reason', `It was claimed ${message.origin.claim_count === 1 ? 'once' : `${message.origin.claim_count} times`} there, but not deleted.`] : null,
      message.traceparent ? ['Trace', message.traceparent] : null),
    text ?? tree(message.body),
    h('div.bar', {},
      button('Copy the body', () => page.copyText(typeof message.body === 'string' ? message.body : write(message.body, { indent: 2 }).text, 'The body')),
      page.copy({ path: `${queue.path}/messages/${one}` }, 'Getting this message'),
      message.origin ? button('Redrive…', () => page.attempt(() => redrive(page, queue, { ids: [message.id] }, [message], done), 'Redrive'), { class: 'primary' }) : null,
      page.action('Delete', removal, { kind: 'danger', confirm: page.ask(message.claim_id ? `This deletes the message, which ${message.client_id} has claimed.` : 'This deletes the message.'), done })));
  document.querySelector('dialog:last-of-type').addEventListener('close', () => page.set({ open: null }));
}

/** Notes when the messages of a page were posted, and how they begin. */
export async function dated(page) {
  for (const message of page.messages) {
    message.postedAt = before(message.age);
    preview(message);
    await breathe();
  }
  return page;
}

function post(page, queue, posted) {
  const body = h('textarea', { rows: 10, spellcheck: 'false', 'aria-label': 'Body', oninput: () => check() });
  const draft = `${projectShown()} ${queue.path}`;
  body.value = drafts.get(draft) ?? SAMPLE;
  const ttl = h('input', { type: 'number', min: 60, placeholder: 'default' });
  const delay = h('input', { type: 'number', min: 0, placeholder: 'default' });
  const tenant = h('input', { maxlength: 128, autocomplete: 'off' });
  const state = h('p.faint', { role: 'status' });
  const value = () => {
    try {
      return { text: body.value, isJson: parse(body.value) !== undefined };
    } catch (error) {
      return { text: JSON.stringify(body.value), isJson: false, problem: error.message };
    }
  };
  const check = () => {
    drafts.set(draft, body.value);
    const { isJson, problem } = value();
    state.textContent = isJson ? 'This is valid JSON.' : `This is not JSON (${problem}), so it will be posted as a text.`;
    state.className = isJson ? 'faint' : 'warn';
  };
  const request = () => {
    const options = Object.entries({ ttl: ttl.value, delay: delay.value }).filter(([, one]) => one).map(([name, one]) => `"${name}": ${one}, `);
    if (tenant.value) options.push(`"tenant": ${JSON.stringify(tenant.value)}, `);
    return { method: 'POST', path: `${queue.path}/messages`, body: `{"messages": [{${options.join('')}"body": ${value().text}}]}` };
  };
  call({ path: queue.path }, page.signal).then(({ body: metadata }) => {
    const isOff = (input, ...keys) => { if (!keys.some(key => metadata[key])) Object.assign(input, { disabled: true, placeholder: 'not in this queue' }); };
    isOff(delay, '_enable_message_delay', '_default_message_delay');
    isOff(tenant, '_shards');
    ttl.placeholder = duration(metadata._default_message_ttl);
  }, () => {});
  // A repeated request posts nothing twice, unless the message has changed.
  let sent = {};
  const once = () => {
    const next = request();
    if (sent.body !== next.body) sent = { ...next, headers: { 'Idempotency-Key': uuid() } };
    return sent;
  };
  const close = dialog(`Post to ${queue.name}`, field('Body', body), state,
    h('div.columns', {}, field('Time to live, in seconds', ttl, 'Then the message expires, even if nobody has read it.'), field('Delay, in seconds', delay, 'Only with _enable_message_delay or _default_message_delay.'), field('Tenant', tenant, 'Only in fair queues.')),
    h('div.bar', {}, page.action('Post', once, { copied: request, kind: 'primary', done: () => { drafts.delete(draft); close(); posted(); } })));
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
  return h('div.bar', {}, h('input', { type: 'search', placeholder: 'Show only bodies with…', 'aria-label': 'Filter', oninput: filter }),
    button(tail.isPaused ? `Resume (${tail.waiting.length} new)` : 'Pause the tail', pauseIt), h('span.faint', { role: 'status' }, tail.problem ?? 'Connected.'));
}

function shownOf({ items, filter }) {
  if (!filter) return items;
  const text = message => (message.text ??= JSON.stringify(message.body).toLowerCase());
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
  if (page.signal.aborted) return;
  const stop = new AbortController();
  Object.assign(tail, { stop, items: [], waiting: [], isPaused: false, filter: '', problem: 'Connecting…' });
  page.signal.addEventListener('abort', () => stop.abort());
  let isDue = false;
  // One drawing for all messages that arrive together, and none in a hidden tab.
  const drawSoon = async () => {
    if (isDue) return;
    isDue = true;
    await pause(TAIL_MS, stop.signal);
    await visible(stop.signal);
    isDue = false;
    draw();
  };
  follow(queue, tail, stop.signal, () => drawSoon().catch(() => {})).catch(error => {
    if (stop.signal.aborted) return;
    stopTail(tail, draw);
    page.failed(error, 'Live tail', () => startTail(page, queue, tail, draw));
  });
  draw();
}

async function follow(queue, tail, signal, draw) {
  let position = { since: 'now' };
  for (;;) {
    try {
      const response = await open({ path: `${queue.path}/messages`, query: { echo: true, include_claimed: true, include_origin: true, include_trace: true, ...position } }, signal, 'text/event-stream');
      tail.problem = null;
      // A message that arrives while the stream is interrupted is not missed, even if it is the first.
      const date = new Date(response.headers.get('Date'));
      if (position.since === 'now' && !Number.isNaN(date.getTime())) position = { since: date.toISOString() };
      draw();
      for await (const message of events(response.body)) {
        position = { marker: message.id };
        await dated({ messages: [message] });
        if (!tail.isPaused) add(tail, [message]);
        else tail.waiting = [...tail.waiting, message].slice(-TAIL_KEPT);
        draw();
      }
      tail.problem = 'The stream has ended. Reconnecting…';
    } catch (error) {
      if (signal.aborted) return;
      // These do not end by themselves.
      if (error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
      tail.problem = `Reconnecting… (${error.message})`;
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
