// Serves the page, and passes requests for /v2/ on to Sukkal: node server.mjs [port]

import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { pipeline } from 'node:stream'

const sukkal = process.env.SUKKAL_URL ?? 'http://127.0.0.1:8888'
const port = Number(process.argv[2] ?? 8080)
const page = await readFile(new URL('feed.html', import.meta.url))

createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith('/v2/')) {
        outgoing.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(page)
        return
    }
    const { method, headers } = incoming
    const forwarded = request(sukkal + incoming.url, { method, headers }, answer => {
        outgoing.writeHead(answer.statusCode, answer.headers)
        // Ends the response of the browser too if Sukkal stops, so that the browser notices.
        pipeline(answer, outgoing, () => {})
    })
    forwarded.on('error', error => {
        if (!outgoing.destroyed) console.error(`Sukkal does not answer at ${sukkal}: ${error.message || error.code}`)
        // Without a response, an `EventSource` tries again. It does not after a status such as 502.
        outgoing.destroy()
    })
    outgoing.on('close', () => forwarded.destroy())
    incoming.pipe(forwarded)
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}`))
