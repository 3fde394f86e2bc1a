// The list of queues, or of topics.

import { call, callInBackground, readPage } from './api.js';
import { sparkline } from './chart.js';
import { h, table } from './dom.js';
import { duration, number, rate, waiting } from './format.js';
import { markerOf, readStatistics, routeOf } from './sample.js';

const REFRESH_MS = 2000;
const POINTS = 30;
/** Pause after a letter, in case another one follows. */
const TYPING_MS = 150;

/** Shows a page of the queues whose names begin with a prefix, and refreshes it. */
export async function queues(page, plural) {
  const history = new Map();
  let latest = null;
  const prefix = () => page.query.get('prefix') ?? '';

  let typing;
  const read = async (send = callInBackground) => {
    const isNewest = page.begin();
    const query = { with_count: true, name_prefix: prefix(), marker: page.marker };
    const body = await readStatistics(plural, query, page.signal, send);
    if (!isNewest()) return;
    latest = body;
    for (const queue of body[plural]) if (queue.stats) remember(history, queue);
    draw();
  };
  const search = event => {
    page.set({ prefix: event.target.value, marker: null });
    clearTimeout(typing);
    typing = setTimeout(() => page.attempt(() => read(call)), TYPING_MS);
  };
  // The list may not show the matches yet.
  const openFirst = async () => {
    const body = await page.attempt(() => readPage({ path: `v2/${plural}`, query: { name_prefix: prefix(), marker: page.marker, limit: 1 } }, page.signal));
    const first = body?.[plural][0];
    if (first && !page.signal.aborted) location.hash = `#/${routeOf(plural, first.name)}`;
  };
  const draw = () => {
    const items = latest[plural];
    page.show(h('section', {},
      h('h1', {}, plural === 'queues' ? 'Queues' : 'Topics', latest.count === undefined ? null : h('span.faint', {}, ` ${number(latest.count)}`)),
      h('form.bar', { onsubmit: event => { event.preventDefault(); openFirst(); } },
        h('input', { id: 'search', type: 'search', value: prefix(), oninput: search, placeholder: 'Begins with…', 'aria-label': 'Beginning of the name', spellcheck: 'false' }),
        page.copy(() => ({ path: `v2/${plural}`, query: { with_stats: true, name_prefix: prefix(), marker: page.marker } }), 'This list')),
      latest.failure ? h('p.warn', {}, `The statistics are not available. ${latest.failure.message}`) : null,
      items.length ? list(plural, items, history) : empty(page, plural, prefix(), page.marker),
      page.pager(markerOf(latest, plural), () => read(call))));
    if (page.query.has('search')) {
      page.set({ search: null });
      document.getElementById('search').focus();
    }
  };
  await page.every(REFRESH_MS, () => read());
}

/** Returns a queue or a topic with its statistics, or `undefined` if it does not exist. */
export async function find(plural, name, signal, send = call) {
  const body = await readPage({ path: `v2/${plural}`, query: { with_stats: true, name_prefix: name, limit: 1 } }, signal, send);
  return body[plural].find(one => one.name === name);
}

/** Notes the totals of a queue, from which rates follow. */
export function remember(history, { name, stats }) {
  const points = [...(history.get(name) ?? []), { at: Date.now(), messages: waiting(stats), ...stats.totals }].slice(-POINTS);
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
  const points = queue => history.get(queue.name) ?? [];
  const columns = [
    ['Name', queue => [h('a', { href: `#/${routeOf(plural, queue.name)}` }, h('bdi', {}, queue.name)), queue.stats?.paused ? h('span.tag.paused', {}, 'paused') : null]],
    ['Available', queue => number(queue.stats?.available), 'figure'],
    ['Claimed', queue => number(queue.stats?.claimed), 'figure'],
    ['Delayed', queue => number(queue.stats?.delayed), 'figure'],
    ['Oldest available', queue => duration(queue.stats?.oldest_age), 'figure'],
    ['Posted', queue => rate(speed(points(queue), 'posted')), 'figure'],
    ['Deleted', queue => rate(speed(points(queue), 'deleted')), 'figure'],
    ['Messages', queue => sparkline(points(queue), 'messages', `Messages of ${queue.name}`), 'figure'],
  ];
  return table(columns, items, { key: queue => queue.name, label: 'List' });
}

function empty(page, plural, prefix, marker) {
  if (marker) return h('p', {}, 'This is the end of the list.');
  if (prefix) return h('p', {}, `No name begins with “${prefix}”.`);
  const one = plural === 'queues' ? 'queue' : 'topic';
  return h('div.card', {}, firstMessage(page, plural, `There are no ${plural}. The first message creates the ${one}:`));
}

/** Says that there are no queues yet, and how to post the first message. */
export function firstMessage(page, plural, text) {
  const request = { method: 'POST', path: `v2/${plural}/hello/messages`, body: { messages: [{ ttl: 86400, body: 'Hello, world!' }] } };
  return [page.empty(text, request), h('p.faint', {}, 'A message without a ttl expires after one hour, unless the service or the queue has another default.'), h('p', {}, 'Or ', h('a', { href: `#/${plural}/hello/messages?post=sample` }, 'post a sample from here'), '.')];
}
