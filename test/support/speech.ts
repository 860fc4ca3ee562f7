/** Simulated providers that give the same answer in the API of each provider dialect. */

import { isArray, isObject } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import { DIALECTS } from '../providers/dialects.ts'
import * as does from './scenarios.ts'
import type { Speech, Spoken } from './speech-writer.ts'
import type { Call, Scenario } from './upstream.ts'

/** A provider that answers every request with what `choose` returns, streamed or whole as requested. */
export function speaks(dialect: ProviderDialect, choose: (call: Call) => Speech): Scenario {
  const { writer: usual, writerFor } = DIALECTS[dialect]
  return (call) => {
    const writer = writerFor?.(call) ?? usual
    const speech = choose(call)
    if (!writer.streams(call)) return call.answer(200, JSON.stringify(writer.whole(speech)))
    return does.stream(writer.streamed(speech), { 'content-type': writer.streamType })(call)
  }
}

export const textAnswer = (text: string, finish: Speech['finish'] = 'stop'): Speech => ({ text, calls: [], finish })
export const calls = (text: string, ...made: readonly Spoken[]): Speech => ({ text, calls: made, finish: 'calls' })

/** A Chat Completions model that takes one more step each time the results of a turn arrive; the last step repeats. */
export function inSteps(...steps: readonly [Speech, ...Speech[]]): Scenario {
  return speaks('openai', ({ json }) => {
    const turns = isArray(json['messages']) ? json['messages'].filter(isObject) : []
    const made = turns.filter(({ role, tool_calls }) => role === 'assistant' && isArray(tool_calls)).length
    return steps[Math.min(made, steps.length - 1)] ?? steps[0]
  })
}
