/**
 * Which process owns the embedded ledger: the worker, if there is one, else a process of its own. With Redis nothing is
 * owned, and every worker has its own connection.
 */

import type { LedgerRole } from '../../assembly/open-ledger.ts'
import type { Config } from '../../config/config.ts'
import type { Logger } from '../../logging/log.ts'
import { StartProblem } from '../system/start-problem.ts'
import { LedgerOwnerProblem, LedgerProcess } from './ledger-process.ts'
import type { WorkerProcess } from './worker-process.ts'

interface OwnershipOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
  /** All workers, those that are replaced or replace another, too. */
  readonly workers: () => readonly WorkerProcess[]
  /** Whether weir ends, which may end the ledger's process before it is ready. */
  readonly isEnding: () => boolean
}

export class LedgerOwnership {
  private isEmbedded = false
  /** The ledger's own process; undefined with one worker, and with Redis. */
  process: LedgerProcess | undefined
  /** The worker that owns it, if there is no process of its own. */
  private worker: WorkerProcess | undefined

  constructor(private readonly options: OwnershipOptions) {}

  /**
   * Starts the ledger's own process if the configuration needs one, and resolves when that owns the ledger. The workers
   * get their settings afterwards: they must not call the owner of another weir that uses the directory. Throws
   * `StartProblem`.
   */
  async start(config: Config): Promise<void> {
    this.isEmbedded = config.ledger.kind === 'embedded'
    if (config.workers === 1 || !this.isEmbedded) return
    const { env, logger } = this.options
    this.process = new LedgerProcess({ env, logger, place: config })
    try {
      await this.process.start()
    } catch (error) {
      if (this.options.isEnding()) return
      if (error instanceof LedgerOwnerProblem) throw new StartProblem([error.message])
      throw error
    }
  }

  /**
   * What a worker that starts now does with the ledger. A single worker owns it itself. While it is replaced there are
   * two, and the new one calls the old one until that is gone: the ledger has one owner, and the old worker may run for
   * as long as its streams.
   */
  roleOf(worker: WorkerProcess): LedgerRole {
    if (!this.isEmbedded) return 'owner'
    if (this.process !== undefined) return 'caller'
    if (this.worker !== undefined && this.worker !== worker) return 'caller'
    this.worker = worker
    return this.options.workers().some((other) => other !== worker && other.isAlive) ? 'successor' : 'owner'
  }

  /** The process of a worker is gone: if it was the owner, another worker is from now on. */
  gone(worker: WorkerProcess): void {
    if (this.worker !== worker) return
    this.worker = this.options.workers().find(({ isAlive }) => isAlive)
    this.worker?.send({ type: 'own' })
  }
}
