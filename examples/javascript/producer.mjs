// Posts orders. Each request has an idempotency key, so repeating it never stores a message twice.

import { randomUUID } from 'node:crypto'
import { QUEUE, call } from './api.mjs'

const count = Number(process.argv[2] ?? 10)
for (let number = 1; number <= count; number++) {
    const message = { body: { order: number }, ttl: 86400 }
    const key = { 'Idempotency-Key': randomUUID() }
    const posted = await call('POST', `${QUEUE}/messages`, { messages: [message] }, key)
    console.log(`posted order ${number} as ${posted.resources[0]}`)
}
