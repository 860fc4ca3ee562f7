/** The baseline: the least that a gateway on this runtime can do. Forwards both bodies without reading them. */

const upstream = process.argv[2] ?? ''

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const answer = await fetch(`${upstream}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-encoding': 'identity' },
      body: await request.arrayBuffer(),
      signal: request.signal,
    })
    return new Response(answer.body, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type') ?? 'application/json' },
    })
  },
})
process.send?.({ port: server.port })
