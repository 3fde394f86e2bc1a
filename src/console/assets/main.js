// Finds the page of the address, and handles what all pages share: the session, failures, keys.

import * as api from './api.js';
import { attention } from './attention.js';
import { deadLetters } from './dead_letters.js';
import { button, dialog, field, h, keepFocus, render } from './dom.js';
import { countDown } from './format.js';
import { operators } from './operators.js';
import { queuePage } from './queue.js';
import { queues } from './queues.js';
import { SCHEMES, change, forget, identityKey, projectShown, session } from './session.js';

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

const NOTICE_MS = 4000;
const WARNING_MS = 15000;

/** The labels of failures that belong to a page, and not to an action. */
const READINGS = ['Loading this page', 'Opening this page', 'Checking the queues', 'Checking the subscriptions', 'Checking the store'];

const byId = id => document.getElementById(id);
const view = byId('view');
let shown = new AbortController();
let shownTo = '';
/** The requests of actions that have no response yet. */
const running = new Set();

/** The context of a page: its address, and a signal that ends with it. */
class Page {
  constructor(route, query, signal) {
    // The browser keeps the markers of the pages before this one with the address.
    Object.assign(this, { route, query, signal, previous: history.state ?? [] });
  }

  /** Starts a load. Returns a function that says whether it is still the latest one. */
  begin() {
    this.reading = (this.reading ?? 0) + 1;
    const mine = this.reading;
    return () => mine === this.reading && !this.signal.aborted;
  }

  /** Shows these children. */
  show(...children) {
    if (this.signal.aborted) return;
    const hadFocus = view.contains(document.activeElement);
    render(view, children);
    if (hadFocus) keepFocus();
  }

  /** Runs this now and then again after each interval, as long as the page is shown. */
  async every(ms, run, label) {
    for (;;) {
      await this.attempt(run, label, true);
      if (this.signal.aborted) return;
      await api.pause(ms, this.signal).catch(() => {});
      await api.visible(this.signal).catch(() => {});
      if (this.signal.aborted) return;
    }
  }

  /** Runs this, and shows its failure with a button that repeats it. */
  async attempt(run, label = 'Loading this page', isRepeated = false) {
    try {
      const result = await run();
      clearFailure(label);
      return result;
    } catch (error) {
      this.failed(error, label, () => this.attempt(run, label), isRepeated);
      return undefined;
    }
  }

  /** Shows a failure, if the page is still shown. */
  failed(error, label, retry, isRepeated = false) {
    if (this.signal.aborted) return;
    showFailure(error, label, retry, { isRepeated });
    const loading = view.querySelector('.loading');
    if (loading) Object.assign(loading, { className: 'bad', textContent: error.message });
  }

  /** Changes values of the address without leaving the page. */
  set(values) {
    // The address may name another page already, whose event has not come yet.
    if (this.signal.aborted || address().route !== this.route) return;
    if (values.marker === null) this.previous = [];
    for (const [name, value] of Object.entries(values)) {
      if (value === null || value === '') this.query.delete(name);
      else this.query.set(name, value);
    }
    const text = this.query.toString();
    history.replaceState(this.previous, '', `#${this.route}${text ? `?${text}` : ''}`);
  }

  /** The marker of the page of a list that is shown. */
  get marker() {
    return this.query.get('marker');
  }

  /** The buttons below a page of a list. They change the marker and `read` that page. */
  pager(next, read, ...more) {
    const { marker, previous } = this;
    // The buttons belong to the page that is shown, so repeated clicks have no further effect.
    const go = (to, before) => {
      this.previous = before;
      this.set({ marker: to });
      this.attempt(read);
    };
    return h('div.bar', {}, button(previous.length || !marker ? 'Back' : 'First page', () => go(previous.at(-1) ?? null, previous.slice(0, -1)), { disabled: !marker }),
      button('Next', () => go(next, [...previous, marker]), { disabled: !next }), more);
  }

