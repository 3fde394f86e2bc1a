// What operators see of the whole service: projects, pools, tokens, usage and quotas.

import { call, readPage } from './api.js';
import { button, dialog, facts, field, h, table } from './dom.js';
import { number, time } from './format.js';
import { write } from './json.js';
import { markerOf } from './sample.js';
import { change, projectShown } from './session.js';

/** Shows what the service lets the caller see. The service may not have some of it. */
export async function operators(page) {
  const sections = new Map();
  const draw = () => page.show(h('section', {}, h('h1', {}, 'Operators'),
    h('p', {}, 'Projects, quotas, pools and the changes of flavors need the role admin, and the option admin_mode of the service. Tokens need its strategy “tokens”.')),
  PARTS.map(part => h('section.card', { 'data-key': part.title }, h('h2', {}, part.title), sections.get(part) ?? h('p.faint', {}, 'Loading…'))));
  const readings = new Map();
  const load = (part, marker = '') => page.attempt(() => read(part, marker));
  const read = async (part, marker) => {
    const mine = (readings.get(part) ?? 0) + 1;
    readings.set(part, mine);
    try {
      const send = part.isList ? readPage : async (...request) => (await call(...request)).body;
      const body = await send({ path: part.path, query: { ...part.query, marker } }, page.signal);
      if (readings.get(part) !== mine) return;
      sections.set(part, part.show(page, body, () => load(part)));
      const next = part.isList && markerOf(body, part.isList);
      if (next) sections.set(part, [sections.get(part), button('Next', () => load(part, next))]);
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (error.isIdentity) throw error;
      sections.set(part, error.status === 404 ? h('p.faint', {}, 'The service does not offer this, or an option switches it off.')
        : [h('p.bad', {}, error.message, error.requestId ? h('small', {}, `Request ${error.requestId}`) : null), button('Retry', () => load(part, marker))]);
    }
    draw();
  };
  draw();
  for (const part of PARTS) await load(part);
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
  return facts(...Object.keys(used).map(name => [words(name), limits[name] ? `${number(used[name])} of ${number(limits[name])}` : `${number(used[name])} (no limit)`]));
}

function words(name) {
  return name.replaceAll('_', ' ');
}

function quotas(page, { project, quotas: set }, changed) {
  const edit = () => {
    const text = h('textarea', { rows: 8, spellcheck: 'false' });
    text.value = write(set, { indent: 2 }).text;
    const done = () => { close(); changed(); };
    const close = dialog(`Quotas of ${project}`, field('Limits', text, 'JSON, such as {"messages": 100000}. The configuration applies to limits that are not listed. 0 means no limit.'),
      h('div.bar', {}, page.action('Save', () => ({ method: 'PUT', path: 'v2/quotas', body: text.value }), { kind: 'primary', done }),
        page.action('Remove all', { method: 'DELETE', path: 'v2/quotas' }, { done, confirm: page.ask(`This removes all quotas of ${project}. Those of the configuration apply then.`) })));
  };
  const names = Object.keys(set);
  return [names.length ? facts(...names.map(name => [words(name), number(set[name])])) : h('p', {}, 'None are set: those of the configuration apply.'), button('Change', edit)];
}

function projects(page, { projects: found }) {
  const open = project => { change({ other: project.id }); location.hash = '#/queues'; };
  return table([
    ['Project', project => button(project.id, () => open(project), { class: 'link', title: `Show the queues of ${project.id}` })],
    ['Queues and topics', project => number(project.queues), 'figure'],
    ['', project => (project.id === projectShown() ? 'shown now' : '')],
  ], found, { key: project => project.id, label: 'Projects' });
}

function pools(page, { pools: found }, changed) {
  const remove = pool => page.action('Delete', { method: 'DELETE', path: `v2/pools/${encodeURIComponent(pool.name)}` }, { kind: 'danger', confirm: page.ask(`This deletes the pool ${pool.name}. If it has queues, it keeps them and is no longer listed. Do not stop its server before they are moved or deleted.`), done: changed });
  return found.length ? table([
    ['Pool', pool => pool.name],
    ['Address', pool => pool.uri],
    ['Weight', pool => pool.weight, 'figure'],
    ['Flavor', pool => pool.flavor ?? '–'],
    ['', remove],
  ], found, { key: pool => pool.name, label: 'Pools' }) : h('p', {}, 'There are no pools.');
}

function flavors(page, { flavors: found }) {
  return found.length ? table([
    ['Flavor', flavor => flavor.name],
    ['Pools', flavor => (flavor.pool_list ?? []).join(', ')],
  ], found, { key: flavor => flavor.name, label: 'Flavors' }) : h('p', {}, 'There are no flavors.');
}

function tokens(page, { tokens: found }, changed) {
  const remove = token => page.action('Revoke', { method: 'DELETE', path: `v2/tokens/${token.id}` }, { kind: 'danger', confirm: page.ask(`This revokes the token ${token.name}. Its users are refused from then on.`), done: changed });
  const list = found.length ? table([
    ['Name', token => h('bdi', {}, token.name)],
    ['Project', token => token.project_id ?? 'all'],
    ['Roles', token => token.roles.join(', ')],
    ['Created', token => time(token.created_at)],
    ['Expires', token => (token.expires_at ? time(token.expires_at) : 'never')],
    ['', remove],
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
    dialog('The new token', h('p', {}, 'Copy it now. It is never shown again.'), h('pre.command', {}, body.token));
    changed();
  };
  const close = dialog('Create a token', field('What it is for', name), field('Roles', roles, 'One or more of reader, producer, worker, manager and admin.'), field('Time to live, in seconds', ttl),
    h('div.bar', {}, page.action('Create', request, { kind: 'primary', done })));
}

function health(page) {
  const shown = h('pre.command', { hidden: true });
  const done = ({ body }) => { shown.hidden = false; shown.textContent = write(body, { indent: 2 }).text; };
  return [h('p', {}, 'The store responds. The test creates a queue in a project of its own and runs all operations.'),
    page.action('Test all operations', { path: 'v2/health' }, { done }), h('div', { 'data-lazy': true }, shown)];
}
