// Finds the page of the address, and handles what all pages share: the session, failures, keys.

import * as api from './api.js';
import { attention } from './attention.js';
import { deadLetters } from './dead_letters.js';
import { button, dialog, field, h, render } from './dom.js';
import { countDown } from './format.js';
import { operators } from './operators.js';
import { queuePage } from './queue.js';
import { queues } from './queues.js';
import { SCHEMES, change, forget, session } from './session.js';

const ROUTES = [
  [/^\/$/, attention],
  [/^\/(queues|topics)$/, queues],
  [/^\/(queues|topics)\/([^/]+)(?:\/([^/]+))?$/, queuePage],
  [/^\/dead-letters$/, deadLetters],
  [/^\/operators$/, operators],
];
/** What opens a row. */
const TARGETS = 'a, button.link';
const LINKS = [['#/', 'Attention'], ['#/queues', 'Queues'], ['#/topics', 'Topics'], ['#/dead-letters', 'Dead letters'],
  ['#/operators', 'Operators'], ['docs', 'API']];
const KEYS = [['/', 'Search queues'], ['j and k', 'Next and previous row'], ['Enter', 'Open the row'],
  ['Esc', 'Close a dialog'], ['?', 'Show this help']];

/** The labels of failures that belong to a page, and not to an action. */
const READINGS = ['Read this page', 'Open this page', 'Look at the queues', 'Ask the stores'];

const byId = id => document.getElementById(id);
const view = byId('view');
let shown = new AbortController();

/** What a page gets: its element, its address, and what stops when it is left. */
class Page {
  constructor(route, query, signal) {
    Object.assign(this, { route, query, signal });
  }

  /** Begins a reading. Returns a function that says whether no later one has begun. */
  begin() {
    this.reading = (this.reading ?? 0) + 1;
    const mine = this.reading;
    return () => mine === this.reading && !this.signal.aborted;
  }

  /** Shows these children. */
  show(...children) {
    if (!this.signal.aborted) render(view, children);
  }

  /** Runs this now and then again after each interval, as long as the page is shown. */
  async every(ms, run, label) {
    for (;;) {
      await this.attempt(run, label);
      if (this.signal.aborted) return;
      await api.pause(ms, this.signal).catch(() => {});
      await api.visible(this.signal).catch(() => {});
      if (this.signal.aborted) return;
    }
  }

  /** Runs this, and shows its failure with a button that repeats it. */
  async attempt(run, label = 'Read this page') {
    try {
      const result = await run();
      clearFailure(label);
      return result;
    } catch (error) {
      const retry = () => this.attempt(run, label);
      if (!this.signal.aborted) showFailure(error, label, retry);
      return undefined;
    }
  }

  /** Changes values of the address without leaving the page. */
  set(values) {
    if (this.signal.aborted) return;
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === '') this.query.delete(name);
      else this.query.set(name, value);
    }
    const text = this.query.toString();
    history.replaceState(null, '', `#${this.route}${text ? `?${text}` : ''}`);
  }

  /** Returns what asks for a confirmation before something happens. */
  ask(text) {
    return send => {
      const close = dialog('Are you sure?', h('p', {}, text), h('div', { class: 'bar' }, button('Yes, do it', () => { close(); send(); }, { class: 'danger' })));
    };
  }

  /** A button that sends a request, beside one that copies the request as a command. */
  action(label, request, { done = () => {}, kind = '', confirm = kind === 'danger' ? this.ask(`${label}: this cannot be undone.`) : null } = {}) {
    let isRunning = false;
    const send = async () => {
      if (isRunning) return;
      isRunning = true;
      try {
        const response = await api.call(typeof request === 'function' ? request() : request);
        clearFailure(label);
        notify(`${label}: done.`);
        await done(response);
      } catch (error) {
        showFailure(error, label, send);
      } finally {
        isRunning = false;
      }
    };
    return h('span', { class: 'action' }, button(label, () => (confirm ? confirm(send) : send()), { class: kind }), this.copy(request, label));
  }

  notify(text) {
    notify(text);
  }

  /** Copies a text. */
  copyText(text, what) {
    return copyText(text, what);
  }

  /** A button that copies the command of a request. */
  copy(request, label = 'This request') {
    const onclick = async () => {
      const command = api.commandOf(typeof request === 'function' ? request() : request);
      await copyText(command, `${label} as curl`);
    };
    return button('curl', onclick, { class: 'quiet curl', title: `Copy “${label}” as a curl command`, 'aria-label': `Copy ${label} as curl` });
  }
}

async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notify(`${what}: copied.`);
  } catch {
    dialog(what, h('pre', { class: 'command' }, text));
  }
}

/** Shows a short notice. */
function notify(text) {
  const notice = h('p', { class: 'notice' }, text);
  byId('notices').append(notice);
  setTimeout(() => notice.remove(), 4000);
}

function failureOf(label) {
  return [...document.querySelectorAll('.failure')].find(notice => notice.dataset.label === label);
}

function clearFailure(label) {
  failureOf(label)?.remove();
}

