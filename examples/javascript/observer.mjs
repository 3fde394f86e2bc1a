// Reads every order once, from the oldest. A new process would continue after the last marker that was saved.

import { QUEUE, call } from './api.mjs'

let left = Number(process.argv[2] ?? Infinity)
let marker = ''
while (left > 0) {
    const limit = Math.min(left, 10)
    const page = await call('GET', `${QUEUE}/messages?echo=true&include_claimed=true&limit=${limit}&wait=20${marker}`)
    if (page.messages.length === 0 && left < Infinity) {
        console.log(`there are no more orders: ${left} are missing`)
        break
    }
    for (const message of page.messages) {
        console.log(`saw order ${message.body.order}`)
        marker = `&marker=${message.id}`
        left--
    }
}
