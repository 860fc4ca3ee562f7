/**
 * Prints each check with its figures, passed or failed, and has the checks of answers that are the same for every
 * ledger.
 */

import type { Result } from './callers.ts'
import type { Gateway } from './gateway.ts'
import type { Served } from './provider.ts'

/** The longest time between the last byte of an answer and the commit of its row on a busy machine. */
const COMMIT_WINDOW_MS = 500
const EXAMPLES = 5

export class Report {
  passed = true

  check(words: string, passed: boolean, examples: readonly string[] = []): void {
    console.log(`${passed ? 'ok   ' : 'FAIL '} ${words}`)
    if (passed) return
    this.passed = false
    for (const example of examples.slice(0, EXAMPLES)) console.log(`       ${example}`)
  }

  equal(words: string, left: readonly [string, number], right: readonly [string, number]): void {
    this.check(`${words}: ${left[0]} ${left[1]} = ${right[0]} ${right[1]}`, left[1] === right[1])
  }
}

export interface Answers {
  readonly results: readonly Result[]
  readonly served: ReadonlyMap<string, Served>
  readonly gateways: readonly Gateway[]
  /** When the requests that have a charge were admitted (`performance.now`); only for the embedded ledger. */
  readonly admissions?: readonly number[]
  /** The final charge of a reservation; undefined if it has none. */
  readonly chargeOf: (id: string) => number | undefined
}

/** Every complete answer is charged its price, and only requests that reached the provider are charged. */
export function checkAnswers(report: Report, answers: Answers): void {
  const { results } = answers
  const wrong = results.filter(({ end }) => end === 'wrong')
  report.check(
    `every caller got an answer, a cut, a 429 or a 503 (${wrong.length} did not)`,
    wrong.length === 0,
    wrong.map(({ what }) => what),
  )
  checkComplete(report, answers)
  checkCut(report, answers)
  checkRefused(report, answers)
  checkDrained(report, answers)
  const turns = results.filter(({ turn }) => turn !== undefined)
  const continued = turns.filter(({ turn, end }) => turn === 'continued' && end === 'complete')
  report.check(
    `turns over WebSockets: ${turns.length}, of which ${continued.length} are complete and continued another`,
    continued.length > 0,
  )
  const known = new Set(results.map(({ id }) => id))
  report.check(`${known.size} requests have different ids`, known.size > 1)
}

/**
 * True if a process of the gateway may have been killed between the last byte of the answer and the commit of its row.
 */
function wasKilledNear(answers: Answers, result: Result, withinMs: number): boolean {
  const { arrivedAfterMs, endedMs } = result
  const kills = answers.gateways[result.gateway]?.kills ?? []
  return kills.some(
    (ms) =>
      ms >= arrivedAfterMs - COMMIT_WINDOW_MS && (ms <= endedMs + withinMs || wasWithoutOwner(answers, result, ms)),
  )
}

/** How long after the end of an answer its gateway was killed, for a person who looks into a failure. */
function nextKill({ gateways }: Answers, { gateway, endedMs }: Result): string {
  const { kills = [], ownerKills = [] } = gateways[gateway] ?? {}
  const after = [...kills, ...ownerKills].map((ms) => Math.round(ms - endedMs)).filter((ms) => ms > 0)
  return after.length === 0 ? 'no kill followed' : `the next kill came ${Math.min(...after)} ms after its end`
}

/**
 * True if the owner of the ledger was killed around the end of the answer and no other had taken over until `untilMs`:
 * then only a worker had the settlement. An owner that admits requests has taken over.
 */
function wasWithoutOwner({ gateways, admissions = [] }: Answers, { gateway, endedMs }: Result, untilMs: number) {
  const kills = gateways[gateway]?.ownerKills ?? []
  return kills.some(
    (killedMs) =>
      killedMs < untilMs &&
      killedMs <= endedMs + COMMIT_WINDOW_MS &&
      !admissions.some((ms) => ms > killedMs && ms < untilMs - COMMIT_WINDOW_MS),
  )
}

