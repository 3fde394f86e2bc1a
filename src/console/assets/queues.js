// The list of queues, or of topics.

import { call, callInBackground, commandOf, readPage } from './api.js';
import { sparkline } from './chart.js';
import { h, pager, table } from './dom.js';
import { count, duration, number, rate } from './format.js';
import { markerOf } from './sample.js';

const REFRESH_MS = 2000;
const POINTS = 30;
/** Pause after a letter, in case another one follows. */
const TYPING_MS = 150;

/** Shows a page of the queues whose names begin with a prefix, and refreshes it. */
export async function queues(page, plural) {
  const history = new Map();
  let previous = [];
  let latest = null;
  const marker = () => page.query.get('marker') ?? '';
  const prefix = () => page.query.get('prefix') ?? '';

  let typing;
  const read = async (send = callInBackground) => {
    const isNewest = page.begin();
    const query = { with_stats: true, with_count: true, name_prefix: prefix(), marker: marker() };
    const body = await readPage({ path: `v2/${plural}`, query }, page.signal, send);
    if (!isNewest()) return;
    latest = body;
    for (const queue of body[plural]) remember(history, queue);
    draw();
  };
  const search = event => {
    page.set({ prefix: event.target.value, marker: null });
    previous = [];
    clearTimeout(typing);
    typing = setTimeout(() => page.attempt(() => read(call)), TYPING_MS);
  };
  const go = to => {
    page.set({ marker: to });
    page.attempt(() => read(call));
  };
  const draw = () => {
    const items = latest[plural];
    const next = items.length ? markerOf(latest) : null;
    page.show(h('section', {},
      h('h1', {}, plural === 'queues' ? 'Queues' : 'Topics', latest.count === undefined ? null : h('span', { class: 'faint' }, ` ${number(latest.count)}`)),
      h('form', { class: 'bar', onsubmit: event => event.preventDefault() },
        h('input', { id: 'search', type: 'search', value: prefix(), oninput: search, placeholder: 'Begins with…', 'aria-label': 'Beginning of the name', spellcheck: 'false' }),
        page.copy(() => ({ path: `v2/${plural}`, query: { with_stats: true, name_prefix: prefix(), marker: marker() } }), 'This list')),
      items.length ? list(plural, items, history) : empty(page, plural, prefix(), marker()),
      pager(marker() && (() => go(previous.pop() ?? '')), next && (() => { previous.push(marker()); go(next); }))));
    if (page.query.has('search')) {
      page.set({ search: null });
      document.getElementById('search').focus();
    }
  };
  await page.every(REFRESH_MS, () => read());
}

/** Notes the totals of a queue, from which rates follow. */
export function remember(history, { name, stats }) {
  const waiting = stats.available + stats.delayed + stats.claimed;
  const points = [...(history.get(name) ?? []), { at: Date.now(), waiting, ...stats.totals }].slice(-POINTS);
  history.set(name, points);
  return points;
}

/** Returns how fast a total grows per second, by the last points; `null` if it is not known yet. */
export function speed(points, name, over = 5) {
  const last = points?.at(-1);
  const first = points?.at(-1 - Math.min(over, points.length - 1));
  if (!last || first === last) return null;
  return Math.max(0, (last[name] - first[name]) * 1000 / (last.at - first.at));
}

function list(plural, items, history) {
  const points = queue => history.get(queue.name);
  const columns = [
    { title: 'Name', cell: queue => [h('a', { href: `#/${plural}/${encodeURIComponent(queue.name)}` }, h('bdi', {}, queue.name)), queue.stats.paused ? h('span', { class: 'tag paused' }, 'paused') : null] },
    { title: 'Available', class: 'figure', cell: queue => number(queue.stats.available) },
    { title: 'Claimed', class: 'figure', cell: queue => number(queue.stats.claimed) },
    { title: 'Delayed', class: 'figure', cell: queue => number(queue.stats.delayed) },
    { title: 'Oldest', class: 'figure', cell: queue => duration(queue.stats.oldest_age) },
    { title: 'In', class: 'figure', cell: queue => rate(speed(points(queue), 'posted')) },
    { title: 'Out', class: 'figure', cell: queue => rate(speed(points(queue), 'deleted')) },
    { title: 'Depth', class: 'figure', cell: queue => sparkline(points(queue).map(point => point.waiting), `Depth of ${queue.name}`) },
  ];
  return table(columns, items, { key: queue => queue.name, label: 'List' });
}

function empty(page, plural, prefix, marker) {
  if (marker) return h('p', {}, 'This is the end of the list.');
  if (prefix) return h('p', {}, `No name begins with “${prefix}”.`);
  const one = plural === 'queues' ? 'queue' : 'topic';
  const request = { method: 'POST', path: `v2/${plural}/hello/messages`, body: { messages: [{ body: 'Hello, world!' }] } };
  return h('div', { class: 'card' }, h('p', {}, `There are ${count(0, one)}. A ${one} exists from its first message:`),
    h('pre', { class: 'command' }, commandOf(request)),
    h('p', {}, 'Or ', h('a', { href: `#/${plural}/hello/messages?post=sample` }, 'post a sample from here'), '.'));
}