/** Shows a failure until the request succeeds or the reader dismisses it. */
function showFailure(error, label, retry) {
  if (error.isIdentity) {
    shown.abort();
    signIn(error.message);
    return;
  }
  if (!(error instanceof api.Failure)) console.error(error);
  const shownAlready = failureOf(label);
  const notice = shownAlready ?? h('div', { class: 'notice failure', role: 'alert', 'data-label': label });
  const close = () => { notice.hidden = true; };
  const again = () => { notice.remove(); retry(); };
  render(notice, h('strong', {}, `${label} failed. `), error.message, error.requestId ? h('small', {}, `Request ${error.requestId}`) : null,
    h('span', { class: 'action' }, button('Retry', again), button('Dismiss', close, { class: 'quiet' })));
  if (!shownAlready) byId('notices').append(notice);
}

/** Asks who the reader is. */
function signIn(reason) {
  if (document.querySelector('dialog.session')) return;
  const project = h('input', { name: 'project', value: session.project, autocomplete: 'off', maxlength: 256, placeholder: 'demo' });
  const scheme = h('select', { name: 'scheme' }, Object.entries(SCHEMES).map(([value, label]) => h('option', { value, selected: session.scheme === value }, label)));
  const token = h('input', { name: 'token', type: 'password', value: session.token, autocomplete: 'off' });
  const roles = h('input', { name: 'roles', value: session.roles, placeholder: 'admin', autocomplete: 'off' });
  const submit = () => {
    const isBearer = token.value && scheme.value === 'none';
    change({ project: project.value, scheme: isBearer ? 'bearer' : scheme.value, token: token.value.trim(), roles: roles.value, known: true });
    close();
    start();
  };
  const close = dialog('Sign in',
    h('form', { method: 'dialog', onsubmit: event => { event.preventDefault(); submit(); } },
      reason ? h('p', { class: 'bad' }, reason) : null,
      field('Project', project, 'The project whose queues you want to see. A token may have a project of its own.'),
      field('Token', token, 'Leave it empty if the service has no authentication.'),
      field('Kind of token', scheme),
      field('Roles', roles, 'Only for a service without authentication: it believes these roles, such as admin.'),
      h('button', { class: 'primary' }, 'Sign in'),
      h('p', { class: 'faint' }, 'The browser forgets this when you close the tab.')));
  document.querySelector('dialog:last-of-type').classList.add('session');
}

function drawFrame(route) {
  const isCurrent = href => (href === '#/' ? route === '/' : route.startsWith(href.slice(1)));
  render(byId('pages'), LINKS.map(([href, label]) => h('a', { href, 'aria-current': isCurrent(href) ? 'page' : null }, label)));
  const leave = () => { forget(); start(); };
  render(byId('session'), button(session.project || 'No project', () => signIn(), { class: 'quiet', title: 'Change the project or the token' }),
    session.known ? button('Sign out', leave, { class: 'quiet' }) : null);
}

function start() {
  shown.abort();
  shown = new AbortController();
  for (const one of document.querySelectorAll('dialog')) one.close();
  const [route, text = ''] = (location.hash.slice(1) || '/').split('?');
  for (const label of READINGS) clearFailure(label);
  drawFrame(route);
  document.title = route === '/' ? 'Sukkal' : `${decode(route.slice(1))} – Sukkal`;
  render(view, h('p', { class: 'faint' }, 'Reading…'));
  if (!session.known) {
    render(view, h('section', {}, h('h1', {}, 'Welcome'), h('p', {}, 'Sign in to see the queues of a project.'), button('Sign in', () => signIn(), { class: 'primary' })));
    signIn();
    return;
  }
  for (const [pattern, show] of ROUTES) {
    const match = pattern.exec(route);
    if (!match) continue;
    const page = new Page(route, new URLSearchParams(text), shown.signal);
    page.attempt(() => show(page, ...match.slice(1).map(part => part && decode(part))), 'Open this page');
    return;
  }
  render(view, h('section', {}, h('h1', {}, 'Not found'), h('p', {}, 'The console has no page at this address.')));
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function help() {
  dialog('Keys', h('dl', { class: 'facts' }, KEYS.map(([key, does]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, does)))));
}

/** Moves the focus to the next or the previous link of a table. */
function moveFocus(step) {
  const rows = [...view.querySelectorAll('tbody tr')].filter(row => row.querySelector(TARGETS));
  if (!rows.length) return;
  const at = rows.findIndex(row => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next].querySelector(TARGETS).focus();
}

function onKey(event) {
  const isTyping = event.target.closest('input, textarea, select');
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const search = byId('search');
  if (event.key === '/') {
    event.preventDefault();
    if (search) search.focus();
    else location.hash = '#/queues?search=1';
  } else if (event.key === 'j') moveFocus(1);
  else if (event.key === 'k') moveFocus(-1);
  else if (event.key === '?') help();
}

document.addEventListener('keydown', onKey);
document.querySelector('.skip').onclick = event => { event.preventDefault(); view.focus(); };
addEventListener('hashchange', start);
setInterval(() => {
  countDown();
  const text = `${api.requestsOfMinute()} requests in the last minute`;
  render(byId('status'), h('span', {}, text), button('Keys', help, { class: 'quiet' }));
}, 1000);
start();
