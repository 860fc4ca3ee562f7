/** What must hold when all is over, whichever the ledger: each demand is printed with its figures, whether it was met or not. */

import type { Asked } from './callers.ts'
import type { Node } from './node.ts'
import type { Served } from './provider.ts'

/** Between the last byte that a caller saw and the commit of its row; a busy machine is slow. */
const COMMIT_WINDOW_MS = 500
const EXAMPLES = 5

export class Verdict {
  good = true

  check(words: string, good: boolean, examples: readonly string[] = []): void {
    console.log(`${good ? 'ok  ' : 'BAD '} ${words}`)
    if (good) return
    this.good = false
    for (const example of examples.slice(0, EXAMPLES)) console.log(`       ${example}`)
  }

  equal(words: string, left: readonly [string, number], right: readonly [string, number]): void {
    this.check(`${words}: ${left[0]} ${left[1]} = ${right[0]} ${right[1]}`, left[1] === right[1])
  }
}

export interface Answers {
  readonly asked: readonly Asked[]
  readonly served: ReadonlyMap<string, Served>
  readonly nodes: readonly Node[]
  /** What is charged for a reservation in the end; undefined where nothing ever was. */
  readonly chargeOf: (id: string) => number | undefined
}

/** Every answer that came whole is charged its price, and only what was asked of a provider is charged. */
export function judgeAnswers(verdict: Verdict, answers: Answers): void {
  const { asked } = answers
  const wrong = asked.filter(({ end }) => end === 'wrong')
  verdict.check(
    `every caller got an answer, a cut, a 429 or a 503 (${wrong.length} did not)`,
    wrong.length === 0,
    wrong.map(({ what }) => what),
  )
  judgeWhole(verdict, answers)
  judgeCut(verdict, answers)
  judgeRefused(verdict, answers)
  judgeDrained(verdict, answers)
  const known = new Set(asked.map(({ id }) => id))
  verdict.check(`${known.size} requests have ids of their own`, known.size > 1)
}

/** A process of the node died between the answer's last byte and the commit of its row, or might have. */
function diedAfter({ nodes }: Answers, { node, endedMs }: Asked, withinMs: number): boolean {
  const deaths = nodes[node]?.deaths ?? []
  return deaths.some((ms) => ms >= endedMs - COMMIT_WINDOW_MS && ms <= endedMs + withinMs)
}

function judgeWhole(verdict: Verdict, answers: Answers): void {
  const whole = answers.asked.filter(({ end, status }) => end === 'whole' && status === 200)
  const examples: string[] = []
  const killed: (number | undefined)[] = []
  let exact = 0
  for (const one of whole) {
    const cost = answers.served.get(one.mark)?.costMicroUsd
    const charge = answers.chargeOf(one.id ?? '')
    if (charge === cost) exact++
    else if (diedAfter(answers, one, COMMIT_WINDOW_MS)) killed.push(charge)
    else examples.push(`${one.id} of ${one.mark} cost ${cost} and is charged ${charge}`)
  }
  verdict.check(
    `answers that came whole: ${whole.length} = ${exact} charged exactly + ${killed.length} whose gateway was killed with them + ${examples.length}`,
    examples.length === 0,
    examples,
  )
  const free = killed.filter((charge) => charge === undefined).length
  console.log(
    `     of those that were killed ${killed.length - free} are charged their progress or their input, ${free} nothing`,
  )
}

/** What broke off had been asked of a provider: it is charged something. */
function judgeCut(verdict: Verdict, answers: Answers): void {
  const cut = answers.asked.filter(
    ({ end, status, mark }) => end === 'cut' && status === 200 && answers.served.has(mark),
  )
  const free = cut.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) === 0)
  const unexplained = free.filter((one) => !diedAfter(answers, one, COMMIT_WINDOW_MS))
  verdict.check(
    `answers that broke off: ${cut.length} = ${cut.length - free.length} charged + ${free.length - unexplained.length} that ended with their gateway + ${unexplained.length}`,
    unexplained.length === 0,
    unexplained.map(({ id, mark }) => `${id} of ${mark} is charged ${answers.chargeOf(id ?? '')}`),
  )
}

/** Who was told that the gateway ends, and for whom a provider had been asked by then, is charged something. */
function judgeDrained(verdict: Verdict, answers: Answers): void {
  const drained = answers.asked.filter(({ end }) => end === 'drained')
  const asked = drained.filter(({ mark }) => answers.served.has(mark))
  const free = asked.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) === 0)
  const unexplained = free.filter((one) => !diedAfter(answers, one, COMMIT_WINDOW_MS))
  verdict.check(
    `requests whose gateway ended before they had an answer: ${drained.length}; asked of the provider: ${asked.length} = ${asked.length - free.length} charged + ${free.length - unexplained.length} whose gateway was killed with them + ${unexplained.length}`,
    unexplained.length === 0,
    unexplained.map(({ id, mark }) => `${id} of ${mark} is charged nothing`),
  )
}

/** Who was refused was never served: nothing is charged, unless the gateway died before it could take the reservation back. */
function judgeRefused(verdict: Verdict, answers: Answers): void {
  const refused = answers.asked.filter(({ end }) => end === 'refused')
  const charged = refused.filter(({ id }) => (answers.chargeOf(id ?? '') ?? 0) > 0)
  const LEASE_MS = 30_000
  const unexplained = charged.filter((one) => !diedAfter(answers, one, LEASE_MS))
  verdict.check(
    `requests that were refused: ${refused.length}; charged all the same: ${charged.length - unexplained.length} whose gateway died before it could take them back + ${unexplained.length}`,
    unexplained.length === 0,
    unexplained.map(({ id, status }) => `${id} was told ${status} and is charged ${answers.chargeOf(id ?? '')}`),
  )
  const asked = refused.filter(({ mark }) => answers.served.has(mark))
  verdict.check(
    `requests that were refused and asked of the provider all the same: ${asked.length}`,
    asked.length === 0,
  )
}
