/** Replaces a running worker by a new one: the new one accepts before the old one stops. */

import type { WorkerProcess } from './worker-process.ts'

/** A new worker that is not ready by then is ended, and the old one stays. */
const READY_MS_MAX = 10_000
/** The pause between two readiness checks of the new worker. */
const STATUS_PAUSE_MS = 50

interface Workers {
  readonly old: WorkerProcess
  readonly next: WorkerProcess
  /** Called when the new worker accepts requests, before the old one stops. */
  readonly onTakenOver: () => void
  /** Resolves if weir ends meanwhile. */
  readonly ended: Promise<void>
}

/** Resolves to the reason why the old worker stays, after the new one has ended; undefined if it was replaced. */
export async function replaceWorker({ old, next, onTakenOver, ended }: Workers): Promise<string | undefined> {
  const attempt = new ReplacementAttempt(old, next)
  const limit = Promise.withResolvers<string>()
  const timer = setTimeout(() => limit.resolve(attempt.lateness()), READY_MS_MAX)
  const problem = await Promise.race([attempt.run(), limit.promise, ended.then(() => 'weir ends')])
  clearTimeout(timer)
  if (problem === undefined) {
    onTakenOver()
    old.retire()
    return undefined
  }
  attempt.isOver = true
  await next.kill()
  return problem
}

class ReplacementAttempt {
  isOver = false
  private reasons: readonly string[] = ['has not loaded its code']

  constructor(
    private readonly old: WorkerProcess,
    private readonly next: WorkerProcess,
  ) {}

  /** Resolves to the problem, if there is one. */
  run(): Promise<string | undefined> {
    const { built, ready, failed } = this.next.spawnFor(this.old)
    const steps = async () => {
      await built.promise
      await this.healthy()
      if (this.isOver) return undefined
      const problem = await this.next.takeOver(this.old)
      if (problem !== undefined) return problem
      await ready.promise
      return undefined
    }
    return Promise.race([steps(), failed.promise])
  }

  lateness(): string {
    return `it was not ready within ${READY_MS_MAX / 1000} s: ${this.reasons.join('; ')}`
  }

  private async healthy(): Promise<void> {
    while (!this.isOver) {
      this.reasons = (await this.next.messages.status()).reasons
      if (this.reasons.length === 0) break
      await Bun.sleep(STATUS_PAUSE_MS)
    }
    this.reasons = ['does not accept requests']
  }
}
