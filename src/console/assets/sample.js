// Walks over the queues of the project, page by page, to find those that need attention. A walk
// sends at most one request in a second, and stops while the tab is hidden or shows another page.

import { callInBackground, pause, readPage } from './api.js';
import { session } from './session.js';

const PAUSE_MS = 1000;
/** Pause between two walks. */
export const REST_MS = 10000;
const GROWS_AFTER = 3;

/** What the walk has found. */
export const sample = fresh();

function fresh() {
  return { identity: null, queues: new Map(), total: null, rounds: 0, seen: new Set(), marker: '' };
}

/** Forgets what belongs to another session. */
export function forSession() {
  const identity = JSON.stringify([session.project, session.token, session.roles]);
  if (sample.identity !== identity) Object.assign(sample, fresh(), { identity });
}

/** Looks at all queues once, from where the last walk was left. Calls `found` after each page. */
export async function walk(signal, found) {
  for (;;) {
    const query = { with_stats: true, detailed: true, with_count: true, marker: sample.marker };
    const body = await readPage({ path: 'v2/queues', query }, signal, callInBackground);
    sample.total = body.count ?? 0;
    for (const queue of body.queues) {
      sample.seen.add(queue.name);
      note(queue);
    }
    const next = markerOf(body);
    if (!next || next === sample.marker) break;
    sample.marker = next;
    found();
    await pause(PAUSE_MS, signal);
  }
  for (const name of sample.queues.keys()) if (!sample.seen.has(name)) sample.queues.delete(name);
  Object.assign(sample, { rounds: sample.rounds + 1, seen: new Set(), marker: '' });
  found();
}

/** Returns the marker of the next page of a list; `null` if this is the end. */
export function markerOf(page) {
  const link = page.links?.find(one => one.rel === 'next')?.href;
  return link ? new URL(link, document.baseURI).searchParams.get('marker') : null;
}

function note(queue) {
  const known = sample.queues.get(queue.name);
  const { stats } = queue;
  const waiting = stats.available + stats.delayed + stats.claimed;
  const grown = known && waiting > known.waiting ? known.grown + 1 : 0;
  const shrunk = known && waiting < known.waiting;
  sample.queues.set(queue.name, {
    name: queue.name,
    stats,
    metadata: queue.metadata,
    waiting,
    grown: shrunk ? 0 : Math.max(grown, known?.waiting === waiting ? known.grown : 0),
    at: Date.now(),
  });
}

/** Returns the queues that need attention, the worst first, each with its reasons. */
export function attention() {
  const sources = deadLetterQueues();
  const problems = [];
  for (const queue of sample.queues.values()) {
    const reasons = [];
    const { stats } = queue;
    if (sources.has(queue.name) && queue.waiting) {
      reasons.push({ kind: 'dead', amount: queue.waiting, sources: sources.get(queue.name) });
    }
    if (stats.paused) reasons.push({ kind: 'paused' });
    if (queue.grown >= GROWS_AFTER) reasons.push({ kind: 'grows', amount: queue.waiting });
    if (reasons.length) problems.push({ queue, reasons });
  }
  return problems.sort((one, other) => other.queue.waiting - one.queue.waiting);
}

/** Returns the queues whose oldest message has waited longest. */
export function oldest(amount) {
  const waiting = [...sample.queues.values()].filter(queue => queue.stats.oldest_age !== null);
  return waiting.sort((one, other) => other.stats.oldest_age - one.stats.oldest_age).slice(0, amount);
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

/** Returns the age in seconds of the oldest figures of the sample. */
export function age() {
  let oldestAt = Date.now();
  for (const queue of sample.queues.values()) oldestAt = Math.min(oldestAt, queue.at);
  return Math.round((Date.now() - oldestAt) / 1000);
}