  /** Returns a function that asks for a confirmation before it sends a request. */
  ask(text) {
    return send => {
      const close = dialog('Are you sure?', h('p', {}, text), h('div.bar', {}, button('Yes, do it', () => { close(); send(); }, { class: 'danger' })));
    };
  }

  /** Says that there is nothing, and shows a command that changes it. */
  empty(text, request) {
    return [h('p', {}, text), h('pre.command', {}, api.commandOf(request))];
  }

  /**
   * A button that sends a request, beside one that copies the request as a command. `copied` is the
   * request to copy. `outcome` may return a text that the notice has in place of “done”.
   */
  action(label, request, { copied = request, done = () => {}, outcome = () => {}, kind = '', confirm = null } = {}) {
    const send = async () => {
      // The value of a number field is empty if its text is no number.
      const unreadable = [...document.querySelectorAll('dialog[open] input')].find(input => input.validity.badInput);
      if (unreadable) {
        unreadable.reportValidity();
        return;
      }
      const sent = typeof request === 'function' ? request() : request;
      const [sender, target] = [identityKey(), `${label}: ${sent.method} ${sent.path}`];
      if (running.has(target)) return;
      running.add(target);
      let response;
      try {
        response = await api.call(sent);
      } catch (error) {
        showFailure(error, label, sender === identityKey() ? send : null, { target });
        return;
      } finally {
        running.delete(target);
      }
      clearFailure(target);
      const warning = response.headers.get('Sukkal-Warning') ?? '';
      const special = outcome(response);
      notify(`${label}: ${special || (response.status === 202 ? 'started' : 'done')}. ${warning}`, special || warning ? WARNING_MS : NOTICE_MS);
      await this.attempt(() => done(response));
    };
    return h('span.action', {}, button(label, () => (confirm ? confirm(send) : send()), { class: kind }), this.copy(copied, label));
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
    dialog(what, h('pre.command', {}, text));
  }
}

/** Shows a notice for a time. */
function notify(text, ms = NOTICE_MS) {
  const notice = h('p.notice', {}, text);
  byId('notices').append(notice);
  setTimeout(() => notice.remove(), ms);
}

function failureOf(target) {
  return [...document.querySelectorAll('.failure')].find(notice => notice.dataset.target === target);
}

function clearFailure(target) {
  failureOf(target)?.remove();
}

/** Shows a failure until the request succeeds. If the user has dismissed it, repeated loads do not show it again. */
function showFailure(error, label, retry, { isRepeated = false, target = label } = {}) {
  if (error.isIdentity) {
    shown.abort();
    signIn(error.message);
    return;
  }
  if (!(error instanceof api.Failure)) console.error(error);
  const shownAlready = failureOf(target);
  const notice = shownAlready ?? h('div.notice.failure', { role: 'alert', 'data-target': target });
  const close = () => { notice.hidden = true; };
  if (!isRepeated) notice.hidden = false;
  const again = () => { notice.remove(); retry(); };
  render(notice, h('strong', {}, `${label} failed. `), error.message, target === label ? null : h('small', {}, target), error.requestId ? h('small', {}, `Request ${error.requestId}`) : null,
    h('span.action', {}, retry ? button('Retry', again) : null, button('Dismiss', close, { class: 'quiet' })));
  if (!shownAlready) byId('notices').append(notice);
}

