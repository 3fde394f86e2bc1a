// Dead letters: the queues that have some, and redrives of one queue.

import { callInBackground, readPage } from './api.js';
import { button, h, table } from './dom.js';
import { ago, count, number, time } from './format.js';
import { preview } from './json.js';
import { dated, openById, show } from './messages.js';
import { origin, redrive } from './redrive.js';
import { REST_MS, deadLetterQueues, forSession, markerOf, routeOf, sample, walk } from './sample.js';

const REFRESH_MS = 3000;
const READ_MAX = 200;
const IDS_MAX = 20;
const READ = { echo: true, include_origin: true, include_claimed: true, include_state: true };

/** Shows the dead-letter queues of the project. */
export async function deadLetters(page) {
  forSession();
  const draw = () => {
    const found = [...deadLetterQueues()].map(([name, sources]) => ({ name, sources, route: routeOf('queues', name) }));
    const columns = [
      ['Dead-letter queue', item => h('a', { href: `#/${item.route}/dead-letters` }, h('bdi', {}, item.name))],
      ['Dead letters', item => number(sample.queues.get(item.route)?.waiting ?? 0), 'figure'],
      ['From', item => item.sources.slice(0, 5).join(', ') + (item.sources.length > 5 ? ' and others' : '')],
    ];
    page.show(h('section', {}, h('h1', {}, 'Dead letters'),
      sample.rounds ? null : h('p.faint', {}, 'Checking the queues…'),
      found.length ? table(columns, found, { key: item => item.name, label: 'Dead-letter queues' })
        : sample.rounds ? page.empty('No queue has a dead-letter queue. Give one to a queue, such as orders:', { method: 'PUT', path: 'v2/queues/orders', body: { _dead_letter_queue: 'failed', _max_claim_count: 3, _dead_letter_queue_messages_ttl: 1209600 } }) : null));
  };
  draw();
  await page.every(REST_MS, () => walk(page.signal, draw), 'Checking the queues');
}

/** Shows the dead letters in one queue by their origin, and its redrives. */
export async function deadLettersOf(page, queue) {
  const selected = new Set();
  let items = [];
  let isWhole = true;
  let tasks = [];
  let known = null;
  let target = null;
  const read = async () => {
    const [found, stats] = await Promise.all([
      callInBackground({ path: `${queue.path}/tasks` }, page.signal),
      callInBackground({ path: `${queue.path}/stats` }, page.signal),
    ]);
    tasks = found.body.tasks;
    const { total, claimed, newest, oldest } = stats.body.messages;
    const state = JSON.stringify([total, claimed, newest?.href, oldest?.href, tasks[0]?.id, tasks[0]?.state]);
    if (state !== known) {
      target = (await callInBackground({ path: queue.path }, page.signal)).body._dead_letter_queue;
      const isFirst = !items.length;
      [items, isWhole] = await readAll(queue, page.signal, some => { if (isFirst) [items, isWhole] = [some, false]; draw(); });
      known = state;
    }
    for (const id of selected) if (!items.some(item => item.id === id)) selected.delete(id);
    draw();
  };
  const refresh = () => {
    known = null;
    page.attempt(read);
  };
  const draw = () => {
    const start = (body, letters) => page.attempt(() => redrive(page, queue, body, letters, refresh), 'Redrive');
    // Messages without an origin are ordinary ones, unless they are among dead letters.
    const hasLetters = items.some(item => origin(item, queue));
    page.show(
      h('p.faint', {}, 'Looking at messages does not consume them.'),
      target ? h('p', {}, 'The dead letters of this queue are in ', h('a', { href: `#/${routeOf('queues', target)}/dead-letters` }, target), '.') : null,
      tasks.length ? taskList(page, queue, tasks, refresh) : null,
      h('div.bar', { 'data-key': 'actions' },
        button(`Redrive the selected (${selected.size})`, () => start({ ids: [...selected] }, items.filter(item => selected.has(item.id))), { disabled: !selected.size || selected.size > IDS_MAX }),
        button('Redrive all…', () => start({}, items), { class: 'primary', disabled: !hasLetters && isWhole }),
        button('Refresh', refresh)),
      selected.size > IDS_MAX ? h('p.warn', {}, `Select at most ${IDS_MAX} messages.`) : null,
      isWhole ? null : h('p.faint', {}, `These are the first ${number(items.length)} messages.`),
      hasLetters ? groups(page, queue, items, selected, draw, refresh) : h('p', {}, isWhole ? 'There are no dead letters in this queue.' : 'None of these messages is a dead letter.'));
  };
  const opened = page.query.get('open');
  if (opened) page.attempt(() => openById(page, queue, opened, refresh), 'Opening the message');
  await page.every(REFRESH_MS, read);
}

function groups(page, queue, items, selected, draw, changed) {
  const found = Map.groupBy(items, item => origin(item, queue));
  return [...found].map(([name, group]) => h('div.card', { 'data-key': `from ${name}` }, h('h2', {}, name ? `From ${name}` : 'Without an origin', h('span.faint', {}, ` ${count(group.length, 'message')}`)),
    list(page, queue, group, selected, draw, changed)));
}

// Calls `more` after each page with what has been read so far.
async function readAll(queue, signal, more) {
  const found = [];
  let marker = null;
  while (found.length < READ_MAX) {
    const body = await readPage({ path: `${queue.path}/messages`, query: { ...READ, marker } }, signal, callInBackground);
    if (!body.messages.length) return [found, true];
    found.push(...(await dated(body)).messages);
    more(found);
    marker = markerOf(body, 'messages');
  }
  return [found, false];
}

function list(page, queue, group, selected, draw, changed) {
  const toggle = (message, isOn) => {
    if (isOn) selected.add(message.id);
    else selected.delete(message.id);
    draw();
  };
  const columns = [
    ['', message => h('input', { type: 'checkbox', checked: selected.has(message.id), 'aria-label': `Select ${message.id}`, onchange: event => toggle(message, event.target.checked) })],
    ['Message', message => h('button', { type: 'button', class: 'link', onclick: () => show(page, queue, message, changed) }, h('bdi.preview', {}, preview(message))), 'body'],
    ['Claim count at the origin', message => message.origin?.claim_count ?? '–', 'figure'],
    ['Posted', message => ago(message.postedAt), 'figure'],
  ];
  return table(columns, group, { key: message => message.id, label: 'Dead letters' });
}

function taskList(page, queue, tasks, changed) {
  const columns = [
    ['Redrive', task => time(task.created)],
    ['State', task => h('span', { class: `tag ${task.state}`, title: task.error }, task.state)],
    ['Progress', task => h('progress', { max: task.moved + task.skipped + task.remaining || 1, value: task.state === 'done' ? task.moved + task.skipped || 1 : task.moved + task.skipped, 'aria-label': 'Progress' })],
    ['Moved', task => number(task.moved), 'figure'],
    ['Skipped', task => number(task.skipped), 'figure'],
    ['Left', task => number(task.remaining), 'figure'],
    ['', task => (task.state === 'running' ? page.action('Stop', { method: 'DELETE', path: `${queue.path}/tasks/${task.id}` }, { done: changed, confirm: page.ask('Messages that were moved stay where they are.') }) : task.error ?? '')],
  ];
  return h('div.card', {}, h('h2', {}, 'Redrives'), table(columns, tasks, { key: task => task.id, label: 'Redrives' }));
}
