// The subscriptions of a queue or a topic.

import { call, callInBackground, path, readPage } from './api.js';
import { button, dialog, facts, field, h, pager, table } from './dom.js';
import { duration, number, time } from './format.js';
import { markerOf } from './sample.js';

const REFRESH_MS = 4000;

/** Shows subscriptions with their deliveries. */
export async function subscriptions(page, queue) {
  let marker = '';
  const deliveries = new Map();
  const request = () => ({ path: `${queue.path}/subscriptions`, query: { marker } });
  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal, callInBackground);
    const items = body.subscriptions;
    for (const one of items) {
      if (!isNewest()) return;
      draw(items, items.length ? markerOf(body) : null);
      deliveries.set(one.id, await readDelivery(queue.path, one.id, page.signal).catch(() => deliveries.get(one.id)));
    }
    if (isNewest()) draw(items, items.length ? markerOf(body) : null);
  };
  const draw = (items, next) => {
    const go = to => { marker = to; page.attempt(read); };
    for (const one of items) one.delivery = deliveries.get(one.id);
    page.show(items.length ? list(page, queue, items, read) : h('p', {}, marker ? 'This is the end of the list.' : 'Nobody is subscribed.'),
      pager(marker && (() => go('')), next && (() => go(next)), button('Subscribe', () => subscribe(page, queue, read), { class: 'primary' }), page.copy(request, 'This list')));
  };
  await page.every(REFRESH_MS, read);
}

/** Returns the state and the counts of the deliveries of a subscription. A list does not have them. */
export async function readDelivery(root, id, signal) {
  const { body } = await callInBackground({ path: `${root}/subscriptions/${path`${id}`}`, query: { with_delivery: true } }, signal);
  return body.delivery;
}

function list(page, queue, items, changed) {
  const columns = [
    { title: 'Subscriber', cell: one => button(one.subscriber, () => page.attempt(() => show(page, queue, one, changed), 'Show the subscription'), { class: 'link' }) },
    { title: 'State', cell: one => [h('span', { class: `tag ${one.delivery?.state}` }, one.delivery?.state ?? '…'), one.confirmed ? null : h('small', {}, 'not confirmed')] },
    { title: 'Failing since', cell: one => time(one.delivery?.failing_since) },
    { title: 'Delivered', class: 'figure', cell: one => number(one.delivery?.delivered) },
    { title: 'To retry', class: 'figure', cell: one => number(one.delivery?.retrying) },
    { title: 'Given up', class: 'figure', cell: one => number(one.delivery?.given_up) },
  ];
  return table(columns, items, { key: one => one.id, label: 'Subscriptions' });
}

async function show(page, queue, one, changed) {
  const at = `${queue.path}/subscriptions/${path`${one.id}`}`;
  const { body } = await call({ path: `${at}/attempts` }, page.signal);
  const delivery = await readDelivery(queue.path, one.id, page.signal);
  const done = () => { close(); changed(); };
  const columns = [
    { title: 'At', cell: attempt => time(attempt.at) },
    { title: 'Attempt', class: 'figure', cell: attempt => attempt.attempt },
    { title: 'Status', class: 'figure', cell: attempt => attempt.status ?? '–' },
    { title: 'Took', class: 'figure', cell: attempt => `${number(attempt.duration_ms)} ms` },
    { title: 'Answer', class: 'body', cell: attempt => h('bdi', { class: 'preview' }, attempt.error ?? attempt.response) },
  ];
  const isActive = delivery?.state === 'active';
  const close = dialog(one.subscriber,
    facts(['Id', one.id], ['Time to live', duration(one.ttl)], delivery?.reason ? ['Reason', delivery.reason] : null,
      delivery ? ['Missed', number(delivery.missed)] : null, delivery ? ['Attempts', number(delivery.attempts)] : null),
    h('h3', {}, 'Last attempts'),
    body.attempts.length ? table(columns, body.attempts, { key: attempt => `${attempt.message_id} ${attempt.attempt}`, label: 'Attempts' }) : h('p', { class: 'faint' }, 'None yet.'),
    h('div', { class: 'bar' },
      isActive ? page.action('Pause', { method: 'POST', path: `${at}/pause` }, { done }) : page.action('Resume', { method: 'POST', path: `${at}/resume` }, { kind: 'primary', done }),
      button('Redeliver…', () => redeliver(page, at, done)),
      page.action('Delete', { method: 'DELETE', path: at }, { kind: 'danger', done })));
}

function redeliver(page, at, done) {
  const since = h('input', { type: 'datetime-local', step: 1 });
  since.value = new Date(Date.now() - 3600000 - 60000 * new Date().getTimezoneOffset()).toISOString().slice(0, 19);
  const request = () => ({ method: 'POST', path: `${at}/redeliver`, body: { since: new Date(since.value).toISOString() } });
  const close = dialog('Redeliver', field('Since', since, 'Messages that were posted from this time on, and that still exist, are delivered again.'),
    h('div', { class: 'bar' }, page.action('Redeliver', request, { kind: 'primary', done: () => { close(); done(); } })));
}

/** The response is the only one that has the secret of the signatures. */
function subscribe(page, queue, done) {
  const subscriber = h('input', { type: 'text', inputmode: 'url', spellcheck: 'false', autocomplete: 'off' });
  const ttl = h('input', { type: 'number', min: 60, value: 3600 });
  const request = () => ({ method: 'POST', path: `${queue.path}/subscriptions`, body: { subscriber: subscriber.value, ttl: Number(ttl.value), options: {} } });
  const created = ({ body }) => {
    close();
    done();
    if (body.secret) dialog('The secret of the subscription', h('p', {}, 'The subscriber verifies signatures with it. It is never shown again.'), h('pre', { class: 'command' }, body.secret));
  };
  const close = dialog('Subscribe', field('Subscriber', subscriber, 'The URL or the mail address that receives the messages.'), field('Time to live, in seconds', ttl),
    h('div', { class: 'bar' }, page.action('Subscribe', request, { kind: 'primary', done: created })));
}
