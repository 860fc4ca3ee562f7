/**
 * The inference API in its own process, with a ledger that counts open reservations. Reports its port, and figures on
 * request.
 */

import { readdirSync } from 'node:fs'
import { pino } from 'pino'
import { InferenceService } from '../../src/assembly/inference-service.ts'
import { loadAdapters } from '../../src/assembly/provider-adapters.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { type Later, laterOf } from '../../src/core/later.ts'
import type { Account, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../src/ledger/ledger.ts'
import { oneWorker } from '../../test/support/one-worker.ts'

/** Counts reservations that are open, and those that were settled twice. */
class CountingLedger implements Ledger {
  readonly live = new Set<string>()
  reserved = 0
  settledTwice = 0

  reserve(account: Account, hold: Hold): Later<Reservation> {
    return laterOf(
      (async () => {
        this.reserved++
        this.live.add(hold.id)
        return { id: hold.id, account, held: hold.estimate, admittedMs: 0 }
      })(),
    )
  }

  extend(_reservation: Reservation, _soFar: Estimate, _wanted: Estimate): Later<boolean> {
    return laterOf(Promise.resolve<boolean>(true))
  }

  settle({ id }: Reservation): Later<'settled' | 'already_settled'> {
    return laterOf(
      (async () => {
        if (this.live.delete(id)) return 'settled'
        this.settledTwice++
        return 'already_settled'
      })(),
    )
  }

  health(): LedgerHealth {
    return { ready: true, up: true, pending: 0 }
  }

  async askHealth(): Promise<LedgerHealth> {
    return this.health()
  }

  async close(): Promise<void> {}
}

const parsed = parseConfig(process.argv[2] ?? '', { env: {}, readFile: () => ({ error: 'none' }), cores: 1 })
if (!parsed.ok) throw new Error(parsed.problems.join('\n'))
const ledger = new CountingLedger()
const outcomes: Record<string, number> = {}
const errors: string[] = []
// Only errors of the gateway itself: a provider that rejects our credential is logged as an error, too, and expected
// here.
const take = (line: string) => void (line.includes('"msg":"internal error"') && errors.push(line))
const logger = pino({ base: null, level: 'error' }, { write: take })
const request = (fields: string) => {
  const outcome = String(JSON.parse(`{${fields}}`).outcome ?? 'none')
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
}
const service = new InferenceService({
  config: parsed.config,
  adapters: await loadAdapters(parsed.config),
  log: { logger, request },
  ledger,
  ...oneWorker(parsed.config),
})
const server = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, ...service.app })
process.send?.({ port: server.port })
process.on('message', (message) => {
  if (message === 'collect') Bun.gc(true)
  process.send?.({
    rss: process.memoryUsage.rss(),
    descriptors: readdirSync('/proc/self/fd').length,
    inFlight: service.state.inFlight.size,
    reservations: ledger.live.size,
    reserved: ledger.reserved,
    settledTwice: ledger.settledTwice,
    outcomes,
    errors: errors.slice(0, 5),
  })
})
process.on('disconnect', () => process.exit(0))
