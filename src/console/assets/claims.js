// The live claims of a queue.

import { call, callInBackground, path, readPage } from './api.js';
import { button, dialog, h, pager, table } from './dom.js';
import { ago, before, countdown, duration, number } from './format.js';
import { preview } from './json.js';
import { markerOf } from './sample.js';

const REFRESH_MS = 3000;

/** Shows who has claimed messages, and until when. */
export async function claims(page, queue) {
  let marker = '';
  const request = () => ({ path: `${queue.path}/claims`, query: { marker } });
  const read = async () => {
    const isNewest = page.begin();
    const body = await readPage(request(), page.signal, callInBackground);
    if (!isNewest()) return;
    const next = body.claims.length ? markerOf(body) : null;
    const go = to => { marker = to; page.attempt(read); };
    page.show(body.claims.length ? list(page, queue, body.claims, read) : h('p', {}, marker ? 'This is the end of the list.' : 'No messages are claimed.'),
      pager(marker && (() => go('')), next && (() => go(next)), page.copy(request, 'This list')));
  };
  await page.every(REFRESH_MS, read);
}

function list(page, queue, items, changed) {
  const one = claim => path`${claim.id}`;
  const columns = [
    { title: 'Claim', cell: claim => button(claim.id, () => page.attempt(() => show(page, queue, claim), 'Show the claim'), { class: 'link' }) },
    { title: 'Holder', cell: claim => h('bdi', {}, claim.client_id) },
    { title: 'Messages', class: 'figure', cell: claim => number(claim.messages) },
    { title: 'Age', class: 'figure', cell: claim => ago(before(claim.age)) },
    { title: 'Ends', class: 'figure', cell: claim => countdown(new Date(Date.now() + 1000 * (claim.ttl - claim.age)).toISOString()) },
    { title: '', cell: claim => page.action('Release', { method: 'DELETE', path: `${queue.path}/claims/${one(claim)}` }, { done: changed, confirm: page.ask('Its messages become available to other workers at once.') }) },
  ];
  return table(columns, items, { key: claim => claim.id, label: 'Claims' });
}

async function show(page, queue, claim) {
  const { body } = await call({ path: `${queue.path}/claims/${path`${claim.id}`}` }, page.signal);
  dialog(`Claim ${claim.id}`, h('p', { class: 'faint' }, `Held by ${claim.client_id}. Its term is ${duration(body.ttl)}.`),
    h('ul', { class: 'plain' }, body.messages.map(message => h('li', {}, h('bdi', { class: 'preview' }, preview(message.body))))));
}
