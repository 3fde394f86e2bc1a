// Dead letters: the queues that have some, and redrives of one queue.

import { callInBackground, readPage } from './api.js';
import { button, dialog, field, h, table } from './dom.js';
import { ago, count, number, time } from './format.js';
import { preview } from './json.js';
import { dated, show } from './messages.js';
import { REST_MS, deadLetterQueues, forSession, markerOf, sample, walk } from './sample.js';

const REFRESH_MS = 3000;
const READ_MAX = 200;
const IDS_MAX = 20;
const READ = { echo: true, include_origin: true, include_claimed: true, include_state: true };

/** Shows the dead-letter queues of the project. */
export async function deadLetters(page) {
  forSession();
  const draw = () => {
    const found = [...deadLetterQueues()].map(([name, sources]) => ({ name, sources, queue: sample.queues.get(name) }));
    const columns = [
      { title: 'Dead-letter queue', cell: item => h('a', { href: `#/queues/${encodeURIComponent(item.name)}/dead-letters` }, h('bdi', {}, item.name)) },
      { title: 'Letters', class: 'figure', cell: item => number(item.queue?.waiting ?? 0) },
      { title: 'Of', cell: item => item.sources.slice(0, 5).join(', ') + (item.sources.length > 5 ? ' and others' : '') },
    ];
    page.show(h('section', {}, h('h1', {}, 'Dead letters'),
      sample.rounds ? null : h('p', { class: 'faint' }, 'Looking at the queues…'),
      found.length ? table(columns, found, { key: item => item.name, label: 'Dead-letter queues' })
        : h('p', {}, 'No queue has a dead-letter queue. Set _dead_letter_queue and _max_claim_count in the settings of a queue.')));
  };
  draw();
  await page.every(REST_MS, () => walk(page.signal, draw), 'Look at the queues');
}

