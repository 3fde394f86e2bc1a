// Builds the pages. A text is always shown as a text: nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg';
const SVG_TAGS = new Set(['svg', 'path', 'rect']);

/**
 * Creates an element, such as `p` or `p.faint`, which has the class `faint`. Attributes whose names
 * begin with `on` are event handlers, `false` and `null` leave an attribute out, and children that
 * are `null` or `false` are left out, too.
 */
export function h(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split('.');
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  if (classes.length) element.setAttribute('class', classes.join(' '));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.handlers = Object.keys(attributes).filter(name => name.startsWith('on'));
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== false && child !== undefined));
  return element;
}

/**
 * Makes the children of an element equal to these. Elements that stay keep their focus, scroll
 * position, selection and what the user has typed or unfolded.
 */
export function render(element, ...children) {
  morphChildren(element, h('div', {}, children));
}

function morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key !== null) keyed.set(key, child);
  }
  const keys = new Set(wanted.map(keyOf));
  for (const [key, child] of keyed) if (!keys.has(key)) child.remove();
  let position = old.firstChild;
  for (const child of wanted) {
    const key = keyOf(child);
    const match = key !== null ? keyed.get(key) : position && keyOf(position) === null ? position : undefined;
    if (match && isAlike(match, child)) {
      if (match === position) position = position.nextSibling;
      else old.insertBefore(match, position);
      morph(match, child);
    } else {
      old.insertBefore(child, position);
    }
  }
  while (position) {
    const next = position.nextSibling;
    position.remove();
    position = next;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute('data-key') : null;
}

function isAlike(old, fresh) {
  return old.nodeName === fresh.nodeName && old.nodeType === fresh.nodeType;
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isOfUser(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !isOfUser(old, name)) old.setAttribute(name, value);
  }
  // The attribute is only the first choice of a user.
  if (old.nodeName === 'OPTION') old.selected = fresh.selected;
  for (const name of old.handlers ?? []) old[name] = null;
  for (const name of fresh.handlers ?? []) old[name] = fresh[name];
  old.handlers = fresh.handlers;
  // What was built on demand inside stays as the user has unfolded it.
  if (!old.hasAttribute('data-lazy')) morphChildren(old, fresh);
}

function isOfUser(element, name) {
  return (name === 'open' && (element.nodeName === 'DETAILS' || element.nodeName === 'DIALOG')) || (name === 'value' && element.nodeName === 'INPUT');
}

/** Puts the focus into the page if the element that had it is gone. */
export function keepFocus() {
  if (document.activeElement === document.body) document.getElementById('view').focus({ preventScroll: true });
}

/** Creates a table. A column has a title, a function that makes the contents of its cell from an item, and a class. */
export function table(columns, items, { key, label }) {
  const cells = item => columns.map(([, cell, kind]) => h('td', { class: kind }, cell(item)));
  return h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': label },
    h('table', {},
      h('thead', {}, h('tr', {}, columns.map(([title, , kind]) => h('th', { class: kind, scope: 'col' }, title)))),
      h('tbody', {}, items.map(item => h('tr', { 'data-key': key(item) }, cells(item))))));
}

/** Creates a button. */
export function button(label, onclick, attributes = {}) {
  return h('button', { type: 'button', onclick, ...attributes }, label);
}

/** Creates a field of a form with its label, and an explanation below it. */
export function field(label, input, hint) {
  return h('label.field', {}, h('span', {}, label), input, hint ? h('small', {}, hint) : null);
}

/** Creates a list of names and values. */
export function facts(...pairs) {
  const shown = pairs.filter(Boolean);
  return h('dl.facts', {}, shown.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

/**
 * Opens a dialog and returns a function that closes it. It closes with Escape, too. The notices are
 * in the topmost dialog, because nothing below it can be used.
 */
export function dialog(title, ...children) {
  const close = () => element.close();
  const notices = document.getElementById('notices');
  const onclose = () => {
    element.remove();
    ([...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body).append(notices);
    keepFocus();
  };
  const element = h('dialog', { 'aria-label': title, onclose },
    h('header', {}, h('h2', {}, title), button('Close', close, { class: 'quiet' })), children);
  document.body.append(element);
  element.showModal();
  element.append(notices);
  element.querySelector('form input, .field input, .field textarea')?.focus();
  return close;
}
