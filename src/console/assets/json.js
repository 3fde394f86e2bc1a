// Reads and shows JSON without rounding numbers, and without recursion: bodies may be deep and large.

import { button, h } from './dom.js';

// Numbers that JavaScript would round or write differently, and names that it would move to the front.
const INEXACT = /(?:^|[[:,\s])(?:-?[\d.]{16}|-?[\d.]+[eE]|-?\d+\.\d*0(?!\d)|-0(?![\d.]))|"\d+"\s*:/;
const ENTRIES = Symbol('entries');
const TOKEN = /\s*(?:([{}[\],:])|("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*)|(true|false|null))/y;
/** Number of tokens between two pauses of the exact parser, which take some milliseconds. */
const TOKENS_MAX = 20000;
const ITEMS_SHOWN = 100;
const TEXT_SHOWN = 2000;

/** Time after which the page should react to its user. */
const BUSY_MS = 20;
let rested = 0;

/** A number that JavaScript would round or write differently. */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

/** Parses a JSON document. Throws a SyntaxError if it is not one. */
export function parse(text) {
  const steps = parsing(text);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Parses a large document with pauses, in which the page can be used. */
export async function parseLarge(text) {
  const steps = parsing(text);
  let step = steps.next();
  while (!step.done) {
    await breathe();
    step = steps.next();
  }
  return step.value;
}

// Yields after each part of a document that is parsed exactly, and returns the value.
function* parsing(text) {
  const value = JSON.parse(text);
  return INEXACT.test(text) ? yield* parseExactly(text) : value;
}

/** Lets the page react, if it could not for a while. */
export async function breathe() {
  if (performance.now() - rested < BUSY_MS) return;
  await new Promise(resolve => { setTimeout(resolve); });
  rested = performance.now();
}

// The text is known to be valid JSON.
function* parseExactly(text) {
  const open = [];
  const token = new RegExp(TOKEN);
  let value;
  let count = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    count += 1;
    if (count % TOKENS_MAX === 0) yield;
    const [, mark, string, figure, word] = match;
    if (mark === '{' || mark === '[') {
      open.push({ container: mark === '{' ? { [ENTRIES]: [] } : [], key: null });
      continue;
    }
    if (mark === ',' || mark === ':') continue;
    if (mark) value = open.pop().container;
    else if (string) value = JSON.parse(string);
    else if (figure) value = String(Number(figure)) === figure ? Number(figure) : new ExactNumber(figure);
    else value = JSON.parse(word);
    const parent = open.at(-1);
    if (!parent) continue;
    if (Array.isArray(parent.container)) parent.container.push(value);
    else if (parent.key === null) parent.key = value;
    else {
      parent.container[ENTRIES].push([parent.key, value]);
      Object.defineProperty(parent.container, parent.key, { value, enumerable: true, writable: true, configurable: true });
      parent.key = null;
    }
  }
  return value;
}

/** Writes a value as JSON in at most about `max` characters. Returns the text and whether it is all. */
export function write(value, { indent = 0, max = Infinity } = {}) {
  const parts = [];
  let length = 0;
  const put = part => { parts.push(part); length += part.length; };
  const line = depth => indent ? `\n${' '.repeat(indent * depth)}` : '';
  const stack = [{ entries: [['', value]].values(), end: '', depth: 0, isFirst: true }];
  while (stack.length && length <= max) {
    const top = stack.at(-1);
    const { value: entry, done } = top.entries.next();
    if (done) {
      stack.pop();
      if (top.end) put((top.isFirst ? '' : line(top.depth - 1)) + top.end);
      continue;
    }
    if (top.depth) put((top.isFirst ? '' : ',') + line(top.depth) + entry[0]);
    top.isFirst = false;
    const item = entry[1];
    if (!isContainer(item)) put(scalar(item));
    else {
      const isList = Array.isArray(item);
      put(isList ? '[' : '{');
      const entries = isList ? pairs(item) : named(item, indent ? ': ' : ':');
      stack.push({ entries, end: isList ? ']' : '}', depth: top.depth + 1, isFirst: true });
    }
  }
  return { text: parts.join('').slice(0, max), isWhole: !stack.length && length <= max };
}

function* pairs(list) {
  for (const item of list) yield ['', item];
}

function* named(object, colon) {
  for (const [name, value] of members(object)) yield [JSON.stringify(name) + colon, value];
}

// The members in the order of the document, if it was read exactly. A preview needs few of them.
function* members(object) {
  if (object[ENTRIES]) yield* object[ENTRIES];
  else for (const name in object) yield [name, object[name]];
}

function isContainer(value) {
  return value !== null && typeof value === 'object' && !(value instanceof ExactNumber);
}

function scalar(value) {
  return value instanceof ExactNumber ? value.text : JSON.stringify(value);
}

/** Returns the beginning of a body in one line. It is remembered: a body may have many members. */
export function preview(message) {
  if (message.preview === undefined) {
    const { text, isWhole } = write(message.body, { max: 160 });
    message.preview = isWhole ? text : `${text}…`;
  }
  return message.preview;
}

/** Shows a value as a tree that can be folded. Parts are built when they are unfolded. */
export function tree(value) {
  return h('div.json', { 'data-lazy': true }, branch('', value, true));
}

function branch(name, value, isOpen) {
  const label = name === '' ? null : h('span.name', {}, `${name}: `);
  if (!isContainer(value)) return h('div.leaf', {}, label, leaf(value));
  const isList = Array.isArray(value);
  const entries = isList ? null : [...members(value)];
  const size = isList ? value.length : entries.length;
  const kind = isList ? `[ ${size} ]` : `{ ${size} }`;
  if (!size) return h('div.leaf', {}, label, isList ? '[]' : '{}');
  const items = h('div.items', {});
  const item = index => (isList ? branch(String(index), value[index], false) : branch(...entries[index], false));
  const fill = from => {
    const to = Math.min(from + ITEMS_SHOWN, size);
    for (let index = from; index < to; index += 1) items.append(item(index));
    if (to === size) return;
    const more = button(`Show more of ${size}`, () => { more.remove(); fill(to); }, { class: 'quiet' });
    items.append(more);
  };
  const unfold = () => { if (!items.firstChild) fill(0); };
  if (isOpen) unfold();
  const ontoggle = event => { if (event.target.open) unfold(); };
  return h('details', { open: isOpen, ontoggle }, h('summary', {}, label, h('span.size', {}, kind)), items);
}

function leaf(value) {
  const text = scalar(value);
  const kind = { class: typeof value === 'string' ? 'string' : 'other', dir: 'auto' };
  if (text.length <= TEXT_SHOWN) return h('bdi', kind, text);
  const shown = h('bdi', kind, `${text.slice(0, TEXT_SHOWN)}…`);
  const all = button(`Show all ${text.length} characters`, () => { shown.textContent = text; all.remove(); }, { class: 'quiet' });
  return h('span', {}, shown, all);
}
