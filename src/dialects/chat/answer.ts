/** A whole answer → the body of Chat Completions. */

import type { Completion, PlainAnswer } from '../../core/completion.ts'
import type { FinishReason } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, parseObject } from '../../core/json.ts'
import { PART_SEAM } from '../../core/reasoning.ts'
import { BASE_TIER, openaiTier } from '../../core/service-tier.ts'
import type { Usage } from '../../core/token-usage.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import { callText } from '../free-text.ts'
import { chatUsageJson } from './usage.ts'

/** `free`: the tools that take a text. */
export function chatAnswer(
  completion: Completion,
  served: Served,
  free: ReadonlySet<string> = new Set(),
  showsThoughts = false,
): JsonObject {
  const thoughts = showsThoughts ? thoughtsOf(completion) : ''
  const calls = completion.toolCalls.map((call) => {
    const { callId: id, name } = call
    return free.has(name)
      ? { id, type: 'custom', custom: { name, input: callText(call) } }
      : { id, type: 'function', function: { name, arguments: call.json } }
  })
  const silent = calls.length > 0 || completion.refusal !== undefined
  const message: JsonObject = {
    role: 'assistant',
    content: completion.text === '' && silent ? null : completion.text,
    ...(thoughts !== '' && { reasoning_content: thoughts }),
    refusal: completion.refusal ?? null,
    annotations: [],
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
  return {
    id: mintId('chatcmpl'),
    object: 'chat.completion',
    created: served.createdAt,
    model: served.model,
    choices: [
      {
        index: 0,
        message,
        logprobs: joinLogprobs(completion.logprobs),
        finish_reason: CHAT_FINISHES[completion.reason],
      },
    ],
    usage: parseObject(chatUsageJson(completion.usage)),
    service_tier: openaiTier(completion.usage.serviceTier),
  }
}

/** The words of all thoughts. */
function thoughtsOf({ blocks = [] }: Completion): string {
  return blocks.map((block) => (block.kind === 'thought' ? block.texts.join(PART_SEAM) : '')).join('')
}

/** The JSON text of `chatAnswer` for an answer of nothing but text. */
export function chatPlain({ text, reason, usage }: PlainAnswer & { readonly usage: Usage }, served: Served): string {
  return (
    `{"id":"${mintId('chatcmpl')}${openingOf(served)}${JSON.stringify(text)},"refusal":null,"annotations":[]},` +
    `"logprobs":null,"finish_reason":"${CHAT_FINISHES[reason]}"}],"usage":${chatUsageJson(usage)},` +
    `"service_tier":${tierJson(usage.serviceTier)}}`
  )
}

/** The service tier that served the answer, as JSON: `default` if the provider names none. */
function tierJson(served: string | undefined): string {
  const tier = openaiTier(served)
  return tier === BASE_TIER ? '"default"' : JSON.stringify(tier)
}

/** From the end of the id to the text; the last one, because it is the same for a second of one model's answers. */
let opening = ''
let openingModel = ''
let openingSecond = 0

function openingOf({ model, createdAt }: Served): string {
  if (openingModel !== model || openingSecond !== createdAt) {
    openingModel = model
    openingSecond = createdAt
    opening =
      `","object":"chat.completion","created":${createdAt},"model":${JSON.stringify(model)},"choices":[{"index":0,` +
      '"message":{"role":"assistant","content":'
  }
  return opening
}

/** The `finish_reason` of Chat Completions. */
export const CHAT_FINISHES: Readonly<Record<FinishReason, string>> = {
  stop: 'stop',
  length: 'length',
  'tool-call': 'tool_calls',
  'content-filter': 'content_filter',
}

/**
 * Joins the `logprobs` objects of the text events to the one object of a whole answer: `{ content: [...], refusal:
 * [...] | null }`.
 */
function joinLogprobs(pieces: readonly JsonValue[] | undefined): JsonValue {
  if (pieces === undefined) return null
  const joined = (key: string) =>
    pieces.flatMap((piece): readonly JsonValue[] => {
      const tokens = isObject(piece) ? piece[key] : undefined
      return isArray(tokens) ? tokens : []
    })
  const refusal = joined('refusal')
  return { content: joined('content'), refusal: refusal.length > 0 ? refusal : null }
}
