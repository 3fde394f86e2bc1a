// The live claims of a queue.

import { call, callInBackground, path, readPage } from './api.js';
import { button, dialog, h, table } from './dom.js';
import { ago, before, countdown, duration, number } from './format.js';
import { preview } from './json.js';
import { markerOf } from './sample.js';

const REFRESH_MS = 3000;

/** Shows who has claimed messages, and until when. */
export async function claims(page, queue) {
  const request = () => ({ path: `${queue.path}/claims`, query: { marker: page.marker } });
  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal, callInBackground);
    if (!isNewest()) return;
    page.show(body.claims.length ? list(page, queue, body.claims, read) : h('p', {}, page.marker ? 'This is the end of the list.' : 'No messages are claimed.'),
      page.pager(markerOf(body, 'claims'), read, page.copy(request, 'This list')));
  };
  await page.every(REFRESH_MS, read);
}

function list(page, queue, items, changed) {
  const one = claim => path`${claim.id}`;
  const columns = [
    ['Claim', claim => button(claim.id, () => page.attempt(() => show(page, queue, claim), 'Opening the claim'), { class: 'link' })],
    ['Claimed by', claim => h('bdi', {}, claim.client_id)],
    ['Messages', claim => number(claim.messages), 'figure'],
    ['Age', claim => ago(before(claim.age)), 'figure'],
    ['Expires', claim => countdown(new Date(Date.now() + 1000 * (claim.ttl - claim.age)).toISOString()), 'figure'],
    ['', claim => page.action('Release', { method: 'DELETE', path: `${queue.path}/claims/${one(claim)}` }, { done: changed, confirm: page.ask(`This releases the claim of ${claim.client_id}. Its messages become available to other workers at once. Those that have been delivered _max_claim_count times become dead letters instead.`) })],
  ];
  return table(columns, items, { key: claim => claim.id, label: 'Claims' });
}

async function show(page, queue, claim) {
  const { body } = await call({ path: `${queue.path}/claims/${path`${claim.id}`}` }, page.signal);
  dialog(`Claim ${claim.id}`, h('p.faint', {}, `Claimed by ${claim.client_id}. Its time to live is ${duration(body.ttl)}.`),
    h('ul.plain', {}, body.messages.map(message => h('li', {}, h('bdi.preview', {}, preview(message))))));
}
