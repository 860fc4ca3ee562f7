/** The models that none of their targets can answer, each with a sentence for the operator. */

import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { ProviderErrorKind } from '../core/provider-error.ts'
import type { Failure } from '../gateway/breaker.ts'
import type { TargetState } from '../gateway/target-states.ts'

interface DownModel {
  readonly model: string
  readonly targets: readonly TargetRef[]
  /** Since when the last of its targets fails, in Unix milliseconds. */
  readonly sinceMs: number
  /** `its only target a/gpt-5-mini answers 500 since 07:35` */
  readonly reason: string
  /** `gpt-5-mini is down: its only target a/gpt-5-mini answers 500 since 07:35.` */
  readonly message: string
}

/** In the order of the configuration. */
export function downModels(
  { models }: Config,
  stateOf: (target: TargetRef) => TargetState,
  nowMs: number,
): readonly DownModel[] {
  return models.flatMap(({ name, targets }) => {
    const failing: Failing[] = []
    for (const target of targets) {
      const { isDown, rest, failing: known } = stateOf(target)
      const failure = known ?? rest
      if (!isDown || failure === undefined) return []
      failing.push({ target, failure, sinceMs: known?.sinceMs ?? nowMs })
    }
    if (failing.length === 0) return []
    const reason = reasonOf(failing, nowMs)
    const sinceMs = Math.max(...failing.map((each) => each.sinceMs))
    return [{ model: name, targets, sinceMs, reason, message: `${name} is down: ${reason}.` }]
  })
}

interface Failing {
  readonly target: TargetRef
  readonly failure: Failure
  readonly sinceMs: number
}

function reasonOf(failing: readonly Failing[], nowMs: number): string {
  const sentences = failing.map(({ target, failure, sinceMs }) => {
    return `${target.provider}/${target.model} ${failureText(failure)} since ${clockTime(sinceMs, nowMs)}`
  })
  return failing.length === 1
    ? `its only target ${sentences[0]}`
    : `none of its ${failing.length} targets can answer: ${sentences.join('; ')}`
}

const TEXTS: Readonly<Record<ProviderErrorKind, string>> = {
  unreachable: 'cannot be reached',
  timeout: 'does not answer in time',
  rate_limited: 'is rate limited',
  overloaded: 'is overloaded',
  credential: 'rejects our credential',
  credit_exhausted: 'has no credit left in our account',
  failed: 'fails',
  broken: 'gives no valid answer',
  rejected: 'rejects requests',
  too_large: 'rejects requests',
  cut: 'breaks its answers off',
}
/** For these the status alone does not show what to do. */
const EXPLAINED: ReadonlySet<ProviderErrorKind> = new Set(['credential', 'credit_exhausted', 'broken', 'cut'])

/** A predicate: `answers 500`, `cannot be reached (ECONNREFUSED)`. */
function failureText({ reason, status, cause }: Failure): string {
  const isAnswer = status !== undefined && status >= 400
  if (isAnswer && !EXPLAINED.has(reason)) return `answers ${status}`
  const code = cause ?? (isAnswer ? String(status) : undefined)
  return code === undefined ? TEXTS[reason] : `${TEXTS[reason]} (${code})`
}

/** The time of a day in UTC, with the day unless it is today. */
function clockTime(ms: number, nowMs: number): string {
  const [day = '', time = ''] = new Date(ms).toISOString().split('T')
  const isToday = new Date(nowMs).toISOString().startsWith(day)
  return isToday ? time.slice(0, 5) : `${day} ${time.slice(0, 5)}`
}
