/**
 * The process that owns the embedded ledger if several workers share it: workers may be replaced or killed under load,
 * and the ledger's owner is neither. It serves nothing but their calls, and ends on the supervisor's message, or after
 * all workers if the supervisor is gone.
 */

import { isLedgerProblem, openLedgerServer } from '../assembly/open-ledger.ts'
import { dieOnUncaught, type Log, openLog } from '../logging/log.ts'
import { type FromLedgerOwner, isTyped, LEDGER_PROTOCOL, type ToLedgerOwner } from './ipc/ipc.ts'
import { logClockStep } from './watchers/ledger-watch.ts'

/** How long the workers may take to settle what they cut after the supervisor is gone. */
const ORPHAN_MS_MAX = 2500
const ORPHAN_CHECK_MS = 20

type Server = Awaited<ReturnType<typeof openLedgerServer>>

/** Runs until the supervisor ends it. Called once, in a process that `weir serve` started. Returns at once. */
export function ownLedger(): number {
  const log = openLog()
  dieOnUncaught(log, { process: 'ledger' })
  new LedgerOwner(log).listen()
  return 0
}

class LedgerOwner {
  private server: Server | undefined

  constructor(private readonly log: Log) {}

  listen(): void {
    process.on('message', (message) => {
      if (isTyped<ToLedgerOwner>(message)) this.handle(message)
    })
    process.on('disconnect', () => void this.orphan())
    // Terminals and service managers signal the whole process group; the workers still need this process.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
    send({ type: 'hello', protocol: LEDGER_PROTOCOL })
  }

  private handle(message: ToLedgerOwner): void {
    switch (message.type) {
      case 'own':
        if ((message.protocol ?? LEDGER_PROTOCOL) === LEDGER_PROTOCOL) void this.own(message)
        return
      case 'ping':
        return send({ type: 'pong' })
      case 'stop':
        void this.end()
        return
    }
  }

  private async own({ place, role }: Extract<ToLedgerOwner, { type: 'own' }>): Promise<void> {
    if (place.nodeName !== undefined) this.log.node(place.nodeName)
    try {
      this.server = await openLedgerServer(place, role, (stepMs) => logClockStep(this.log.logger, stepMs))
      send({ type: 'owned' })
    } catch (error) {
      if (!isLedgerProblem(error)) throw error
      send({ type: 'failed', reason: error.message })
    }
  }

  private async orphan(): Promise<void> {
    const end = performance.now() + ORPHAN_MS_MAX
    while (this.server !== undefined && this.server.connected > 0 && performance.now() < end)
      await Bun.sleep(ORPHAN_CHECK_MS)
    await this.end()
  }

  private async end(): Promise<void> {
    this.server?.close()
    await this.log.flush()
    process.exit(0)
  }
}

/** Does nothing if the supervisor is gone; `disconnect` has begun the end then. */
function send(message: FromLedgerOwner): void {
  if (process.connected) process.send?.(message)
}
