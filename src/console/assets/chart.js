// Draws figures as they change. A point has a time, `at`, and values by their names.

import { h } from './dom.js';
import { number } from './format.js';

const WIDTH = 600;
const HEIGHT = 120;

/** Draws a value as a small line. */
export function sparkline(points, name, label) {
  const top = Math.max(1, ...points.map(point => point[name]));
  return h('svg.spark', { viewBox: '0 0 80 20', role: 'img', 'aria-label': label, preserveAspectRatio: 'none' },
    h('path', { d: line(points, name, 80, 20, top) }));
}

/** Draws values as lines, with their latest amounts as `text` writes them. */
export function chart(points, names, text, label) {
  if (points.length < 2) return h('p.faint', {}, `${label}: the chart begins with the next figures.`);
  const top = Math.max(1, ...points.flatMap(point => names.map(name => point[name])));
  return h('figure.chart', {},
    h('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label, preserveAspectRatio: 'none' },
      names.map(name => h('path', { class: name, d: line(points, name, WIDTH, HEIGHT, top) }))),
    h('figcaption', {}, names.map(name => h('span', { class: `key ${name}` }, `${name} ${text(points.at(-1)?.[name])}`)),
      h('span.faint', {}, `highest ${number(Math.round(top))}`)));
}

function line(points, name, width, height, top) {
  if (points.length < 2) return '';
  const first = points[0].at;
  const x = at => (width * (at - first) / Math.max(1, points.at(-1).at - first)).toFixed(1);
  const y = value => (height - 1 - (height - 2) * value / top).toFixed(1);
  return points.map((point, index) => `${index ? 'L' : 'M'}${x(point.at)} ${y(point[name])}`).join('');
}

/** Draws amounts as bars. Each has a name, a value and the text that shows the value. */
export function bars(items) {
  const top = Math.max(1e-9, ...items.map(item => item.value));
  return h('ul.bars', {}, items.map(item => h('li', { 'data-key': item.name },
    h('bdi', {}, item.name),
    h('svg', { viewBox: '0 0 100 10', 'aria-hidden': 'true', preserveAspectRatio: 'none' },
      h('rect', { width: Math.max(0.5, 100 * item.value / top).toFixed(1), height: 10 })),
    h('span', {}, item.text))));
}
