// Starts redrives, and says first what they will do.

import { dialog, field, h, render } from './dom.js';
import { count, number } from './format.js';
import { find } from './queues.js';

const ORIGINS_MAX = 20;
/** Pause after a letter, in case another one follows. */
const TYPING_MS = 300;

/** Returns from where a dead letter came, or an empty text. A redriven message keeps its origin. */
export function origin(message, queue) {
  const { queue: name = '', topic } = message.origin ?? {};
  if (topic) return `topic ${topic}`;
  return name === queue.name ? '' : name;
}

/** Returns the queue to which a redrive returns a dead letter. One of a subscription was never claimed, and returns nowhere. */
function home(letter, queue) {
  return letter.origin?.claim_count ? origin(letter, queue) : '';
}

/** Says what a redrive will do, and starts it. */
export async function redrive(page, queue, body, letters, started) {
  const names = [...new Set(letters.map(letter => home(letter, queue)).filter(Boolean))];
  const exists = new Map();
  const look = async name => {
    if (!exists.has(name)) exists.set(name, Boolean(await find('queues', name, page.signal)));
  };
  await Promise.all(names.slice(0, ORIGINS_MAX).map(look));
  let typing;
  const typed = () => {
    clearTimeout(typing);
    typing = setTimeout(() => look(to.value).then(preview, () => {}), TYPING_MS);
    preview();
  };
  const to = h('input', { list: 'origins', placeholder: names.join(', ').slice(0, 100) || 'queue', autocomplete: 'off', spellcheck: 'false', oninput: typed });
  const speed = h('input', { type: 'number', min: 1, placeholder: 'as fast as possible' });
  const plan = h('ul.plain', { 'aria-live': 'polite' });
  const preview = () => render(plan, outcomes(queue, letters, to.value, exists).map(({ text, isBad }) => h('li', { class: isBad ? 'warn' : null }, text)));
  const request = () => ({
    method: 'POST',
    path: `${queue.path}/redrive`,
    body: { ...body, ...(to.value ? { to: to.value } : {}), ...(speed.value ? { per_second: Number(speed.value) } : {}) },
  });
  const close = dialog('Redrive', h('p', {}, body.ids ? `You have selected ${count(letters.length, 'message')}:` : `Moves all messages that the queue has now. Of the ${count(letters.length, 'message')} shown:`),
    plan,
    h('datalist', { id: 'origins' }, names.map(value => h('option', { value }))),
    field('To', to, 'Leave it empty to move each message to the queue from which it came.'),
    field('Messages per second', speed),
    h('div.bar', {}, page.action('Redrive', request, { kind: 'primary', done: () => { close(); started(); } })));
  preview();
}

/** Returns what a redrive does with these letters, in one sentence for each outcome. */
function outcomes(queue, letters, to, exists) {
  if (to === queue.name) return [{ text: 'Choose another queue than this one.', isBad: true }];
  if (to && exists.get(to) === false) return [{ text: `The queue ${to} does not exist.`, isBad: true }];
  const amounts = new Map();
  const add = (text, isBad) => amounts.set(text, { isBad, amount: (amounts.get(text)?.amount ?? 0) + 1 });
  for (const letter of letters) {
    const target = to || home(letter, queue);
    if (['claimed', 'delayed'].includes(letter.state)) add(`Stay, because they are ${letter.state}`, true);
    else if (!target) add(letter.origin?.claim_count === 0 ? 'Stay, because a subscription gave them up: name a queue' : 'Stay, because they have no origin', true);
    else if (exists.get(target) === false) add(`Stay, because ${target} does not exist any more`, true);
    else add(exists.get(target) ? `Move to ${target}` : `Move to ${target}, if it exists`, false);
  }
  return [...amounts].map(([text, { amount, isBad }]) => ({ text: `${text}: ${number(amount)}`, isBad }));
}

