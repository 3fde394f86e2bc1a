// The page of a queue or a topic. Its parts have modules of their own.

import { callInBackground, path } from './api.js';
import { bars, chart } from './chart.js';
import { claims } from './claims.js';
import { letters } from './dead_letters.js';
import { facts, h } from './dom.js';
import { ago, before, duration, number } from './format.js';
import { messages } from './messages.js';
import { remember, speed } from './queues.js';
import { settings } from './settings.js';
import { subscriptions } from './subscriptions.js';

const REFRESH_MS = 2000;
const POINTS = 150;
const PARTS = [
  ['', 'Overview', overview],
  ['messages', 'Messages', messages],
  ['claims', 'Claims', claims],
  ['dead-letters', 'Dead letters', letters],
  ['subscriptions', 'Subscriptions', subscriptions],
  ['settings', 'Settings', settings],
];
const OF_TOPICS = new Set(['', 'messages', 'subscriptions', 'settings']);

/** Shows a part of the page of a queue. */
export async function queuePage(page, plural, name, part = '') {
  const parts = PARTS.filter(([id]) => plural === 'queues' || OF_TOPICS.has(id));
  const current = parts.find(([id]) => id === part) ?? parts[0];
  const root = `#/${plural}/${encodeURIComponent(name)}`;
  const links = parts.map(([id, label]) => h('a', { href: id ? `${root}/${id}` : root, 'aria-current': id === current[0] ? 'page' : null }, label));
  const head = () => [h('p', { class: 'faint crumb' }, h('a', { href: `#/${plural}` }, plural === 'queues' ? 'Queues' : 'Topics')),
    h('h1', {}, h('bdi', {}, name)), h('nav', { class: 'tabs', 'aria-label': 'Parts' }, links)];
  const queue = { name, plural, root, path: path`v2/${plural}/${name}` };
  const inner = Object.create(page, { show: { value: (...children) => page.show(head(), h('section', {}, children)) } });
  inner.show(h('p', { class: 'faint' }, 'Reading…'));
  await current[2](inner, queue);
}

async function overview(page, queue) {
  const points = [];
  await page.every(REFRESH_MS, async () => {
    const [stats, listed] = await Promise.all([
      callInBackground({ path: `${queue.path}/stats`, query: { detailed: true } }, page.signal),
      callInBackground({ path: `v2/${queue.plural}`, query: { with_stats: true, name_prefix: queue.name, limit: 1 } }, page.signal),
    ]);
    const found = listed.body[queue.plural].find(one => one.name === queue.name);
    if (!found) {
      page.show(h('p', {}, 'It does not exist yet. Its first message creates it.'), h('a', { href: `${queue.root}/messages?post=sample` }, 'Post a message'));
      return;
    }
    const history = new Map([[queue.name, points]]);
    points.push(remember(history, found).at(-1));
    points.splice(0, points.length - POINTS);
    draw(page, queue, stats.body, found.stats, points);
  });
}

function draw(page, queue, { messages: counts, shards = [], unsharded, tenants = [] }, stats, points) {
  const { totals } = stats;
  const rates = name => points.slice(1).map((_, index) => speed(points.slice(0, index + 2), name, 1) ?? 0);
  const toggle = stats.paused
    ? page.action('Resume', { method: 'POST', path: `${queue.path}/resume` }, { kind: 'primary' })
    : page.action('Pause', { method: 'POST', path: `${queue.path}/pause` });
  const isFair = shards.length > 0;
  page.show(
    stats.paused ? h('p', { class: 'tag paused' }, 'Paused: claims and pops get no messages.') : null,
    h('div', { class: 'figures' }, ...[['Available', stats.available], ['Claimed', stats.claimed], ['Delayed', stats.delayed]].map(([label, value]) => h('div', {}, h('span', { class: 'big' }, number(value)), h('span', { class: 'faint' }, label))),
      h('div', {}, h('span', { class: 'big' }, duration(stats.oldest_age)), h('span', { class: 'faint' }, 'Oldest available'))),
    h('div', { class: 'card' }, h('h2', {}, 'Since you opened this page'),
      chart([{ name: 'waiting', class: 'waiting', values: points.map(point => point.waiting) }], 'Waiting messages'),
      chart([{ name: 'in', class: 'in', isRate: true, values: rates('posted') }, { name: 'out', class: 'out', isRate: true, values: rates('deleted') }], 'Messages per second')),
    h('div', { class: 'card' }, h('h2', {}, 'Since it was created'),
      facts(['Posted', number(totals.posted)], ['Claimed', number(totals.claimed)], ['Deleted', number(totals.deleted)], ['Expired', number(totals.expired)], ['Dead letters', number(totals.dead_lettered)],
        counts.oldest ? ['Oldest message', ago(before(counts.oldest.age))] : null, counts.newest ? ['Newest message', ago(before(counts.newest.age))] : null)),
    isFair ? h('div', { class: 'card' }, h('h2', {}, 'Shards'), bars(shards.map(shardBar)), unsharded && total(unsharded) ? h('p', { class: 'faint' }, `Without a shard: ${number(total(unsharded))}`) : null) : null,
    tenants.length ? h('div', { class: 'card' }, h('h2', {}, 'Tenants by posted messages'), bars(tenants.map(one => ({ name: one.tenant, value: one.share, text: `${(100 * one.share).toFixed(1)} %` })))) : null,
    queue.plural === 'queues' ? h('div', { class: 'bar' }, toggle, page.copy({ path: `${queue.path}/stats`, query: { detailed: true } }, 'Statistics')) : null);
}

function shardBar(shard) {
  return { name: `Shard ${shard.shard}`, value: total(shard), text: `${number(total(shard))}, oldest ${duration(shard.oldest_age)}` };
}

function total({ available, delayed, claimed }) {
  return available + delayed + claimed;
}