/** Asks who the user is. */
function signIn(reason) {
  if (document.querySelector('dialog.session[open]')) return;
  const project = h('input', { name: 'project', value: session.project, autocomplete: 'off', maxlength: 256, placeholder: 'such as demo' });
  const scheme = h('select', { name: 'scheme' }, Object.entries(SCHEMES).map(([value, label]) => h('option', { value, selected: session.scheme === value }, label)));
  const token = h('input', { name: 'token', type: 'password', value: session.token, autocomplete: 'off' });
  const roles = h('input', { name: 'roles', value: session.roles, placeholder: 'such as admin', autocomplete: 'off' });
  project.oninput = () => project.setCustomValidity('');
  const submit = () => {
    if (!project.value && !token.value) {
      project.setCustomValidity('Enter a project, or a token that has one.');
      project.reportValidity();
      return;
    }
    // The page belongs to the project that was chosen, and filters to the queues of the former one.
    if (session.other) history.replaceState(null, '', '#/');
    else if (session.known && project.value !== session.project) forgetFilters();
    const isBearer = token.value && scheme.value === 'none';
    change({ project: project.value, scheme: isBearer ? 'bearer' : scheme.value, token: token.value.trim(), roles: roles.value, known: true, other: '' });
    close();
    start();
  };
  const close = dialog('Sign in',
    h('form', { method: 'dialog', onsubmit: event => { event.preventDefault(); submit(); } },
      reason ? h('p.bad', {}, reason) : null,
      field('Project', project, 'The project whose queues you want to see. A token may have a project of its own.'),
      field('Token', token, 'Leave it empty if the service has no authentication.'),
      field('Kind of token', scheme),
      field('Roles', roles, 'Only for a service without authentication: it believes these roles, such as admin.'),
      h('button.primary', {}, 'Sign in'),
      h('p.faint', {}, 'The browser forgets this when you close the tab.')));
  const opened = document.querySelector('dialog:last-of-type');
  opened.classList.add('session');
  // The page is outdated if its user was refused and does not sign in.
  opened.addEventListener('close', () => { if (shown.signal.aborted) welcome(); });
}

function welcome() {
  render(view, h('section', {}, h('h1', {}, 'Welcome'), h('p', {}, 'Sign in to see the queues of a project.'), button('Sign in', () => signIn(), { class: 'primary' })));
}

function drawFrame(route) {
  const isCurrent = href => (href === '#/' ? route === '/' : route.startsWith(href.slice(1)));
  render(byId('pages'), LINKS.map(([href, label]) => h('a', { href, 'aria-current': isCurrent(href) ? 'page' : null }, label)));
  const leave = () => { forget(); forgetFilters(); start(); };
  render(byId('session'), button(projectShown() || (session.token ? 'Project of the token' : 'No project'), () => signIn(), { class: 'quiet', title: 'Change the project or the token' }),
    session.known ? button('Sign out', leave, { class: 'quiet' }) : null);
}

/** The page and the values in the address. */
function address() {
  const [route, text = ''] = location.hash.slice(1).split('?');
  return { route: route.replace(/\/+$/, '') || '/', query: new URLSearchParams(text) };
}

function forgetFilters() {
  history.replaceState(null, '', `#${address().route}`);
}

function start() {
  shown.abort();
  shown = new AbortController();
  for (const one of document.querySelectorAll('dialog')) one.close();
  const { route, query } = address();
  for (const label of READINGS) clearFailure(label);
  // A retry would send the request as somebody else.
  if (shownTo !== identityKey()) for (const failure of document.querySelectorAll('.failure')) failure.remove();
  shownTo = identityKey();
  drawFrame(route);
  document.title = route === '/' ? 'Sukkal' : `${decode(route.slice(1))} – Sukkal`;
  render(view, h('p.faint.loading', {}, 'Loading…'));
  if (!session.known) {
    welcome();
    signIn();
    return;
  }
  for (const [pattern, show] of ROUTES) {
    const match = pattern.exec(route);
    if (!match) continue;
    const page = new Page(route, query, shown.signal);
    page.attempt(() => show(page, ...match.slice(1).map(part => part && decode(part))), 'Opening this page');
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
  dialog('Keys', h('dl.facts', {}, KEYS.map(([key, does]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, does)))));
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
addEventListener('hashchange', () => {
  start();
  // Screen readers read the new page, and the keys begin at its first row.
  if (!document.querySelector('dialog[open]')) view.focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(() => {
  countDown();
  const text = `${api.requestsOfMinute()} requests in the last minute`;
  render(byId('status'), h('span', {}, text), button('Keys', help, { class: 'quiet' }));
}, 1000);
start();
