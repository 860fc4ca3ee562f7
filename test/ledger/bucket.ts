/**
 * A rate limit's bucket in the model: the list of all its events, replayed from the beginning for each query. Keeps no
 * running totals or counters, which the stores do.
 */

/** Time that passed under a limit, or an amount added (negative: removed). */
type Event =
  | { readonly type: 'time'; readonly untilMs: number; readonly perMinute: number }
  | { readonly type: 'amount'; readonly amount: number }

export interface Bucket {
  readonly bornMs: number
  readonly events: readonly Event[]
}

/** A position in a bucket's history; undefined without a limit, because nothing is recorded then. */
export type Moment = number | undefined

export function emptyBucket(bornMs: number): Bucket {
  return { bornMs, events: [] }
}

export function timePasses(bucket: Bucket, untilMs: number, perMinute: number | undefined): Bucket {
  return perMinute === undefined ? bucket : add(bucket, { type: 'time', untilMs, perMinute })
}

export function pour(bucket: Bucket, amount: number, perMinute: number | undefined): Bucket {
  return perMinute === undefined ? bucket : add(bucket, { type: 'amount', amount })
}

export function momentOf(bucket: Bucket, perMinute: number | undefined): Moment {
  return perMinute === undefined ? undefined : bucket.events.length
}

export function levelOf(bucket: Bucket): number {
  return replay(bucket, bucket.events.length).level
}

/** True if drain was lost after a moment because the bucket was empty while time passed. */
export function stoodEmptySince(bucket: Bucket, moment: number): boolean {
  return replay(bucket, moment).lost < replay(bucket, bucket.events.length).lost
}

function add(bucket: Bucket, event: Event): Bucket {
  return { ...bucket, events: [...bucket.events, event] }
}

/** The level after the first `count` events, and how many of them drained less than their time allowed. */
function replay({ bornMs, events }: Bucket, count: number): { readonly level: number; readonly lost: number } {
  let [level, lost, nowMs] = [0, 0, bornMs]
  for (const event of events.slice(0, count)) {
    if (event.type === 'amount') level += event.amount
    else {
      const drain = event.untilMs > nowMs ? (event.perMinute * (event.untilMs - nowMs)) / 60_000 : 0
      nowMs = event.untilMs
      if (drain > level) lost += 1
      level -= drain
    }
    if (level < 0) level = 0
  }
  return { level, lost }
}
