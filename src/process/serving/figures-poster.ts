/**
 * Posts to the supervisor what a worker has counted, about once a second if anything changed, and watches how late its
 * event loop is. On the slow ticker: a timer of its own would wake an idle process more often.
 */

import { SLOW_PERIOD_MS, slowTicker, type Ticking } from '../../core/ticker.ts'
import type { FiguresPost, WorkerGauges } from '../../metrics/figures-post.ts'

/** A post comes with the last tick within a second after the post before it. */
const POST_MS = 1000 - SLOW_PERIOD_MS
/** A change of the lag by less is no reason for a post: timers are never quite on time. */
const LAG_STEP_SECONDS = 0.01

interface PosterOptions {
  readonly figures: { readonly hasChanged: boolean; take(gauges: WorkerGauges): FiguresPost }
  /** What is true of the worker now, but for the lag. */
  readonly gauges: () => Omit<WorkerGauges, 'loopLagSeconds'>
  readonly send: (post: FiguresPost) => void
}

export class FiguresPoster implements Ticking {
  place = -1
  private tickedMs = 0
  private postedMs = 0
  /** Since the last post, in seconds. */
  private lag = 0
  private posted: WorkerGauges | undefined

  constructor(private readonly options: PosterOptions) {}

  start(): void {
    this.tickedMs = performance.now()
    this.postedMs = this.tickedMs
    slowTicker.add(this)
  }

  tick(nowMs: number): void {
    this.lag = Math.max(this.lag, (nowMs - this.tickedMs - SLOW_PERIOD_MS) / 1000)
    this.tickedMs = nowMs
    if (nowMs - this.postedMs < POST_MS) return
    this.postedMs = nowMs
    const gauges = this.gauges()
    this.lag = 0
    if (this.options.figures.hasChanged || this.differs(gauges)) this.post(gauges)
  }

  /** Posts what there is: call when the process is about to end. */
  stop(): void {
    slowTicker.remove(this)
    this.post(this.gauges())
  }

  private post(gauges: WorkerGauges): void {
    const { figures, send } = this.options
    this.posted = gauges
    send(figures.take(gauges))
  }

  private gauges(): WorkerGauges {
    return { ...this.options.gauges(), loopLagSeconds: Math.round(this.lag * 1000) / 1000 }
  }

  private differs({ loopLagSeconds, ...others }: WorkerGauges): boolean {
    if (this.posted === undefined) return true
    const { loopLagSeconds: postedLag, ...posted } = this.posted
    return !Bun.deepEquals(others, posted) || Math.abs(loopLagSeconds - postedLag) >= LAG_STEP_SECONDS
  }
}
