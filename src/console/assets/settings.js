// The metadata of a queue, and what cannot be undone.

import { call } from './api.js';
import { button, dialog, field, h } from './dom.js';
import { parse, write } from './json.js';

const PATCH = 'application/openstack-messaging-v2.0-json-patch';
const EXPLAINED = {
  _default_message_ttl: 'Time to live of messages that have none, in seconds.',
  _default_message_delay: 'Delay of messages that have none, in seconds.',
  _max_messages_post_size: 'Maximum size of a post, in bytes.',
  _dead_letter_queue: 'The queue that receives messages that were claimed too often.',
  _dead_letter_queue_messages_ttl: 'Time to live of dead letters, in seconds.',
  _max_claim_count: 'A message is claimed at most so often. Then it becomes a dead letter.',
  _enable_encrypt_messages: 'Whether bodies are stored encrypted.',
  _enable_message_delay: 'Whether the time to live starts when the delay ends.',
  _shards: 'Number of shards. With it, the queue is fair: tenants take turns.',
  _durability: 'What each post must have reached before its response, such as replicas=1.',
  _flavor: 'The flavor whose pools may have the queue.',
};

function explained(key) {
  return Object.hasOwn(EXPLAINED, key) ? EXPLAINED[key] : '';
}

/** Shows and edits the metadata, purges and deletes. */
export async function settings(page, queue) {
  const one = queue.plural === 'queues' ? 'queue' : 'topic';
  let shown = {};
  const read = async () => {
    shown = (await call({ path: queue.path }, page.signal)).body;
    draw();
  };
  const draw = () => page.show(
    h('p', { class: 'faint' }, 'Keys that begin with an underscore change how the service handles messages. All others are yours.'),
    h('ul', { class: 'keys' }, Object.keys(shown).map(key => h('li', { 'data-key': key }, h('code', {}, key), h('bdi', { class: 'preview' }, write(shown[key], { max: 300 }).text),
      h('small', {}, explained(key)), button('Change', () => edit(page, queue, key, shown[key], read), { class: 'quiet' })))),
    h('div', { class: 'bar' }, button('Add a key', () => edit(page, queue, '', '', read), { class: 'primary' }), page.copy({ path: queue.path }, 'The metadata')),
    h('div', { class: 'card bad' }, h('h2', {}, 'What cannot be undone'),
      h('div', { class: 'bar' },
        page.action('Purge', { method: 'POST', path: `${queue.path}/purge`, body: { resource_types: ['messages'] } }, { kind: 'danger', confirm: send => typed(`Purge deletes all messages of this ${one}.`, queue.name, send) }),
        page.action('Delete', { method: 'DELETE', path: queue.path }, { kind: 'danger', confirm: send => typed(`This deletes the ${one} with its messages and subscriptions.`, queue.name, send), done: () => { location.hash = `#/${queue.plural}`; } }))));
  await page.attempt(read);
}

/** Asks for the name before something is destroyed. */
function typed(text, name, send) {
  const input = h('input', { autocomplete: 'off', spellcheck: 'false', oninput: () => { go.disabled = input.value !== name; } });
  const go = button('Yes, do it', () => { close(); send(); }, { class: 'danger', disabled: true });
  const close = dialog('Are you sure?', h('p', {}, text), field(`Type ${name} to confirm`, input), h('div', { class: 'bar' }, go));
  input.focus();
}

function edit(page, queue, key, value, done) {
  const name = h('input', { value: key, readonly: Boolean(key), autocomplete: 'off', list: 'reserved', oninput: () => { hint.textContent = explained(name.value); } });
  const hint = h('p', { class: 'faint' }, explained(key));
  const text = h('textarea', { rows: 4, spellcheck: 'false', oninput: () => check() });
  text.value = key ? write(value, { indent: 2 }).text : '';
  const state = h('p', { class: 'faint', role: 'status' });
  const json = () => {
    try {
      parse(text.value);
      return text.value;
    } catch {
      return JSON.stringify(text.value);
    }
  };
  const check = () => { state.textContent = `Stored as ${json().slice(0, 200)}`; };
  const at = () => `/metadata/${name.value.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const patch = operation => ({ method: 'PATCH', path: queue.path, type: PATCH, body: operation });
  const save = () => patch(`[{"op": "add", "path": ${JSON.stringify(at())}, "value": ${json()}}]`);
  const finish = { done: () => { close(); done(); } };
  const close = dialog(key || 'New key', field('Key', name), hint, field('Value', text, 'JSON, or a text.'), state,
    h('datalist', { id: 'reserved' }, Object.keys(EXPLAINED).map(one => h('option', { value: one }))),
    h('div', { class: 'bar' }, page.action('Save', save, { kind: 'primary', ...finish }),
      key ? page.action('Remove', () => patch(JSON.stringify([{ op: 'remove', path: at() }])), finish) : null));
  check();
}
