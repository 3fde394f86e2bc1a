// One function that calls Sukkal, and tries again while the service or its store is not available.

const URL = process.env.SUKKAL_URL ?? 'http://127.0.0.1:8888'
export const QUEUE = '/v2/queues/orders'
// A process that handles messages under its own name gives itself a UUID of its own.
const HEADERS = { 'Client-ID': '3381af92-2b9e-11e3-b191-71861300734c', 'X-Project-ID': 'demo' }

const pause = seconds => new Promise(resolve => setTimeout(resolve, seconds * 1000))
// Whether the service has answered before. Then it is only restarting, and a request is tried again.
let hasAnswered = false

function fail(problem) {
    console.error(problem)
    process.exit(1)
}

/** Returns the decoded answer, or null if the answer has no body. */
export async function call(method, path, body, headers = {}) {
    const request = {
        method,
        headers: { ...HEADERS, 'Content-Type': 'application/json', ...headers },
        body: body && JSON.stringify(body),
    }
    for (;;) {
        try {
            const response = await fetch(URL + path, request)
            hasAnswered = true
            const text = await response.text()
            if (response.ok) return text ? JSON.parse(text) : null
            if (response.status !== 503) fail(`${method} ${path}: ${response.status} ${text}`)
            await pause(Number(response.headers.get('Retry-After') ?? 1))
        } catch (error) {
            const away = `Sukkal does not answer at ${URL}: ${error.cause?.message || error.cause?.code || error.message}`
            if (!hasAnswered) fail(`${away}. Start it with \`make run\`, or set SUKKAL_URL.`)
            console.error(`${away}. Trying again.`)
            await pause(1)
        }
    }
}
