// The session of the user. The browser forgets it with the tab: it is kept in sessionStorage, never in
// a URL.

const KEY = 'sukkal';

/** Labels of the kinds of token. */
export const SCHEMES = {
  none: 'No token',
  bearer: 'API token or OpenID token',
  keystone: 'Keystone token',
};

/**
 * The session: project, scheme, token, roles and client id. `other` is a project that an operator has
 * chosen among those of the service.
 */
export const session = load();

function load() {
  const fresh = { project: '', scheme: 'none', token: '', roles: '', client: uuid(), known: false, other: '' };
  try {
    return { ...fresh, ...JSON.parse(sessionStorage.getItem(KEY) ?? '{}') };
  } catch {
    return fresh;
  }
}

/** Returns a random UUID. Browsers have crypto.randomUUID only over TLS and on localhost. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** Changes the session and keeps it until the tab is closed. */
export function change(values) {
  Object.assign(session, values);
  sessionStorage.setItem(KEY, JSON.stringify(session));
}

/** Returns the project whose queues are shown, or an empty text if it is the one of the token. */
export function projectShown() {
  return session.other || session.project;
}

/** Returns a text that differs for each identity and each project. */
export function identityKey() {
  return JSON.stringify([identity(), session.other]);
}

/** Returns what a query must have so that the request acts on the project that is shown. */
export function projectQuery() {
  return session.other ? { project_id: session.other } : {};
}

/** What the user has typed, for example before a token ended, by where it was typed. */
export const drafts = new Map();

/** Forgets the session and the drafts. */
export function forget() {
  drafts.clear();
  sessionStorage.removeItem(KEY);
  Object.assign(session, load());
}

/** Returns the headers that say who sends a request. */
export function identity() {
  const headers = { 'Client-ID': session.client };
  if (session.project) headers['X-Project-ID'] = session.project;
  if (session.roles) headers['X-Roles'] = session.roles;
  if (session.token && session.scheme === 'bearer') headers.Authorization = `Bearer ${session.token}`;
  if (session.token && session.scheme === 'keystone') headers['X-Auth-Token'] = session.token;
  return headers;
}

/** Returns the command that sends this request, without the token. */
export function curl({ method = 'GET', url, headers = {}, body }) {
  const identifying = Object.entries(identity()).map(([name, value]) => {
    if (name === 'Authorization') return '-H "Authorization: Bearer $TOKEN"';
    if (name === 'X-Auth-Token') return '-H "X-Auth-Token: $TOKEN"';
    return `-H ${quote(`${name}: ${value}`)}`;
  });
  const others = Object.entries(headers).map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`);
  const data = body === undefined ? [] : ['--data-raw', quote(body)];
  const verb = method === 'GET' ? [] : ['-X', method];
  return ['curl', ...verb, quote(url), ...identifying, ...others, ...data].join(' ');
}

function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
