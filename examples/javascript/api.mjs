// One function that calls Sukkal, and tries again while the service or its store is not available.

const URL = process.env.SUKKAL_URL ?? 'http://127.0.0.1:8888'
export const QUEUE = '/v2/queues/orders'
// A process that handles messages under its own name gives itself a UUID of its own.
const HEADERS = { 'Client-ID': '3381af92-2b9e-11e3-b191-71861300734c', 'X-Project-ID': 'demo' }

const pause = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))

/** Returns the decoded answer, or null if the answer has no body. */
export async function call(method, path, body, headers = {}) {
    const request = {
        method,
        headers: { ...HEADERS, 'Content-Type': 'application/json', ...headers },
        body: body && JSON.stringify(body),
    }
    for (;;) {
        const response = await fetch(URL + path, request).catch(() => null)
        if (response === null || response.status === 503) {
            await pause(Number(response?.headers.get('Retry-After') ?? 1))
            continue
        }
        const text = await response.text()
        if (!response.ok) {
            throw new Error(`${method} ${path}: ${response.status} ${text}`)
        }
        return text ? JSON.parse(text) : null
    }
}
