// The metadata of a queue, and what cannot be undone.

import { call } from './api.js';
import { button, dialog, field, h } from './dom.js';
import { parse, write } from './json.js';

const PATCH = 'application/openstack-messaging-v2.0-json-patch';
const EXPLAINED = {
  _default_message_ttl: 'Time to live of messages that have none, in seconds. Then they expire, even if nobody has read them.',
  _default_message_delay: 'Delay of messages that have none, in seconds.',
  _max_messages_post_size: 'Maximum size of a post, in bytes.',
  _dead_letter_queue: 'The queue that receives messages that were claimed too often.',
  _dead_letter_queue_messages_ttl: 'Time to live of dead letters, in seconds. Without it, they keep only the rest of theirs.',
  _max_claim_count: 'Number of claims after which a message becomes a dead letter. Needs _dead_letter_queue.',
  _enable_encrypt_messages: 'Whether bodies are stored encrypted.',
  _enable_message_delay: 'Whether messages may have a delay. Their time to live starts when it ends.',
  _shards: 'Number of shards. With 2 or more, the queue is fair: tenants take turns.',
  _shards_per_tenant: 'Number of shards that may store messages of one tenant.',
  _retry_policy: 'When failed messages are sent to subscribers again, such as {"minimum_delay": 10, "maximum_delay": 60}.',
  _durability: 'Where messages must be stored before a post succeeds, such as fsync or replicas=1.',
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
    h('p.faint', {}, 'Keys that begin with an underscore change how the service handles messages. All others are yours.'),
    h('ul.keys', {}, Object.keys(shown).map(key => h('li', { 'data-key': key }, h('code', {}, key), h('bdi.preview', {}, write(shown[key], { max: 300 }).text),
      h('small', {}, explained(key)), button('Change', () => edit(page, queue, key, shown[key], read), { class: 'quiet' })))),
    h('div.bar', {}, button('Add a key', () => edit(page, queue, null, '', read), { class: 'primary' }), page.copy({ path: queue.path }, 'The metadata')),
    h('div.card.bad', {}, h('h2', {}, 'Irreversible actions'),
      h('div.bar', {},
        page.action('Purge', { method: 'POST', path: `${queue.path}/purge`, body: { resource_types: ['messages'] } }, { kind: 'danger', confirm: send => typed(`Purge deletes all messages of this ${one}.`, queue.name, send) }),
        page.action('Delete', { method: 'DELETE', path: queue.path }, { kind: 'danger', confirm: send => typed(`This deletes the ${one} with its messages and subscriptions.`, queue.name, send), done: () => { if (!page.signal.aborted) location.hash = `#/${queue.plural}`; } }))));
  await page.attempt(read);
}

/** Asks for the name before something is destroyed. */
function typed(text, name, send) {
  const input = h('input', { autocomplete: 'off', spellcheck: 'false', onkeydown: event => { if (event.key === 'Enter') go.click(); }, oninput: () => { go.disabled = input.value !== name; } });
  const go = button('Yes, do it', () => { close(); send(); }, { class: 'danger', disabled: true });
  const close = dialog('Are you sure?', h('p', {}, text), field(`Type ${name} to confirm`, input), h('div.bar', {}, go));
  input.focus();
}

function edit(page, queue, key, value, done) {
  const name = h('input', { value: key, readonly: key !== null, autocomplete: 'off', list: 'reserved', oninput: () => { hint.textContent = explained(name.value); } });
  const hint = h('p.faint', {}, explained(key));
  const text = h('textarea', { rows: 4, spellcheck: 'false', oninput: () => check() });
  text.value = key !== null ? write(value, { indent: 2 }).text : '';
  const state = h('p.faint', { role: 'status' });
  const isJson = () => {
    try {
      parse(text.value);
      return true;
    } catch {
      return false;
    }
  };
  const json = () => (isJson() ? text.value : JSON.stringify(text.value));
  const check = () => { state.textContent = isJson() ? 'This is valid JSON.' : `This is not JSON, so it will be stored as the text ${json().slice(0, 200)}.`; };
  const at = () => `/metadata/${name.value.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const patch = operation => ({ method: 'PATCH', path: queue.path, type: PATCH, body: operation });
  const save = () => patch(`[{"op": "add", "path": ${JSON.stringify(at())}, "value": ${json()}}]`);
  const finish = { done: () => { close(); return done(); } };
  // The service shows the default of a reserved key that is not set.
  const outcome = ({ body }) => Object.hasOwn(body, key) && write(body[key]).text === write(value).text && 'nothing has changed. The key was not set, or was set to its default';
  const close = dialog(key ?? 'New key', field('Key', name), hint, field('Value', text, 'JSON, or a text.'), state,
    h('datalist', { id: 'reserved' }, Object.keys(EXPLAINED).map(one => h('option', { value: one }))),
    h('div.bar', {}, page.action('Save', save, { kind: 'primary', ...finish }),
      key !== null ? page.action('Remove', () => patch(JSON.stringify([{ op: 'remove', path: at() }])), { ...finish, outcome, confirm: page.ask(`This removes ${key} from the metadata of ${queue.name}.`) }) : null));
  check();
  if (key !== null) text.focus();
}
