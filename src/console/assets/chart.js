// Draws figures as they change.

import { h } from './dom.js';
import { number, rate } from './format.js';

const WIDTH = 600;
const HEIGHT = 120;

/** Draws values as a small line. */
export function sparkline(values, label) {
  return h('svg', { class: 'spark', viewBox: '0 0 80 20', role: 'img', 'aria-label': label, preserveAspectRatio: 'none' },
    h('path', { d: line(values, 80, 20, Math.max(1, ...values)) }));
}

/** Draws series of values with their latest ones. Each has a name, a class and values. */
export function chart(series, label) {
  const top = Math.max(1, ...series.flatMap(one => one.values));
  return h('figure', { class: 'chart' },
    h('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label, preserveAspectRatio: 'none' },
      series.map(one => h('path', { class: one.class, d: line(one.values, WIDTH, HEIGHT, top) }))),
    h('figcaption', {}, series.map(one => h('span', { class: `key ${one.class}` },
      `${one.name} ${one.isRate ? rate(one.values.at(-1) ?? null) : number(one.values.at(-1) ?? null)}`)),
      h('span', { class: 'faint' }, `highest ${number(Math.round(top))}`)));
}

function line(values, width, height, top) {
  if (values.length < 2) return '';
  const step = width / (values.length - 1);
  const y = value => (height - 1 - (height - 2) * value / top).toFixed(1);
  return values.map((value, index) => `${index ? 'L' : 'M'}${(index * step).toFixed(1)} ${y(value)}`).join('');
}

/** Draws amounts as bars. Each has a name, a value and the text that shows the value. */
export function bars(items) {
  const top = Math.max(1e-9, ...items.map(item => item.value));
  return h('ul', { class: 'bars' }, items.map(item => h('li', { 'data-key': item.name },
    h('bdi', {}, item.name),
    h('svg', { viewBox: '0 0 100 10', 'aria-hidden': 'true', preserveAspectRatio: 'none' },
      h('rect', { width: Math.max(0.5, 100 * item.value / top).toFixed(1), height: 10 })),
    h('span', {}, item.text))));
}
