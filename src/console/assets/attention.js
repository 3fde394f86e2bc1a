// The first page: what needs attention.

import { callInBackground, open, turn } from './api.js';
import { h, table } from './dom.js';
import { ago, count, duration, number } from './format.js';
import { firstMessage } from './queues.js';
import { REST_MS, forSession, attention as problems, largest, nextToCheck, noteFailing, oldest, readAt, sample, walk } from './sample.js';
import { projectShown } from './session.js';
import { countFailing } from './subscriptions.js';

const SHOWN = 10;
const ROWS_MAX = 100;
const HEALTH_MS = 10000;
const CHECK_MS = 1000;
const GAUGE = /^(sukkal_store_disk_full|sukkal_pool_up)(?:\{pool="([^"]*)"\})? (\d)$/gm;

/** Shows the queues that need attention, and whether stores respond. */
export async function attention(page) {
  let health = [];
  forSession();
  const draw = () => page.show(h('section', {}, h('h1', {}, 'Needs attention'), sampleLine()),
    healthSection(health), problemSection(page, health),
    topSection('Oldest waiting messages', oldest(SHOWN), ['Oldest available', queue => ago(new Date(queue.at - 1000 * queue.stats.oldest_age)), 'figure']),
    topSection('Largest backlogs', largest(SHOWN), ['Messages', queue => number(queue.waiting), 'figure']));
  draw();
  page.every(HEALTH_MS, async () => {
    health = await readHealth(page.signal);
    draw();
  }, 'Checking the store');
  page.every(CHECK_MS, () => checkSubscriptions(page.signal, draw), 'Checking the subscriptions');
  await page.every(REST_MS, () => walk(page.signal, draw), 'Checking the queues');
}

function sampleLine() {
  if (sample.total === null) return h('p.faint', {}, 'Checking the queues…');
  const topics = [...sample.queues.values()].filter(one => one.plural === 'topics').length;
  const queues = sample.queues.size - topics;
  const checked = sample.rounds ? count(queues, 'queue') : `${number(queues)} of ${count(sample.total, 'queue')}`;
  return h('p.faint', { id: 'sample' }, `Checked ${checked}${topics ? ` and ${count(topics, 'topic')}` : ''}. The oldest figures are from `, ago(readAt()), '.');
}

/** Returns what is wrong with the store and its pools. A proxy may hide the metrics. */
async function readHealth(signal) {
  try {
    await callInBackground({ path: 'v2/ping' }, signal);
    await turn(signal);
    const metrics = await open({ path: 'metrics' }, signal, 'text/plain').then(response => response.text(), () => '');
    return problemsOf(metrics);
  } catch (error) {
    if (error.name === 'AbortError' || error.isIdentity) throw error;
    return [error.status >= 500 ? `The store does not respond. ${error.message}` : `The store could not be checked. ${error.message}`];
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
  return h('section.card.bad', { role: 'alert', 'data-key': 'stores' }, h('h2', {}, 'The stores'), found.map(text => h('p', {}, text)));
}

// Lists do not say which queues have subscriptions, so this looks at one queue at a time.
async function checkSubscriptions(signal, draw) {
  const queue = nextToCheck();
  if (!queue) return;
  // If this queue cannot be read, the next ones still can, and what was found before remains.
  const amount = await countFailing(queue, signal).catch(error => {
    if (error.name === 'AbortError' || error.isIdentity) throw error;
    return sample.failing.get(queue.route);
  });
  noteFailing(queue.route, amount);
  draw();
}

function problemSection(page, health) {
  const items = problems();
  if (!items.length) return health.length ? null : nothing(page);
  const columns = [
    ['Queue', item => h('a', { href: `#/${item.queue.route}${item.reasons[0].kind === 'dead' ? '/dead-letters' : ''}` }, h('bdi', {}, item.queue.name))],
    ['Reason', item => item.reasons.map(reason => h('span', { class: `tag ${reason.kind}` }, describe(item.queue.route, reason)))],
    ['Messages', item => number(item.queue.waiting), 'figure'],
    ['Oldest available', item => duration(item.queue.stats?.oldest_age), 'figure'],
  ];
  return h('section.card', { 'data-key': 'problems' }, table(columns, items.slice(0, ROWS_MAX), { key: item => item.queue.route, label: 'Queues that need attention' }),
    items.length > ROWS_MAX ? h('p', {}, `And ${number(items.length - ROWS_MAX)} more.`) : null);
}

function describe(route, { kind, amount, sources }) {
  if (kind === 'dead') return h('a', { href: `#/${route}/dead-letters` }, `${count(amount, 'dead letter')} of ${sources.length === 1 ? sources[0] : count(sources.length, 'queue')}`);
  if (kind === 'paused') return 'paused';
  if (kind === 'unknown') return 'its statistics are not available';
  if (kind === 'grows') return 'the backlog grows';
  return h('a', { href: `#/${route}/subscriptions` }, `${count(amount, 'failing subscription')}`);
}

function nothing(page) {
  if (sample.total === null) return null;
  if (sample.rounds && !sample.queues.size) return firstSteps(page);
  if (!sample.rounds) return h('section.card', {}, h('p', {}, 'Nothing so far.'));
  const checked = sample.checks ? '' : ' The subscriptions are still being checked.';
  return h('section.card.good', { 'data-key': 'well' }, h('p', {}, `All is well. Nothing needs you right now.${checked}`));
}

function firstSteps(page) {
  return h('section.card', { 'data-key': 'first' }, h('h2', {}, `${projectShown() ? `Project ${projectShown()}` : 'Your project'} has no queues yet`),
    firstMessage(page, 'queues', 'The first message creates the queue. Post one:'));
}

function topSection(title, queues, column) {
  if (!queues.length) return null;
  const columns = [
    ['Queue', queue => h('a', { href: `#/${queue.route}/messages` }, h('bdi', {}, queue.name))],
    ['Available', queue => number(queue.stats.available), 'figure'],
    column,
  ];
  return h('section.card', { 'data-key': title }, h('h2', {}, title), table(columns, queues, { key: queue => queue.route, label: title }));
}
