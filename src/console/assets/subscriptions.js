// The subscriptions of a queue or a topic.

import { call, callInBackground, path, readPage } from './api.js';
import { button, dialog, facts, field, h, table } from './dom.js';
import { before, count, duration, localTime, number, time } from './format.js';
import { markerOf } from './sample.js';

const REFRESH_MS = 4000;
/** Number of pages of the subscriptions of a queue that are looked at in the background. */
const CHECKED_PAGES = 5;
const exampleFor = queue => ({ method: 'POST', path: `${queue.path}/subscriptions`, body: { subscriber: 'https://hooks.example.com/orders', ttl: 86400, options: {} } });

/** Shows subscriptions with their deliveries. */
export async function subscriptions(page, queue) {
  const request = () => ({ path: `${queue.path}/subscriptions`, query: { with_delivery: true, marker: page.marker } });
  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal, callInBackground);
    if (!isNewest()) return;
    const items = body.subscriptions;
    page.show(items.length ? list(page, queue, items, read) : page.marker ? h('p', {}, 'This is the end of the list.') : page.empty('There are no subscriptions. Create one:', exampleFor(queue)),
      page.pager(markerOf(body, 'subscriptions'), read, button('Subscribe', () => subscribe(page, queue, read), { class: 'primary' }), page.copy(request, 'This list')));
  };
  await page.every(REFRESH_MS, read);
}

/** Returns the number of failing subscriptions of a queue, among the first ones. */
export async function countFailing({ plural, name }, signal) {
  const root = path`v2/${plural}/${name}`;
  let marker = null;
  let amount = 0;
  for (let page = 0; page < CHECKED_PAGES; page += 1) {
    const body = await readPage({ path: `${root}/subscriptions`, query: { with_delivery: true, marker } }, signal, callInBackground);
    amount += body.subscriptions.filter(isFailing).length;
    marker = markerOf(body, 'subscriptions');
    if (!marker) break;
  }
  return amount;
}

function isFailing({ delivery }) {
  return delivery.state === 'disabled' || delivery.failing_since !== null;
}

function list(page, queue, items, changed) {
  const columns = [
    ['Subscriber', one => button(one.subscriber, () => page.attempt(() => show(page, queue, one, changed), 'Opening the subscription'), { class: 'link' })],
    ['State', one => [h('span', { class: `tag ${one.delivery.state}` }, one.delivery.state), one.delivery.until ? h('small', {}, 'until ', time(one.delivery.until)) : null]],
    ['Failing since', one => time(one.delivery.failing_since)],
    ['Lag', one => number(one.delivery.pending), 'figure'],
    ['Delivered', one => number(one.delivery.delivered), 'figure'],
    ['Given up', one => number(one.delivery.given_up), 'figure'],
  ];
  return table(columns, items, { key: one => one.id, label: 'Subscriptions' });
}

async function show(page, queue, one, changed) {
  const at = `${queue.path}/subscriptions/${path`${one.id}`}`;
  const [{ body }, { body: { delivery } }] = await Promise.all([
    call({ path: `${at}/attempts` }, page.signal), call({ path: at, query: { with_delivery: true } }, page.signal),
  ]);
  const done = () => { close(); changed(); };
  const columns = [
    ['At', attempt => time(attempt.at)],
    ['Attempt', attempt => attempt.attempt, 'figure'],
    ['Status', attempt => attempt.status ?? '–', 'figure'],
    ['Took', attempt => `${number(attempt.duration_ms)} ms`, 'figure'],
    ['Response', attempt => h('bdi.preview', {}, [attempt.error, attempt.response].filter(Boolean).join(': ')), 'body'],
  ];
  const isSending = ['active', 'unconfirmed'].includes(delivery.state);
  const close = dialog(one.subscriber,
    facts(['Id', one.id], ['Time to live', duration(one.ttl)], delivery.reason ? ['Reason', delivery.reason] : null, delivery.until ? ['Until', time(delivery.until)] : null,
      ['Lag', count(delivery.pending, 'message')], ['To retry', number(delivery.retrying)], ['Missed', number(delivery.missed)], ['Attempts', number(delivery.attempts)]),
    h('h3', {}, 'Last attempts'),
    body.attempts.length ? table(columns, body.attempts, { key: attempt => `${attempt.message_id} ${attempt.attempt}`, label: 'Attempts' }) : h('p.faint', {}, 'None yet.'),
    h('div.bar', {},
      isSending ? page.action('Pause', { method: 'POST', path: `${at}/pause` }, { done }) : page.action('Resume', { method: 'POST', path: `${at}/resume` }, { kind: 'primary', done }),
      button('Redeliver…', () => redeliver(page, at, done)),
      page.action('Delete', { method: 'DELETE', path: at }, { kind: 'danger', confirm: page.ask(`This deletes the subscription of ${one.subscriber}, with the messages that it would retry.`), done })));
}

function redeliver(page, at, done) {
  const since = h('input', { type: 'datetime-local', step: 1, value: localTime(before(3600)) });
  const request = () => ({ method: 'POST', path: `${at}/redeliver`, body: since.value ? { since: new Date(since.value).toISOString() } : {} });
  const close = dialog('Redeliver', field('Since', since, 'Messages that were posted from this time on, and that still exist, are delivered again.'),
    h('div.bar', {}, page.action('Redeliver', request, { kind: 'primary', outcome: waits, done: () => { close(); done(); } })));
}

/** Says that the messages of a redelivery wait, and for what. */
function waits({ body: { state, until } }) {
  if (state === 'active') return '';
  return `accepted, but the subscription is ${state}${until ? ` until ${time(until).textContent}` : ''}. Nothing is delivered until ${until ? 'then' : 'it is resumed'}`;
}

/** The response is the only one that has the secret of the signatures. */
function subscribe(page, queue, done) {
  const subscriber = h('input', { type: 'text', inputmode: 'url', spellcheck: 'false', autocomplete: 'off' });
  const ttl = h('input', { type: 'number', min: 60, value: 86400, placeholder: 'default' });
  const request = () => ({ method: 'POST', path: `${queue.path}/subscriptions`, body: { subscriber: subscriber.value, options: {}, ...(ttl.value ? { ttl: Number(ttl.value) } : {}) } });
  const created = ({ body }) => {
    close();
    done();
    if (body.secret) dialog('The secret of the subscription', h('p', {}, 'The subscriber verifies signatures with it. It is never shown again.'), h('pre.command', {}, body.secret));
  };
  // The service has found the subscription of a subscriber that must confirm it.
  const known = ({ body }) => (body.secret ? '' : 'nothing was created, because the subscriber has a subscription that is not confirmed');
  const close = dialog('Subscribe', field('Subscriber', subscriber, 'An http or https URL, or an address such as mailto:ann@example.com if the service sends mail.'), field('Time to live, in seconds', ttl, 'Then the subscription is deleted.'),
    h('div.bar', {}, page.action('Subscribe', request, { kind: 'primary', outcome: known, done: created })));
}
