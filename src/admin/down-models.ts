/** The models that none of their targets can answer, each with a sentence for the operator. */

import type { Config } from '../config/config.ts'
import type { TargetRef } from '../core/model-config.ts'
import { type Failure, failureText, withCode } from '../gateway/target-failure.ts'
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
      failing.push({ target, failure, sinceMs: known?.sinceMs ?? nowMs, isOfStreams: known?.isOfStreams === true })
    }
    if (failing.length === 0) return []
    const reason = reasonOf(failing, nowMs)
    const sinceMs = Math.max(...failing.map((each) => each.sinceMs))
    const down = failing.some(({ isOfStreams }) => isOfStreams) ? 'down for streams' : 'down'
    return [{ model: name, targets, sinceMs, reason, message: `${name} is ${down}: ${reason}.` }]
  })
}

interface Failing {
  readonly target: TargetRef
  readonly failure: Failure
  readonly sinceMs: number
  readonly isOfStreams: boolean
}

function reasonOf(failing: readonly Failing[], nowMs: number): string {
  const sentences = failing.map(({ target, failure, sinceMs, isOfStreams }) => {
    const what = isOfStreams ? withCode('breaks its streams off', failure.cause) : failureText(failure)
    return `${target.provider}/${target.model} ${what} since ${clockTime(sinceMs, nowMs)}`
  })
  return failing.length === 1
    ? `its only target ${sentences[0]}`
    : `none of its ${failing.length} targets can answer: ${sentences.join('; ')}`
}

/** The time of a day in UTC, with the day unless it is today. */
function clockTime(ms: number, nowMs: number): string {
  const [day = '', time = ''] = new Date(ms).toISOString().split('T')
  const isToday = new Date(nowMs).toISOString().startsWith(day)
  return isToday ? time.slice(0, 5) : `${day} ${time.slice(0, 5)}`
}
