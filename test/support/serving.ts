/** The inference API in this process over real sockets, with a ledger that records every call and a log in a list. */

import { pino } from 'pino'
import { InferenceService, type PeerUpdate } from '../../src/assembly/inference-service.ts'
import type { Adapters } from '../../src/assembly/provider-adapters.ts'
import type { Config } from '../../src/config/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { type Later, laterOf } from '../../src/core/later.ts'
import type { SocketConnection } from '../../src/http/socket-connection.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../src/ledger/ledger.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { withInvokeModel } from '../../src/providers/anthropic/bedrock-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import { configOf, type GatewaySetup } from './gateway.ts'
import { oneWorker } from './one-worker.ts'

/** Rejects an extension beyond `costMax` micro-dollars, if set; admits every reservation. */
export class RecordingLedger implements Ledger {
  readonly reserved: Hold[] = []
  readonly wanted: Estimate[] = []
  readonly settled = new Map<string, Charge[]>()
  costMax = Number.POSITIVE_INFINITY
  /** Settlements wait for this after they are recorded. */
  settling: Promise<void> = Promise.resolve()

  reserve(account: Account, hold: Hold): Later<Reservation> {
    return laterOf(
      (async () => {
        this.reserved.push(hold)
        return { id: hold.id, account, held: hold.estimate, admittedMs: 0 }
      })(),
    )
  }

  extend(_reservation: Reservation, _soFar: Estimate, wanted: Estimate): Later<boolean> {
    return laterOf(
      (async () => {
        this.wanted.push(wanted)
        return wanted.costMicroUsd <= this.costMax
      })(),
    )
  }

  settle(reservation: Reservation, actual: Charge): Later<'settled'> {
    return laterOf(
      (async (): Promise<'settled'> => {
        this.settled.set(reservation.id, [...(this.settled.get(reservation.id) ?? []), actual])
        await this.settling
        return 'settled'
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

  /** Ids that were not settled exactly once. */
  get wrong(): readonly string[] {
    return this.reserved.map(({ id }) => id).filter((id) => this.settled.get(id)?.length !== 1)
  }
}

/** The adapters of the providers in this process. */
export const adapters: Adapters = new Map([
  ['openai', openai],
  ['azure', azure],
  ['anthropic', anthropic],
  ['bedrock', withInvokeModel(bedrock)],
])

export class Serving implements AsyncDisposable {
  readonly ledger = new RecordingLedger()
  /** Every parsed log line. */
  readonly lines: JsonObject[] = []
  /** The messages that other workers would receive. */
  readonly peerUpdates: PeerUpdate[] = []
  readonly service: InferenceService
  readonly config: Config
  private readonly server: Bun.Server<SocketConnection>

  /** `ledger`: instead of the one that records. */
  constructor(setup: GatewaySetup, ledger?: Ledger) {
    const parsed = parseConfig(JSON.stringify(configOf(setup, '/nowhere')), {
      env: {},
      readFile: () => ({ error: 'there are no files here' }),
      cores: 1,
    })
    if (!parsed.ok) throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
    // A configured key, so that none is written to disk.
    this.config = { ...parsed.config, compaction: { keys: [Buffer.alloc(32, 7).toString('base64')] } }
    const logger = pino(
      { base: null, formatters: { level: (label) => ({ level: label }) } },
      { write: (line: string) => void this.lines.push(JSON.parse(line)) },
    )
    const request = (fields: string) => logger.info(JSON.parse(`{${fields}}`), 'request')
    this.service = new InferenceService({
      config: this.config,
      adapters,
      log: { logger, request },
      ledger: ledger ?? this.ledger,
      ...oneWorker(this.config),
      publish: (update) => this.peerUpdates.push(update),
    })
    this.server = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, ...this.service.app })
  }

  get port(): number {
    return this.server.port ?? 0
  }

  /** Resolves when no request runs: each is answered or aborted, and settled. */
  async idle(): Promise<void> {
    const { inFlight } = this.service.state
    while (inFlight.size > 0) await inFlight.idle()
  }

  /** The log line of a request, after all running requests have ended. */
  async lineOf(id: string | undefined): Promise<JsonObject> {
    await this.idle()
    const line = this.lines.find((one) => one['msg'] === 'request' && one['request_id'] === id)
    if (line === undefined) throw new Error(`there is no log line of ${id}`)
    return line
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop(true)
  }
}