/** Shows the dead letters of one queue by their origin, and its redrives. */
export async function letters(page, queue) {
  const selected = new Set();
  let items = [];
  let isWhole = true;
  let tasks = [];
  let known = null;
  const read = async () => {
    const [found, stats] = await Promise.all([
      callInBackground({ path: `${queue.path}/tasks` }, page.signal),
      callInBackground({ path: `${queue.path}/stats` }, page.signal),
    ]);
    tasks = found.body.tasks;
    const state = JSON.stringify([stats.body.messages.total, tasks[0]?.id, tasks[0]?.state]);
    if (state !== known) {
      [items, isWhole] = await readAll(queue, page.signal);
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
    const groups = grouped(items);
    const start = (body, letters) => confirmRedrive(page, queue, body, letters, refresh);
    page.show(
      h('p', { class: 'faint' }, 'Looking at messages does not consume them.'),
      tasks.length ? taskList(page, queue, tasks, refresh) : null,
      h('div', { class: 'bar' },
        button(`Redrive the selected (${selected.size})`, () => start({ ids: [...selected] }, items.filter(item => selected.has(item.id))), { disabled: !selected.size || selected.size > IDS_MAX }),
        button('Redrive all to their origins', () => start({}, items), { class: 'primary', disabled: !items.length }),
        button('Refresh', refresh)),
      selected.size > IDS_MAX ? h('p', { class: 'warn' }, `A redrive of selected messages has at most ${IDS_MAX}.`) : null,
      isWhole ? null : h('p', { class: 'faint' }, `These are the first ${READ_MAX} messages.`),
      items.length ? null : h('p', {}, 'There are no messages here.'),
      [...groups].map(([name, group]) => h('div', { class: 'card', 'data-key': name }, h('h2', {}, name ? `From ${name}` : 'Without an origin', h('span', { class: 'faint' }, ` ${count(group.length, 'message')}`)),
        list(page, queue, group, selected, draw, refresh))));
  };
  await page.every(REFRESH_MS, read);
}

function origin(message) {
  return message.origin?.queue ?? '';
}

function grouped(items) {
  const groups = new Map();
  for (const item of items) groups.set(origin(item), [...(groups.get(origin(item)) ?? []), item]);
  return groups;
}

async function readAll(queue, signal) {
  const found = [];
  let marker = null;
  while (found.length < READ_MAX) {
    const body = await readPage({ path: `${queue.path}/messages`, query: { ...READ, marker } }, signal, callInBackground);
    if (!body.messages.length) return [found, true];
    found.push(...dated(body).messages);
    marker = markerOf(body);
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
    { title: '', cell: message => h('input', { type: 'checkbox', 'aria-label': `Select ${message.id}`, onchange: event => toggle(message, event.target.checked) }) },
    { title: 'Message', class: 'body', cell: message => h('button', { type: 'button', class: 'link', onclick: () => show(page, queue, message, changed) }, h('bdi', { class: 'preview' }, preview(message.body))) },
    { title: 'Claims there', class: 'figure', cell: message => message.origin?.claim_count ?? '–' },
    { title: 'Here since', class: 'figure', cell: message => ago(message.postedAt) },
  ];
  return table(columns, group, { key: message => message.id, label: 'Dead letters' });
}

/** Says what a redrive will do, and starts it. */
function confirmRedrive(page, queue, body, letters, started) {
  const targets = [...new Set(letters.map(origin).filter(Boolean))];
  const to = h('input', { list: 'origins', placeholder: targets.join(', ') || 'queue', autocomplete: 'off' });
  const speed = h('input', { type: 'number', min: 1, placeholder: 'as fast as possible' });
  const lost = letters.filter(letter => !origin(letter)).length;
  const request = () => ({
    method: 'POST',
    path: `${queue.path}/redrive`,
    body: { ...body, ...(to.value ? { to: to.value } : {}), ...(speed.value ? { per_second: Number(speed.value) } : {}) },
  });
  const close = dialog('Redrive', h('p', {}, body.ids ? `Moves ${count(letters.length, 'selected message')}.` : 'Moves all messages that the queue has now.'),
    h('p', { class: 'faint' }, 'Claimed messages, and those whose origin does not exist any more, stay here.'),
    h('ul', { class: 'plain' }, targets.map(name => h('li', {}, `${number(letters.filter(letter => origin(letter) === name).length)} of those shown came from `, h('strong', {}, h('bdi', {}, name)))),
      lost ? h('li', { class: 'warn' }, `${count(lost, 'message')} without an origin: skipped, unless you name a queue.`) : null),
    h('datalist', { id: 'origins' }, targets.map(value => h('option', { value }))),
    field('To', to, 'Leave it empty to move each message to the queue from which it came.'),
    field('Messages per second', speed),
    h('div', { class: 'bar' }, page.action('Redrive', request, { kind: 'primary', done: () => { close(); started(); } })));
}

function taskList(page, queue, tasks, changed) {
  const columns = [
    { title: 'Redrive', cell: task => time(task.created) },
    { title: 'State', cell: task => h('span', { class: `tag ${task.state}`, title: task.error }, task.state) },
    { title: 'Progress', cell: task => h('progress', { max: task.moved + task.skipped + task.remaining || 1, value: task.state === 'done' ? task.moved + task.skipped || 1 : task.moved + task.skipped, 'aria-label': 'Progress' }) },
    { title: 'Moved', class: 'figure', cell: task => number(task.moved) },
    { title: 'Skipped', class: 'figure', cell: task => number(task.skipped) },
    { title: 'Left', class: 'figure', cell: task => number(task.remaining) },
    { title: '', cell: task => (task.state === 'running' ? page.action('Stop', { method: 'DELETE', path: `${queue.path}/tasks/${task.id}` }, { done: changed, confirm: page.ask('Messages that were moved stay where they are.') }) : task.error ?? '') },
  ];
  return h('div', { class: 'card' }, h('h2', {}, 'Redrives'), table(columns, tasks, { key: task => task.id, label: 'Redrives' }));
}
