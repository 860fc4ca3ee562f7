/**
 * The figures of the program as Prometheus text. Nothing is counted here: what stands in the text is looked up when it is asked for. It
 * names models and providers of the configuration, never a key, an organisation or what was said.
 */

import { Gauge, Registry } from 'prom-client'
import type { TargetRef } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'

/** What the supervisor knows when it is asked. */
export interface Figures {
  /** Every target of the configuration, each once, with its rest where it is not well. */
  readonly targets: readonly { readonly target: TargetRef; readonly rest: Rest | undefined }[]
  readonly workers: { readonly configured: number; readonly ready: number }
  /** False while a worker finds that the ledger does not take what it is given, or that API keys cannot be read. */
  readonly ledgerUp: boolean
  /** How many fields the largest organisation has in Redis; absent where there is no Redis, or nobody has looked yet. */
  readonly ledgerFields?: number | undefined
}

export class Metrics {
  private readonly registry = new Registry()

  constructor(figures: () => Figures) {
    const gauge = (name: string, help: string, labels: readonly string[], collect: (gauge: Gauge) => void) => {
      new Gauge({
        name,
        help,
        labelNames: labels,
        registers: [this.registry],
        collect() {
          this.reset()
          collect(this)
        },
      })
    }
    const ofTargets = (name: string, help: string, value: (rest: Rest | undefined) => number) =>
      gauge(name, help, ['provider', 'model'], (its) => {
        for (const { target, rest } of figures().targets)
          its.set({ provider: target.provider, model: target.model }, value(rest))
      })
    ofTargets(
      'weir_target_resting',
      '1 while the target is passed over after failures, or has yet to prove that it is well again; else 0.',
      (rest) => (rest === undefined ? 0 : 1),
    )
    ofTargets('weir_target_rest_seconds', 'How much longer the target rests.', (rest) =>
      rest === undefined || rest.probing ? 0 : rest.restMs / 1000,
    )
    ofTargets('weir_target_rests', 'Rests of the target since it last answered.', (rest) => rest?.rests ?? 0)
    gauge('weir_workers', 'Workers that are configured.', [], (its) => its.set(figures().workers.configured))
    gauge('weir_workers_ready', 'Workers that accept requests.', [], (its) => its.set(figures().workers.ready))
    gauge('weir_ledger_up', '1 while the ledger answers and API keys can be read; else 0.', [], (its) =>
      its.set(figures().ledgerUp ? 1 : 0),
    )
    gauge(
      'weir_ledger_fields',
      'Fields of the largest organisation in Redis: about one a key. Much above the number of its keys, look for keys that should be revoked.',
      [],
      (its) => its.set(figures().ledgerFields ?? 0),
    )
  }

  /** The text, and the content type that names its format. */
  async text(): Promise<{ readonly text: string; readonly type: string }> {
    return { text: await this.registry.metrics(), type: this.registry.contentType }
  }
}
