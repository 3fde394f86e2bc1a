// Calls the API. All requests of the console go through here.

import { parseLarge } from './json.js';
import { curl, identity, projectQuery } from './session.js';

const INTERVAL_MS = 500;
const MINUTE_MS = 60000;
/** The service answers sooner, with a failure if its store does not respond. */
const TIMEOUT_MS = 20000;
const JSON_TYPE = 'application/json';

let lastBackground = -INTERVAL_MS;
const sent = [];

/** The reason why a request was not successful. */
export class Failure extends Error {
  /** `isIdentity` says that the user must sign in with something else. */
  constructor(request, { status = 0, title, description, requestId = null, isIdentity = status === 401 }) {
    super(description ? `${title}: ${description}` : title);
    Object.assign(this, { request, status, title, description, requestId, isIdentity });
  }
}

/** Returns a path of the API. Values become single segments. */
export function path(parts, ...values) {
  // Browsers resolve these in a path, so the request would go to another URL.
  if (values.some(value => value === '.' || value === '..')) throw new Failure(null, { title: 'Browsers cannot address a queue named “.” or “..”. Use another client' });
  return parts.reduce((text, part, index) => text + encodeURIComponent(values[index - 1]) + part);
}

/** Returns the address of a request. It is relative to the page, which may be behind a prefix. */
export function urlOf({ path: to, query = {} }) {
  const url = new URL(to, document.baseURI);
  for (const [name, value] of Object.entries({ ...query, ...projectQuery() })) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, value);
  }
  return url.href;
}

function contents({ body, type = JSON_TYPE, headers = {} }) {
  if (body === undefined) return { headers, body: undefined };
  return { headers: { 'Content-Type': type, ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body) };
}

/** Returns the command that sends the same request. */
export function commandOf(request) {
  return curl({ method: request.method, url: urlOf(request), ...contents(request) });
}

/**
 * Sends a request and returns its response: `body`, `headers` and `status`. Throws a `Failure` if it
 * was not successful.
 */
export async function call(request, signal) {
  const limited = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]);
  const response = await open(request, limited, JSON_TYPE);
  const text = await response.text().catch(error => fail(request, error));
  return { status: response.status, headers: response.headers, body: text ? await read(request, response, text) : null };
}

/** Sends a request and returns the response whose body has begun. */
export async function open(request, signal, accept) {
  const { headers, body } = contents(request);
  const options = { method: request.method ?? 'GET', headers: encoded({ Accept: accept, ...identity(), ...headers }), body, signal };
  sent.push(Date.now());
  const response = await fetch(urlOf(request), { ...options, credentials: 'omit', redirect: 'error', cache: 'no-store' })
    .catch(error => fail(request, error));
  if (response.ok) {
    // Otherwise the page would show the queues of the token below the name of the other project.
    const isIgnored = response.headers.get('Sukkal-Warning')?.includes('X-Project-ID is ignored');
    if (!isIgnored || options.method !== 'GET') return response;
    throw new Failure(request, { status: response.status, title: 'The token is for another project than the one that you have entered', description: 'leave the project empty, or enter the one of the token', isIdentity: true });
  }
  const requestId = response.headers.get('X-OpenStack-Request-ID');
  let reason = {};
  try {
    reason = JSON.parse(await response.text());
  } catch {
    // A proxy may answer with another document.
  }
  // Services with Keystone refuse callers with the document of its middleware.
  const { title = `Status ${response.status}`, description, message } = reason.error ?? reason;
  if (title === 'Project-Id Missing') throw new Failure(request, { status: response.status, title: 'Enter a project', description: 'the token has none', isIdentity: true });
  throw new Failure(request, { status: response.status, title, description: description ?? message, requestId });
}

// Headers of fetch are bytes, one for each character.
function encoded(headers) {
  const encode = text => String.fromCharCode(...new TextEncoder().encode(text));
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, encode(value)]));
}

function fail(request, error) {
  if (error.name === 'AbortError') throw error;
  if (error.name === 'TimeoutError') throw new Failure(request, { title: `The service has not responded in ${TIMEOUT_MS / 1000} s` });
  throw new Failure(request, { title: 'The service cannot be reached', description: error.message });
}

async function read(request, response, text) {
  try {
    return await parseLarge(text);
  } catch {
    const requestId = response.headers.get('X-OpenStack-Request-ID');
    throw new Failure(request, { status: response.status, title: 'The response is not JSON', requestId });
  }
}

// The default of the service is 10 items in a page. An operator may allow fewer than 20.
let pageSize = 20;

/** Reads a page of a list, in the background if `send` says so. */
export async function readPage(request, signal, send = call) {
  const query = { limit: pageSize, ...request.query };
  try {
    return (await send({ ...request, query }, signal)).body;
  } catch (error) {
    if (error.status !== 400 || !pageSize || !/limit/i.test(error.description ?? '')) throw error;
    pageSize = null;
    return (await send(request, signal)).body;
  }
}

/** Sends a request in its turn: see `turn`. */
export async function callInBackground(request, signal) {
  await turn(signal);
  return call(request, signal);
}

/**
 * Returns when a request may be sent that the user has not just asked for. A tab sends at most two of
 * these in a second, and none while it is hidden.
 */
export async function turn(signal) {
  for (;;) {
    await visible(signal);
    const wait = lastBackground + INTERVAL_MS - performance.now();
    if (wait <= 0) break;
    await pause(wait, signal);
  }
  lastBackground = performance.now();
}

/** Returns when the page is visible. */
export async function visible(signal) {
  if (!document.hidden) return;
  await until(signal, done => {
    const check = () => { if (!document.hidden) done(); };
    document.addEventListener('visibilitychange', check);
    return () => document.removeEventListener('visibilitychange', check);
  });
}

/** Returns after this time. */
export function pause(ms, signal) {
  return until(signal, done => {
    const timer = setTimeout(done, ms);
    return () => clearTimeout(timer);
  });
}

// Waits until `begin` has called its argument. What `begin` returns cleans up.
function until(signal, begin) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const end = how => {
      cancel();
      signal?.removeEventListener('abort', stop);
      how();
    };
    const stop = () => end(() => reject(signal.reason));
    const cancel = begin(() => end(resolve));
    signal?.addEventListener('abort', stop);
  });
}

/** Returns the number of requests of the last minute. */
export function requestsOfMinute() {
  const start = Date.now() - MINUTE_MS;
  while (sent.length && sent[0] < start) sent.shift();
  return sent.length;
}
