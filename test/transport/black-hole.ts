/** An address that neither accepts nor refuses connections: a listening process that is stopped, with a full queue. */

import { readFileSync } from 'node:fs'
import net, { type Socket } from 'node:net'

const PROGRAM = `
  const server = require('node:net').createServer()
  server.listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: 1 }, () =>
    console.log(server.address().port))
`
const SYN_SENT = '02'

export class BlackHole implements AsyncDisposable {
  private readonly fillers: Socket[] = []

  private constructor(
    private readonly program: Bun.Subprocess<'ignore', 'pipe', 'inherit'>,
    readonly port: number,
    private readonly before: number,
  ) {}

  /** Port 0 takes any free one. */
  static async start(host = '127.0.0.1', port = 0): Promise<BlackHole> {
    const program = Bun.spawn([process.execPath, '-e', PROGRAM, host, String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const { value } = await program.stdout.getReader().read()
    const found = Number(new TextDecoder().decode(value))
    program.kill('SIGSTOP')
    const fillers: Socket[] = []
    // Until one is not answered any more: then the queue is full, and stays so.
    while (connecting(found) === 0) {
      for (let count = 0; count < 50; count++) fillers.push(net.connect({ host, port: found }).on('error', () => {}))
      await Bun.sleep(20)
    }
    const hole = new BlackHole(program, found, connecting(found))
    hole.fillers.push(...fillers)
    return hole
  }

  /** Sockets of this machine that are trying to connect to it, but for those that fill its queue. */
  get attempts(): number {
    return connecting(this.port) - this.before
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const filler of this.fillers) filler.destroy()
    this.program.kill('SIGKILL')
    await this.program.exited
  }
}

function connecting(port: number): number {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  return rows.filter((row) => {
    const [, , to, state] = row.trim().split(/\s+/)
    return to?.endsWith(remote) === true && state === SYN_SENT
  }).length
}
