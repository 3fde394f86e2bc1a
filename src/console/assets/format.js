// Shows numbers, durations and times.

import { h } from './dom.js';

// Their first use takes 20 to 50 ms, which should not delay the page.
const formats = {};
const numbers = () => (formats.number ??= new Intl.NumberFormat());
const times = () => (formats.time ??= new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }));
const UNITS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];

/** Returns a whole number with separators, or a dash if it is not known. */
export function number(value) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return numbers().format(value);
  const text = String(value);
  return /^-?\d+$/.test(text) ? numbers().format(BigInt(text)) : text;
}

/** Returns the number of messages that a queue has, by its statistics. It may be rounded beyond 2^53. */
export function waiting({ available, delayed, claimed }) {
  return Number(available) + Number(delayed) + Number(claimed);
}

/** Returns a rate per second. */
export function rate(value) {
  if (value === null || value === undefined) return '–';
  return `${value >= 10 || value === 0 ? numbers().format(Math.round(value)) : value.toFixed(1)}/s`;
}

/** Returns a duration in seconds as its largest two units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const index = UNITS.findIndex(([, size]) => seconds >= size);
  if (index < 0) return '0 s';
  const [unit, size] = UNITS[index];
  const rest = UNITS[index + 1];
  const more = rest ? Math.floor((seconds % size) / rest[1]) : 0;
  return `${Math.floor(seconds / size)} ${unit}${more ? ` ${more} ${rest[0]}` : ''}`;
}

/** Shows a time in the time zone of the user. Its title has the exact time. */
export function time(date) {
  if (date === null || date === undefined) return '–';
  const parsed = date instanceof Date ? date : new Date(date);
  if (Number.isNaN(parsed.getTime())) return String(date);
  const exact = date instanceof Date ? parsed.toISOString() : String(date);
  return h('time', { datetime: parsed.toISOString(), title: exact }, times().format(parsed));
}

/** Returns the time `seconds` ago. */
export function before(seconds) {
  return new Date(Date.now() - seconds * 1000);
}

/** Returns the value of a field for a time, which has no time zone. It is empty for what is no date. */
export function localTime(date) {
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date - 60000 * date.getTimezoneOffset()).toISOString().slice(0, 19);
}

/** Shows how long ago a time is: see `countDown`. Its title has the exact time. */
export function ago(date) {
  const exact = date.toISOString();
  return h('time', { datetime: exact, title: exact, 'data-since': exact }, passed(exact));
}

function passed(date) {
  return `${duration(Math.max(0, Math.floor((Date.now() - new Date(date)) / 1000)))} ago`;
}

/** Shows the time until something ends, which counts down: see `countDown`. */
export function countdown(date) {
  if (!date) return '–';
  return h('time', { datetime: date, title: date, 'data-until': date }, left(date));
}

/** Updates the times of the document that change. */
export function countDown() {
  for (const element of document.querySelectorAll('[data-since]')) element.textContent = passed(element.dataset.since);
  for (const element of document.querySelectorAll('[data-until]')) element.textContent = left(element.dataset.until);
}

function left(date) {
  const seconds = Math.ceil((new Date(date) - Date.now()) / 1000);
  return seconds > 0 ? `in ${duration(seconds)}` : 'now';
}

/** Returns "1 message" or "2 messages". */
export function count(amount, one, many = `${one}s`) {
  return `${number(amount)} ${amount === 1 ? one : many}`;
}
