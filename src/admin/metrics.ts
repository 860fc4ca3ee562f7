/**
 * The metrics as Prometheus text. Nothing is counted here: the values are read when the text is requested. Labels are
 * models and providers of the configuration, never keys, organisations or content.
 */

import { Gauge, Registry } from 'prom-client'
import type { TargetRef } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'

/** What the supervisor knows at the moment. */
export interface Figures {
  /** Every target of the configuration, each once, with its pause if it is skipped after failures. */
  readonly targets: readonly { readonly target: TargetRef; readonly rest: Rest | undefined }[]
  readonly workers: { readonly configured: number; readonly ready: number }
  /** False while a worker reports that the ledger takes no settlements or that API keys cannot be read. */
  readonly ledgerUp: boolean
  /** The number of fields of the largest organisation in Redis; absent without Redis, or before they were counted. */
  readonly ledgerFields?: number | undefined
  /** Of the file system of `data_dir`; absent if it is not known, which is NaN and not 0: no alert should fire. */
  readonly freeBytes?: number | undefined
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
      '1 while the target is skipped after failures, or until a probe of it succeeds; else 0.',
      (rest) => (rest === undefined ? 0 : 1),
    )
    ofTargets('weir_target_rest_seconds', 'Seconds until the target is tried again.', (rest) =>
      rest === undefined || rest.probing ? 0 : rest.restMs / 1000,
    )
    ofTargets(
      'weir_target_rests',
      'How often the target was skipped since it last answered.',
      (rest) => rest?.rests ?? 0,
    )
    gauge('weir_workers', 'Configured workers.', [], (its) => its.set(figures().workers.configured))
    gauge('weir_workers_ready', 'Workers that accept requests.', [], (its) => its.set(figures().workers.ready))
    gauge('weir_ledger_up', '1 while the ledger answers and API keys can be read; else 0.', [], (its) =>
      its.set(figures().ledgerUp ? 1 : 0),
    )
    gauge('weir_data_dir_free_bytes', 'Free bytes on the disk of data_dir.', [], (its) => {
      its.set(figures().freeBytes ?? Number.NaN)
    })
    gauge(
      'weir_ledger_fields',
      'Fields of the largest organisation in Redis, about one for each key. If far more than its keys in use, ' +
        'revoke unused keys.',
      [],
      (its) => its.set(figures().ledgerFields ?? 0),
    )
  }

  /** The text and its content type. */
  async text(): Promise<{ readonly text: string; readonly type: string }> {
    return { text: await this.registry.metrics(), type: this.registry.contentType }
  }
}
