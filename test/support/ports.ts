/** Ports for servers that stop and start again. */

import net from 'node:net'

/**
 * Below the range for outgoing connections, one of which could take it in the meantime; the same holds for the port
 * 10,000 above.
 */
const FIRST = 12_000
const LAST = 22_000

/** What was given: who has it may not listen on it yet, or have ended for a moment. */
const given = new Set<number>()

/**
 * A port that is free and was not given before, as is the one 10,000 above it, which Redis Cluster nodes use among
 * themselves.
 */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    if (given.has(port)) continue
    given.add(port)
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
