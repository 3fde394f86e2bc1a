// Walks over the queues and topics of the project, page by page, to find those that need attention. A
// walk reads at most one page in a second, and stops while the tab is hidden or shows another page.

import { callInBackground, pause, readPage } from './api.js';
import { waiting } from './format.js';
import { identityKey } from './session.js';

const PAUSE_MS = 1000;
/** Pause between two walks. */
export const REST_MS = 10000;
const GROWS_AFTER = 3;
const LISTS = ['queues', 'topics'];

/** What the walk has found. */
export const sample = fresh();

// `queues` has an item for each queue and topic, by its route. `failing` has the number of failing
// subscriptions by the same route, and `checked` is the route whose subscriptions were read last.
function fresh() {
  return { identity: null, queues: new Map(), total: null, rounds: 0, seen: new Set(), list: 0, marker: '', failing: new Map(), checked: '', checks: 0 };
}

/** Forgets what belongs to another session. */
export function forSession() {
  const identity = identityKey();
  if (sample.identity !== identity) Object.assign(sample, fresh(), { identity });
}

/** Returns the part of an address that names a queue or a topic. */
export function routeOf(plural, name) {
  return `${plural}/${encodeURIComponent(name)}`;
}

/** Looks at all queues once, from where the last walk was left. Calls `found` after each page. */
export async function walk(signal, found) {
  while (sample.list < LISTS.length) {
    const plural = LISTS[sample.list];
    const body = await readStatistics(plural, { detailed: true, with_count: true, marker: sample.marker }, signal, callInBackground);
    if (plural === 'queues') sample.total = body.count ?? 0;
    for (const queue of body[plural]) note(plural, queue);
    const next = markerOf(body, plural);
    if (next && next !== sample.marker) sample.marker = next;
    else Object.assign(sample, { list: sample.list + 1, marker: '' });
    found();
    if (sample.list < LISTS.length) await pause(PAUSE_MS, signal);
  }
  for (const route of sample.queues.keys()) if (!sample.seen.has(route)) sample.queues.delete(route);
  Object.assign(sample, { rounds: sample.rounds + 1, seen: new Set(), list: 0 });
  found();
}

/**
 * Reads a page of a list with statistics. If the service cannot read those of all its queues, the page
 * has none, and `failure` says why. For example, one of them is in a pool that does not respond.
 */
export async function readStatistics(plural, query, signal, send) {
  const path = `v2/${plural}`;
  try {
    return await readPage({ path, query: { with_stats: true, ...query } }, signal, send);
  } catch (failure) {
    if (failure.status !== 503) throw failure;
    return { ...await readPage({ path, query: { ...query, detailed: null } }, signal, send), failure };
  }
}

/** Returns the marker of the next page of a list, whose items have this name; `null` if this is the end. */
export function markerOf(page, items) {
  // An empty page has a link, too.
  const link = page[items].length ? page.links?.find(one => one.rel === 'next')?.href : null;
  return link ? new URL(link, document.baseURI).searchParams.get('marker') : null;
}

function note(plural, { name, stats, metadata }) {
  const route = routeOf(plural, name);
  const known = sample.queues.get(route);
  sample.seen.add(route);
  if (!stats) {
    sample.queues.set(route, { ...known, plural, name, route, isUnknown: true });
    return;
  }
  const amount = waiting(stats);
  // Nobody claims the messages of a topic, so they stay until they expire.
  const isLarger = plural === 'queues' && amount > (known?.waiting ?? amount);
  const grown = isLarger ? (known.grown ?? 0) + 1 : 0;
  sample.queues.set(route, { plural, name, route, stats, metadata, waiting: amount, grown, at: Date.now() });
}

/** Returns the queues that need attention, each with its reasons, by their number of messages. */
export function attention() {
  const sources = deadLetterQueues();
  const problems = [];
  for (const queue of sample.queues.values()) {
    const reasons = [];
    const origins = queue.plural === 'queues' && sources.get(queue.name);
    if (origins && queue.waiting) reasons.push({ kind: 'dead', amount: queue.waiting, sources: origins });
    if (queue.isUnknown) reasons.push({ kind: 'unknown' });
    if (queue.stats?.paused) reasons.push({ kind: 'paused' });
    if (queue.grown >= GROWS_AFTER) reasons.push({ kind: 'grows', amount: queue.waiting });
    const amount = sample.failing.get(queue.route);
    if (amount) reasons.push({ kind: 'subscriptions', amount });
    if (reasons.length) problems.push({ queue, reasons });
  }
  return problems.sort((one, other) => (other.queue.waiting ?? 0) - (one.queue.waiting ?? 0));
}

/** Returns the queues whose oldest message has waited longest. */
export function oldest(amount) {
  return highest(amount, queue => queue.stats?.oldest_age);
}

/** Returns the queues with the most messages. */
export function largest(amount) {
  return highest(amount, queue => queue.waiting || null);
}

function highest(amount, figure) {
  const found = [...sample.queues.values()].filter(queue => queue.plural === 'queues' && typeof figure(queue) === 'number');
  return found.sort((one, other) => figure(other) - figure(one)).slice(0, amount);
}

/** Returns the dead-letter queues with the queues whose dead letters they receive. */
export function deadLetterQueues() {
  const found = new Map();
  for (const queue of sample.queues.values()) {
    const target = queue.metadata?._dead_letter_queue;
    if (target && !found.has(target)) found.set(target, []);
    if (target) found.get(target).push(queue.name);
  }
  return found;
}

/** Returns the time of the oldest figures of the sample. */
export function readAt() {
  let oldestAt = Date.now();
  for (const queue of sample.queues.values()) oldestAt = Math.min(oldestAt, queue.at ?? oldestAt);
  return new Date(oldestAt);
}

/** Returns the queue or topic whose subscriptions are to be looked at next, if there is one. */
export function nextToCheck() {
  const routes = [...sample.queues.keys()];
  const at = routes.indexOf(sample.checked) + 1;
  if (at >= routes.length && sample.rounds) sample.checks += 1;
  return sample.queues.get(routes[at] ?? routes[0]);
}

/** Notes how many subscriptions of a queue fail. */
export function noteFailing(route, amount) {
  sample.checked = route;
  if (amount) sample.failing.set(route, amount);
  else sample.failing.delete(route);
}
