// Serves the page, and passes requests for /v2/ on to Sukkal: node server.mjs [port]

import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'

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
        answer.pipe(outgoing)
    })
    forwarded.on('error', () => outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end())
    outgoing.on('close', () => forwarded.destroy())
    incoming.pipe(forwarded)
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}`))
