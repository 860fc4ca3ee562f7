/** Ports for servers that go away and come back. */

import net from 'node:net'

/** Below those that the system gives to outgoing connections, of which one could take it meanwhile; so is the one 10,000 above. */
const FIRST = 12_000
const LAST = 22_000

/** A port on which nothing listens, and 10,000 above it neither: there the nodes of a Redis Cluster talk to each other. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
