// The first page: what needs attention.

import { callInBackground, commandOf, open, path, pause } from './api.js';
import { h, table } from './dom.js';
import { ago, count, duration, number } from './format.js';
import { REST_MS, age, forSession, attention as problems, oldest, sample, walk } from './sample.js';
import { session } from './session.js';
import { readDelivery } from './subscriptions.js';

const OLDEST_SHOWN = 10;
const ROWS_MAX = 100;
const HEALTH_MS = 10000;
const GAUGE = /^(sukkal_store_disk_full|sukkal_pool_up)(?:\{pool="([^"]*)"\})? (\d)$/gm;

/** Shows the queues that need attention, and whether stores respond. */
export async function attention(page) {
  let health = [];
  forSession();
  const failing = new Map();
  const draw = () => page.show(h('section', {}, h('h1', {}, 'What needs attention'), sampleLine()),
    healthSection(health), problemSection(page, failing, health), oldestSection());
  draw();
  page.every(HEALTH_MS, async () => {
    health = await readHealth(page.signal);
    draw();
  }, 'Ask the stores');
  lookAtSubscriptions(page, failing, draw).catch(() => {});
  await page.every(REST_MS, () => walk(page.signal, draw), 'Look at the queues');
}

function sampleLine() {
  if (sample.total === null) return h('p', { class: 'faint' }, 'Looking at the queues…');
  const walked = sample.rounds ? `All ${count(sample.queues.size, 'queue')} were looked at` : `${number(sample.seen.size)} of ${count(sample.total, 'queue')} were looked at so far`;
  return h('p', { class: 'faint', id: 'sample' }, `${walked}. The oldest figures are ${duration(age())} old.`);
}

/** Returns what is wrong with the store and its pools. A proxy may hide the metrics. */
async function readHealth(signal) {
  try {
    await callInBackground({ path: 'v2/ping' }, signal);
    const metrics = await open({ path: 'metrics' }, signal, 'text/plain').then(response => response.text(), () => '');
    return problemsOf(metrics);
  } catch (error) {
    if (error.name === 'AbortError' || error.isIdentity) throw error;
    return [`The store does not respond. ${error.message}`];
  }
}

function problemsOf(metrics) {
  const found = [];
  for (const [, name, pool, value] of metrics.matchAll(GAUGE)) {
    if (name === 'sukkal_pool_up' && value === '0') found.push(`Pool ${pool} does not respond.`);
    if (name === 'sukkal_store_disk_full' && value === '1') found.push('The disk of the store is full.');
  }
  return found;
}

function healthSection(found) {
  if (!found.length) return null;
  return h('section', { class: 'card bad', role: 'alert' }, h('h2', {}, 'The stores'), found.map(text => h('p', {}, text)));
}

// Lists do not say which queues have subscriptions, so this looks at one queue at a time.
async function lookAtSubscriptions(page, failing, draw) {
  for (;;) {
    await pause(2000, page.signal);
    for (const name of [...sample.queues.keys()]) {
      await pause(1000, page.signal);
      const amount = await failingOf(path`v2/queues/${name}`, page.signal).catch(() => 0);
      if (page.signal.aborted) return;
      if (amount) failing.set(name, amount);
      else failing.delete(name);
      draw();
    }
  }
}

/** Returns the number of failing subscriptions among the first of a queue. */
async function failingOf(root, signal) {
  const { body } = await callInBackground({ path: `${root}/subscriptions` }, signal);
  let amount = 0;
  for (const { id } of body.subscriptions) if (isFailing(await readDelivery(root, id, signal))) amount += 1;
  return amount;
}

function isFailing(delivery) {
  return delivery.state === 'disabled' || delivery.failing_since !== null;
}

function problemSection(page, failing, health) {
  const items = problems();
  for (const [name, amount] of failing) {
    const queue = sample.queues.get(name);
    if (!queue) continue;
    const item = items.find(one => one.queue === queue);
    const reason = { kind: 'subscriptions', amount };
    if (item) item.reasons.push(reason);
    else items.push({ queue, reasons: [reason] });
  }
  if (!items.length) return health.length ? null : nothing();
  const columns = [
    { title: 'Queue', cell: item => h('a', { href: `#/queues/${encodeURIComponent(item.queue.name)}` }, h('bdi', {}, item.queue.name)) },
    { title: 'Reason', cell: item => item.reasons.map(reason => h('span', { class: `tag ${reason.kind}` }, describe(item.queue.name, reason))) },
    { title: 'Waiting', class: 'figure', cell: item => number(item.queue.waiting) },
    { title: 'Oldest', class: 'figure', cell: item => duration(item.queue.stats.oldest_age) },
  ];
  return h('section', { class: 'card' }, table(columns, items.slice(0, ROWS_MAX), { key: item => item.queue.name, label: 'Queues that need attention' }),
    items.length > ROWS_MAX ? h('p', {}, `And ${number(items.length - ROWS_MAX)} more.`) : null);
}

function describe(name, { kind, amount, sources }) {
  const to = part => `#/queues/${encodeURIComponent(name)}/${part}`;
  if (kind === 'dead') return h('a', { href: to('dead-letters') }, `${count(amount, 'dead letter')} of ${sources.length === 1 ? sources[0] : count(sources.length, 'queue')}`);
  if (kind === 'paused') return 'paused';
  if (kind === 'grows') return 'the backlog grows';
  return h('a', { href: to('subscriptions') }, `${count(amount, 'failing subscription')}`);
}

function nothing() {
  if (sample.total === null) return null;
  if (sample.total === 0) return firstSteps();
  if (!sample.rounds) return h('section', { class: 'card' }, h('p', {}, 'Nothing so far.'));
  return h('section', { class: 'card good' }, h('p', {}, 'All is well. Nothing needs you right now.'));
}

function firstSteps() {
  const request = { method: 'POST', path: 'v2/queues/hello/messages', body: { messages: [{ body: 'Hello, world!' }] } };
  return h('section', { class: 'card' }, h('h2', {}, `Project ${session.project} has no queues yet`),
    h('p', {}, 'A queue exists from its first message. Post one:'), h('pre', { class: 'command' }, commandOf(request)),
    h('p', {}, 'Or ', h('a', { href: '#/queues/hello/messages?post=sample' }, 'post a sample from here'), '.'));
}

function oldestSection() {
  const queues = oldest(OLDEST_SHOWN);
  if (!queues.length) return null;
  const columns = [
    { title: 'Queue', cell: queue => h('a', { href: `#/queues/${encodeURIComponent(queue.name)}/messages` }, h('bdi', {}, queue.name)) },
    { title: 'Available', class: 'figure', cell: queue => number(queue.stats.available) },
    { title: 'Waits since', class: 'figure', cell: queue => ago(new Date(queue.at - 1000 * queue.stats.oldest_age)) },
  ];
  return h('section', { class: 'card' }, h('h2', {}, 'Oldest waiting messages'), table(columns, queues, { key: queue => queue.name, label: 'Oldest waiting messages' }));
}
