/**
 * Differences of Mistral's own API from OpenAI's. It rejects unknown fields (422 `extra_forbidden`), and ids of tool
 * calls that are not nine letters and digits (400, code 3280), which ids from other providers earlier in the
 * conversation are not (`chat-body.ts`). Mistral's models on other servers do not need this.
 */

import type { ChatRequest, ToolChoice } from '../../core/chat-request.ts'
import { member } from '../json-members.ts'
import { stopSequences } from '../stop-sequences.ts'
import type { ToolNames } from '../tool-names.ts'
import type { MessageVariant } from './chat-body.ts'

export const MISTRAL: MessageVariant = { isMistral: true }

export function isMistral(baseUrl: string): boolean {
  return /^https?:\/\/(?:[^/]+\.)?mistral\.ai(?:[:/]|$)/.test(baseUrl)
}

/**
 * Those of our fields that Mistral's API reference lists for chat completions; it streams usage without a request for
 * it.
 */
export function mistralSettings(request: ChatRequest, limitName: string): string {
  const { sampling, stop, maxOutputTokens, stream } = request
  const stops = stopSequences(stop, { isClaude: false })
  return (
    (limitName === 'max_tokens' ? member('max_tokens', maxOutputTokens) : '') +
    (stops === undefined ? '' : `,"stop":${JSON.stringify(stops)}`) +
    member('temperature', sampling.temperature) +
    member('top_p', sampling.topP) +
    member('frequency_penalty', sampling.frequencyPenalty) +
    member('presence_penalty', sampling.presencePenalty) +
    (sampling.responseFormat === undefined ? '' : `,"response_format":${JSON.stringify(sampling.responseFormat)}`) +
    (stream ? ',"stream":true' : '') +
    member('random_seed', sampling.seed)
  )
}

/** The sent names of the tools to which a choice is limited; undefined if it is not. */
export function allowedBy(choice: ToolChoice | undefined, names: ToolNames): ReadonlySet<string> | undefined {
  return choice?.mode === 'allowed' ? new Set(choice.names.map((name) => names.sent(name))) : undefined
}

/** A choice among some of the tools becomes those tools alone, with the choice's mode. */
export function narrowedChoice(choice: ToolChoice): string | undefined {
  return choice.mode === 'allowed' ? (choice.required ? 'required' : 'auto') : undefined
}