function checkComplete(report: Report, answers: Answers): void {
  const whole = answers.results.filter(({ end, status }) => end === 'complete' && status === 200)
  const examples: string[] = []
  const killed: (number | undefined)[] = []
  let exact = 0
  for (const one of whole) {
    const cost = answers.served.get(one.mark)?.costMicroUsd
    const charge = answers.chargeOf(one.id ?? '')
    if (charge === cost) exact++
    else if (wasKilledNear(answers, one, COMMIT_WINDOW_MS)) killed.push(charge)
    else examples.push(`${one.id} of ${one.mark} cost ${cost} and is charged ${charge}; ${nextKill(answers, one)}`)
  }
  const tiers = new Map<string, number>()
  for (const { mark } of whole) {
    const { tier, isLong } = answers.served.get(mark) ?? { tier: 'none', isLong: false }
    const row = isLong ? `${tier}, long` : tier
    tiers.set(row, (tiers.get(row) ?? 0) + 1)
  }
  console.log(
    `     answers by price: ${[...tiers]
      .sort()
      .map(([row, count]) => `${count} ${row}`)
      .join(' · ')}`,
  )
  report.check(
    `complete answers: ${whole.length} = ${exact} charged exactly + ` +
      `${killed.length} whose gateway was killed + ${examples.length} wrong`,
    examples.length === 0,
    examples,
  )
  const free = killed.filter((charge) => charge === undefined).length
  console.log(
    `     of those whose gateway was killed, ${killed.length - free} are charged in part and ${free} not at all`,
  )
}

/** An answer that was cut had reached the provider, so it is charged. */
function checkCut(report: Report, answers: Answers): void {
  const cut = answers.results.filter(
    ({ end, status, mark }) => end === 'cut' && status === 200 && answers.served.has(mark),
  )
  const free = cut.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) === 0)
  const unexplained = free.filter((one) => !wasKilledNear(answers, one, COMMIT_WINDOW_MS))
  report.check(
    `answers that were cut: ${cut.length} = ${cut.length - free.length} charged + ` +
      `${free.length - unexplained.length} whose gateway was killed + ${unexplained.length} not charged`,
    unexplained.length === 0,
    unexplained.map(
      (one) => `${one.id} of ${one.mark} is charged ${answers.chargeOf(one.id ?? '')}; ${nextKill(answers, one)}`,
    ),
  )
}

/** A request that the gateway ended because it shut down is charged if it had reached the provider. */
function checkDrained(report: Report, answers: Answers): void {
  const drained = answers.results.filter(({ end }) => end === 'drained')
  const served = drained.filter(({ mark }) => answers.served.has(mark))
  const free = served.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) === 0)
  const unexplained = free.filter((one) => !wasKilledNear(answers, one, COMMIT_WINDOW_MS))
  report.check(
    `requests that a shutdown ended before an answer: ${drained.length}; sent to the provider: ` +
      `${served.length} = ${served.length - free.length} charged + ` +
      `${free.length - unexplained.length} whose gateway was killed + ${unexplained.length} not charged`,
    unexplained.length === 0,
    unexplained.map(({ id, mark }) => `${id} of ${mark} is charged nothing`),
  )
}

/** A rejected request is not charged, unless its gateway was killed before it could cancel the reservation. */
function checkRefused(report: Report, answers: Answers): void {
  const refused = answers.results.filter(({ end }) => end === 'rejected')
  const charged = refused.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) > 0)
  const LEASE_MS = 30_000
  const unexplained = charged.filter((one) => !wasKilledNear(answers, one, LEASE_MS))
  report.check(
    `rejected requests: ${refused.length}; charged nevertheless: ` +
      `${charged.length - unexplained.length} whose gateway was killed first + ${unexplained.length} wrong`,
    unexplained.length === 0,
    unexplained.map(({ id, status }) => `${id} got ${status} and is charged ${answers.chargeOf(id ?? '')}`),
  )
  const served = refused.filter(({ mark }) => answers.served.has(mark))
  report.check(`rejected requests that reached the provider: ${served.length}`, served.length === 0)
}
