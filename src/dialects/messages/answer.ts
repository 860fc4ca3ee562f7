/** A whole answer → the body of Messages. */

import type { ThoughtBlock } from '../../core/answer-blocks.ts'
import type { Compatibility } from '../../core/compatibility.ts'
import { type AnswerCall, type Completion, type PlainAnswer, spokenText } from '../../core/completion.ts'
import type { FinishReason, OwnStop } from '../../core/event.ts'
import { parseExact } from '../../core/exact-json.ts'
import type { JsonObject } from '../../core/json.ts'
import { PART_SEAM, type Reasoning } from '../../core/reasoning.ts'
import type { Usage } from '../../core/token-usage.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import { messagesUsage, messagesUsageJson } from './usage.ts'

/** The text comes first, then the calls. */
export function messagesAnswer(
  completion: Completion,
  served: Served,
  status: Status = 'completed',
  shows?: Reasoning['shows'],
): JsonObject {
  const { ownMembers: own } = completion
  const isOrdered = completion.blocks !== undefined && (shows?.seals === true || own !== undefined)
  return {
    id: mintId('msg'),
    type: 'message',
    role: 'assistant',
    model: served.model,
    content: isOrdered ? blocksOf(completion, shows) : spokenBlocks(completion),
    ...stopOf(completion, completion.toolCalls.length > 0, status),
    ...own?.members,
    usage: { ...messagesUsage(completion.usage), ...own?.usage },
  }
}

/** A call of a tool that the provider ran; with no input if the answer ended within it. */
function withInput(block: JsonObject, json: string): JsonObject {
  try {
    return { ...block, input: parseExact(json) }
  } catch (error) {
    if (error instanceof SyntaxError) return block
    throw error
  }
}

function spokenBlocks(completion: Completion): JsonObject[] {
  const calls = completion.toolCalls.flatMap((call) => toolUse(call))
  const text = spokenText(completion)
  return text === '' && calls.length > 0 ? calls : [{ type: 'text', text }, ...calls]
}

/** All blocks in the provider's order, because an issuer wants its thoughts back in their places. */
function blocksOf({ blocks = [], toolCalls }: Completion, shows?: Reasoning['shows']): JsonObject[] {
  const content = blocks.flatMap((block): JsonObject[] => {
    if (block.kind === 'thought') return shows?.seals === true ? thoughtBlock(block, shows) : []
    if (block.kind === 'own')
      return [block.json.length === 0 ? block.block : withInput(block.block, block.json.join(''))]
    if (block.kind === 'text') return block.text === '' ? [] : [{ type: 'text', text: block.text, ...block.members }]
    const call = toolCalls[block.index]
    return call === undefined ? [] : toolUse(call)
  })
  const isSpoken = content.some(({ type }) => type !== 'thinking' && type !== 'redacted_thinking')
  return isSpoken ? content : [...content, { type: 'text', text: '' }]
}

function thoughtBlock({ texts, seal, isRedacted }: ThoughtBlock, shows: Reasoning['shows']): JsonObject[] {
  if (!seal) return []
  if (isRedacted === true) return [{ type: 'redacted_thinking', data: seal }]
  return [{ type: 'thinking', thinking: shows.texts ? texts.join(PART_SEAM) : '', signature: seal }]
}

/** The JSON text of `messagesAnswer` for an answer of nothing but text. */
export function messagesPlain(
  { text, reason, usage }: PlainAnswer & { readonly usage: Usage },
  served: Served,
  status: Status = 'completed',
): string {
  return (
    `{"id":"${mintId('msg')}","type":"message","role":"assistant","model":${JSON.stringify(served.model)},` +
    `"content":[{"type":"text","text":${JSON.stringify(text)}}],` +
    `${JSON.stringify(stopOf({ reason }, false, status)).slice(1, -1)},"usage":${messagesUsageJson(usage)}}`
  )
}

type Status = Compatibility['status']

/** How an answer ended. A type and no interface, so that it is JSON. */
type Stop = { readonly stop_reason: string; readonly stop_sequence: string | null }

/**
 * How an answer ended, in the words of Messages. `called`: whether it has a tool call. `provider`: in Anthropic's own
 * words, if the provider has sent them, and what a filter ended is a `refusal`, also if another provider filtered.
 */
export function stopOf(
  { reason, own }: { readonly reason: FinishReason; readonly own?: OwnStop | undefined },
  called: boolean,
  status: Status,
): Stop {
  if (status === 'provider' && own !== undefined) return { stop_reason: own.reason, stop_sequence: own.sequence }
  const filtered = status === 'provider' && reason === 'content-filter'
  return { stop_reason: filtered ? 'refusal' : stopReason(reason, called), stop_sequence: null }
}

/**
 * The `stop_reason` of Messages. `called`: whether the answer has a tool call. A complete answer with a call stopped
 * for it, whatever the provider reported, and one without a call has none to run.
 */
function stopReason(reason: FinishReason, called: boolean): string {
  switch (reason) {
    case 'length':
      return 'max_tokens'
    case 'content-filter':
      return 'stop_sequence'
    case 'stop':
    case 'tool-call':
      return called ? 'tool_use' : 'end_turn'
  }
}

/** A call that the output limit or a filter cut is left out: a caller might run it with a made-up input. */
function toolUse({ callId, name, json, isWhole, own }: AnswerCall): JsonObject[] {
  return isWhole ? [{ type: 'tool_use', id: callId, name, input: parseExact(json), ...own }] : []
}
