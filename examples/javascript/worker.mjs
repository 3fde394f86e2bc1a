// Claims orders and deletes each when it is done. Orders that a worker does not finish become available to others.

import { QUEUE, call } from './api.mjs'

let left = Number(process.argv[2] ?? Infinity)
while (left > 0) {
    // The answer comes as soon as there is an order, or is empty after 20 seconds.
    const limit = Math.min(left, 5)
    const claim = await call('POST', `${QUEUE}/claims?limit=${limit}&wait=20`, { ttl: 60, grace: 60 })
    if (claim === null && left < Infinity) {
        console.log(`there are no more orders: ${left} are missing`)
        break
    }
    for (const message of claim?.messages ?? []) {
        console.log(`doing order ${message.body.order}`)
        // The path names the claim: only its holder can delete the message.
        await call('DELETE', message.href)
        left--
    }
}
