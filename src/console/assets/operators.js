// What operators see of the whole service: projects, pools, tokens, usage and quotas.

import { call, readPage } from './api.js';
import { button, dialog, facts, field, h, table } from './dom.js';
import { number, time } from './format.js';
import { write } from './json.js';
import { markerOf } from './sample.js';
import { change, session } from './session.js';

/** Shows what the service lets the caller see. The service may not have some of it. */
export async function operators(page) {
  const sections = new Map();
  const draw = () => page.show(h('section', {}, h('h1', {}, 'Operators'),
    h('p', {}, 'Some of this requires the role admin, and that the operator has set admin_mode.')),
  PARTS.map(part => h('section', { class: 'card', 'data-key': part.title }, h('h2', {}, part.title), sections.get(part) ?? h('p', { class: 'faint' }, 'Reading…'))));
  const load = async (part, marker = '') => {
    try {
      const read = part.isList ? readPage : async (...request) => (await call(...request)).body;
      const body = await read({ path: part.path, query: { ...part.query, marker } }, page.signal);
      sections.set(part, part.show(page, body, () => load(part)));
      const next = part.isList && body[part.isList].length ? markerOf(body) : null;
      if (next) sections.set(part, [sections.get(part), button('Next', () => load(part, next))]);
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (error.isIdentity) throw error;
      sections.set(part, h('p', { class: 'faint' }, error.status === 404 ? 'The service does not offer this.' : error.message));
    }
    draw();
  };
  draw();
  for (const part of PARTS) await page.attempt(() => load(part));
}

const PARTS = [
  { title: 'Usage of this project', path: 'v2/usage', show: usage },
  { title: 'Quotas of this project', path: 'v2/quotas', show: quotas },
  { title: 'Projects', path: 'v2/projects', isList: 'projects', show: projects },
  { title: 'Pools', path: 'v2/pools', isList: 'pools', query: { detailed: true }, show: pools },
  { title: 'Flavors', path: 'v2/flavors', isList: 'flavors', query: { detailed: true }, show: flavors },
  { title: 'Tokens', path: 'v2/tokens', isList: 'tokens', show: tokens },
  { title: 'Health of the stores', path: 'v2/ping', show: health },
];

function usage(page, { usage: used, limits }) {
  return facts(...Object.keys(used).map(name => [words(name), `${number(used[name])} of ${limits[name] ? number(limits[name]) : 'no limit'}`]));
}

function words(name) {
  return name.replaceAll('_', ' ');
}

function quotas(page, { project, quotas: set }, changed) {
  const edit = () => {
    const text = h('textarea', { rows: 8, spellcheck: 'false' });
    text.value = write(set, { indent: 2 }).text;
    const done = () => { close(); changed(); };
    const close = dialog(`Quotas of ${project}`, field('Limits', text, 'JSON. 0 is no limit. The configuration applies to all others.'),
      h('div', { class: 'bar' }, page.action('Save', () => ({ method: 'PUT', path: 'v2/quotas', body: text.value }), { kind: 'primary', done }),
        page.action('Remove all', { method: 'DELETE', path: 'v2/quotas' }, { done })));
  };
  const names = Object.keys(set);
  return [names.length ? facts(...names.map(name => [words(name), number(set[name])])) : h('p', {}, 'None are set: those of the configuration apply.'), button('Change', edit)];
}

function projects(page, { projects: found }) {
  const open = project => { change({ project: project.id }); location.hash = '#/queues'; };
  return table([
    { title: 'Project', cell: project => button(project.id, () => open(project), { class: 'link', title: `Show the queues of ${project.id}` }) },
    { title: 'Queues and topics', class: 'figure', cell: project => number(project.queues) },
    { title: '', cell: project => (project.id === session.project ? 'shown now' : '') },
  ], found, { key: project => project.id, label: 'Projects' });
}

function pools(page, { pools: found }, changed) {
  const remove = pool => page.action('Delete', { method: 'DELETE', path: `v2/pools/${encodeURIComponent(pool.name)}` }, { kind: 'danger', done: changed });
  return found.length ? table([
    { title: 'Pool', cell: pool => pool.name },
    { title: 'Address', cell: pool => pool.uri },
    { title: 'Weight', class: 'figure', cell: pool => pool.weight },
    { title: 'Flavor', cell: pool => pool.flavor ?? '–' },
    { title: '', cell: remove },
  ], found, { key: pool => pool.name, label: 'Pools' }) : h('p', {}, 'There are no pools.');
}

function flavors(page, { flavors: found }) {
  return found.length ? table([
    { title: 'Flavor', cell: flavor => flavor.name },
    { title: 'Pools', cell: flavor => (flavor.pool_list ?? []).join(', ') },
  ], found, { key: flavor => flavor.name, label: 'Flavors' }) : h('p', {}, 'There are no flavors.');
}

function tokens(page, { tokens: found }, changed) {
  const remove = token => page.action('Revoke', { method: 'DELETE', path: `v2/tokens/${token.id}` }, { kind: 'danger', done: changed });
  const list = found.length ? table([
    { title: 'Name', cell: token => h('bdi', {}, token.name) },
    { title: 'Project', cell: token => token.project_id ?? 'all' },
    { title: 'Roles', cell: token => token.roles.join(', ') },
    { title: 'Created', cell: token => time(token.created_at) },
    { title: 'Ends', cell: token => (token.expires_at ? time(token.expires_at) : 'never') },
    { title: '', cell: remove },
  ], found, { key: token => token.id, label: 'Tokens' }) : h('p', {}, 'There are no tokens.');
  return [list, button('Create a token', () => createToken(page, changed))];
}

function createToken(page, changed) {
  const [name, roles, ttl] = [h('input', { maxlength: 100 }), h('input', { placeholder: 'reader, worker' }), h('input', { type: 'number', min: 1, placeholder: 'does not expire' })];
  const request = () => ({
    method: 'POST',
    path: 'v2/tokens',
    body: { name: name.value, roles: roles.value.split(',').map(role => role.trim()).filter(Boolean), ttl: ttl.value ? Number(ttl.value) : null },
  });
  const done = ({ body }) => {
    close();
    dialog('The new token', h('p', {}, 'Copy it now. It is never shown again.'), h('pre', { class: 'command' }, body.token));
    changed();
  };
  const close = dialog('Create a token', field('What it is for', name), field('Roles', roles), field('Time to live, in seconds', ttl),
    h('div', { class: 'bar' }, page.action('Create', request, { kind: 'primary', done })));
}

function health(page) {
  const shown = h('pre', { class: 'command', hidden: true });
  const done = ({ body }) => { shown.hidden = false; shown.textContent = write(body, { indent: 2 }).text; };
  return [h('p', {}, 'The store responds. The test creates a queue in a project of its own and runs all operations.'),
    page.action('Test all operations', { path: 'v2/health' }, { done }), h('div', { 'data-lazy': true }, shown)];
}
