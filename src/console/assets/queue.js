// The page of a queue or a topic. Its parts have modules of their own.

import { callInBackground, path } from './api.js';
import { bars, chart } from './chart.js';
import { claims } from './claims.js';
import { deadLettersOf } from './dead_letters.js';
import { facts, h } from './dom.js';
import { ago, before, duration, number, rate, waiting } from './format.js';
import { messages } from './messages.js';
import { find, remember, speed } from './queues.js';
import { routeOf } from './sample.js';
import { settings } from './settings.js';
import { subscriptions } from './subscriptions.js';

const REFRESH_MS = 2000;
/** How far the charts go back. */
const HISTORY_MS = 600000;
const PARTS = [
  ['', 'Overview', overview],
  ['messages', 'Messages', messages],
  ['claims', 'Claims', claims],
  ['dead-letters', 'Dead letters', deadLettersOf],
  ['subscriptions', 'Subscriptions', subscriptions],
  ['settings', 'Settings', settings],
];
const OF_TOPICS = new Set(['', 'messages', 'subscriptions', 'settings']);

/** Shows a part of the page of a queue. */
export async function queuePage(page, plural, name, part = '') {
  const parts = PARTS.filter(([id]) => plural === 'queues' || OF_TOPICS.has(id));
  const current = parts.find(([id]) => id === part) ?? parts[0];
  const root = `#/${routeOf(plural, name)}`;
  const links = () => parts.map(([id, label]) => h('a', { href: id ? `${root}/${id}` : root, 'aria-current': id === current[0] ? 'page' : null }, label));
  const head = () => [h('p.faint.crumb', {}, h('a', { href: `#/${plural}` }, plural === 'queues' ? 'Queues' : 'Topics')),
    h('h1', {}, h('bdi', {}, name)), h('nav.tabs', { 'aria-label': 'Parts' }, links())];
  const queue = { name, plural, root, path: path`v2/${plural}/${name}` };
  const inner = Object.create(page, { show: { value: (...children) => page.show(head(), h('section', {}, children)) } });
  inner.show(h('p.faint.loading', {}, 'Loading…'));
  await current[2](inner, queue);
}

async function overview(page, queue) {
  let points = [];
  await page.every(REFRESH_MS, async () => {
    const [stats, found] = await Promise.all([
      callInBackground({ path: `${queue.path}/stats`, query: { detailed: true } }, page.signal),
      find(queue.plural, queue.name, page.signal, callInBackground),
    ]);
    if (!found) {
      page.show(h('p', {}, `This ${queue.plural === 'queues' ? 'queue' : 'topic'} does not exist. The first message creates it.`), h('a', { href: `${queue.root}/messages?post=sample` }, 'Post a message'));
      return;
    }
    const newest = remember(new Map(), found).at(-1);
    points = [...points.filter(point => point.at > newest.at - HISTORY_MS), newest];
    draw(page, queue, stats.body, found.stats, points);
  });
}

function draw(page, queue, { messages: counts, shards = [], unsharded, tenants = [] }, stats, points) {
  const { totals } = stats;
  const rates = points.slice(1).map((point, index) => ({ at: point.at, posted: speed(points.slice(index, index + 2), 'posted'), deleted: speed(points.slice(index, index + 2), 'deleted') }));
  const toggle = stats.paused
    ? page.action('Resume', { method: 'POST', path: `${queue.path}/resume` }, { kind: 'primary' })
    : page.action('Pause', { method: 'POST', path: `${queue.path}/pause` });
  const isFair = shards.length > 0;
  page.show(
    stats.paused ? h('p.tag.paused', {}, 'Paused: claims and pops get no messages. Subscriptions still do.') : null,
    h('div.figures', {}, ...[['Available', stats.available], ['Claimed', stats.claimed], ['Delayed', stats.delayed]].map(([label, value]) => h('div', {}, h('span.big', {}, number(value)), h('span.faint', {}, label))),
      h('div', {}, h('span.big', {}, duration(stats.oldest_age)), h('span.faint', {}, 'Oldest available'))),
    h('div.card', {}, h('h2', {}, 'Since you opened this page'),
      chart(points, ['messages'], number, 'Number of messages'),
      chart(rates, ['posted', 'deleted'], rate, 'Messages per second')),
    h('div.card', {}, h('h2', {}, 'Since it was created'),
      facts(['Posted', number(totals.posted)], ['Claimed', number(totals.claimed)], ['Deleted', number(totals.deleted)], ['Expired', number(totals.expired)], ['Became dead letters', number(totals.dead_lettered)],
        counts.oldest ? ['Oldest message', ago(before(counts.oldest.age))] : null, counts.newest ? ['Newest message', ago(before(counts.newest.age))] : null)),
    isFair ? h('div.card', {}, h('h2', {}, 'Shards'), bars(shards.map(shardBar)), unsharded && waiting(unsharded) ? h('p.faint', {}, `Without a shard: ${number(waiting(unsharded))}`) : null) : null,
    tenants.length ? h('div.card', {}, h('h2', {}, 'Tenants by posted messages'), bars(tenants.map(one => ({ name: one.tenant, value: one.share, text: `${(100 * one.share).toFixed(1)} %` })))) : null,
    queue.plural === 'queues' ? h('div.bar', {}, toggle, page.copy({ path: `${queue.path}/stats`, query: { detailed: true } }, 'Statistics')) : null);
}

function shardBar(shard) {
  return { name: `Shard ${shard.shard}`, value: waiting(shard), text: `${number(waiting(shard))}, oldest ${duration(shard.oldest_age)}` };
}
