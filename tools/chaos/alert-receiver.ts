/**
 * The receiver of alerts of a setup: while faults are injected it sometimes fails, is slow or never answers. Records
 * which alerts it accepted.
 */

import { isObject, type JsonObject } from '../../src/core/json.ts'
import { Random } from '../../test/support/random.ts'

export const ALERT_SECRET = 'a-secret-of-the-chaos-run-0123456789'

const FAILS_ONE_IN = 8
const HANGS_ONE_IN = 25
const SLOW_ONE_IN = 8
const SLOW_MS_MAX = 1500

/** An alert about spend that was answered with 204. */
export interface Accepted {
  readonly alert: JsonObject
  /** In `performance.now` milliseconds. */
  readonly atMs: number
}

export class AlertReceiver implements Disposable {
  readonly accepted: Accepted[] = []
  /** How many attempts ended in each way. */
  readonly attempts = new Map<string, number>()
  /** From the end of the faults on, every attempt is accepted at once. */
  isReliable = false
  private readonly random: Random
  private readonly server: ReturnType<typeof Bun.serve>

  constructor(seed: number) {
    this.random = new Random(seed)
    this.server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      fetch: async (request) => await this.receive(await request.text(), request.signal),
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}/alerts`
  }

  [Symbol.dispose](): void {
    void this.server.stop(true)
  }

  private async receive(body: string, signal: AbortSignal): Promise<Response> {
    const { random } = this
    if (!this.isReliable && random.below(HANGS_ONE_IN) === 0) {
      this.count('never answered')
      return await new Promise<never>(() => {})
    }
    if (!this.isReliable && random.below(FAILS_ONE_IN) === 0) {
      this.count('failed')
      return new Response(null, { status: 503 })
    }
    if (!this.isReliable && random.below(SLOW_ONE_IN) === 0) {
      this.count('slow')
      await Bun.sleep(random.below(SLOW_MS_MAX))
    }
    // The gateway was killed meanwhile.
    if (signal.aborted) {
      this.count('left')
      return new Response()
    }
    this.count('accepted')
    const alert: unknown = JSON.parse(body)
    if (isObject(alert) && alert['type'] === 'spend.threshold') this.accepted.push({ alert, atMs: performance.now() })
    return new Response(null, { status: 204 })
  }

  private count(how: string): void {
    this.attempts.set(how, (this.attempts.get(how) ?? 0) + 1)
  }
}
