/**
 * Compaction: the instruction to summarise a conversation, the item that holds the sealed summary, which only the same
 * organisation can send back, and the restored summary.
 */

import type { FinishReason } from '../../core/event.ts'
import { isObject, type JsonValue } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { ItemText } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import { mintId } from '../answer-ids.ts'

/** The last user message of a request for a summary. */
export const SUMMARY_INSTRUCTION = `Write a summary of this conversation up to here. It will replace the conversation: \
the reader who continues from it sees nothing else.

Keep what is needed to go on without further questions:
- what the user wants, in the user's own terms, with every constraint and preference;
- what was done, and its results, tool results included;
- facts that later steps rely on, exactly: names, paths, identifiers, numbers, commands, error messages, code that \
must not change;
- decisions and their reasons, and what was tried and given up;
- what is unfinished, and the next step.

Leave out greetings, repetition and anything that no longer matters. Do not call tools, do not continue the work, do \
not address the user. Answer with the summary alone.`

/** UTF-16 units; a longer summary is cut off. Some 130,000 tokens, more than a model writes. */
export const SUMMARY_CHARS_MAX = 512 * 1024

const PREFIX = 'gw1.'
/** A longer item is not ours: JSON takes at most six bytes for a unit of the summary, and base64 a third more. */
const SEALED_CHARS_MAX = 8 * SUMMARY_CHARS_MAX + 1024

/** What the model wrote when it was asked for a summary. */
export interface SummaryAnswer {
  readonly text: string
  readonly hasRefused: boolean
  readonly reason: FinishReason
}

/**
 * Throws a `ProviderError` for an answer that is no summary: the caller would replace its conversation with it. The
 * cause may be the request (its output limit, or what the conversation holds), so the error is `unusable`.
 */
export function checkSummary({ text, hasRefused, reason }: SummaryAnswer): void {
  const isSummary = !hasRefused && reason !== 'content-filter' && text.trim() !== ''
  if (isSummary) return
  const why = hasRefused ? 'The model refused to write it. Try another model.' : CAUSES[reason]
  throw new ProviderError('broken', `The conversation has no summary. ${why}`, { unusable: true })
}

const CAUSES: Readonly<Record<FinishReason, string>> = {
  stop: 'The answer of the model is empty. Send the request again, or try another model.',
  length: "The output limit ended the answer of the model before the summary began. Raise 'max_output_tokens'.",
  'tool-call': 'The model called a tool in its place. Send the request again, or try another model.',
  'content-filter': 'A content filter of the provider stopped it. Try another model.',
}

/** The one item of a compaction's answer. */
export function compactionItem(sealer: Sealer, organization: string, summary: string): ItemText {
  const body = JSON.stringify({ summary: summary.slice(0, SUMMARY_CHARS_MAX) })
  const sealed = sealer.seal('compaction', organization, body)
  const id = mintId('cmp')
  const content = PREFIX + sealed.toString('base64url')
  return { id, json: `{"id":"${id}","type":"compaction","encrypted_content":"${content}"}` }
}

/** The summary in an item's `encrypted_content`; undefined unless this organisation was sent exactly this content. */
export function openSummary(sealer: Sealer, organization: string, content: unknown): string | undefined {
  if (typeof content !== 'string' || content.length > SEALED_CHARS_MAX || !content.startsWith(PREFIX)) return undefined
  const encoded = content.slice(PREFIX.length)
  const sealed = Buffer.from(encoded, 'base64url')
  // The decoder skips characters outside base64url, so a changed text could decode to the same bytes.
  if (sealed.toString('base64url') !== encoded) return undefined
  const body = sealer.open('compaction', organization, sealed)
  if (body === undefined) return undefined
  const opened: JsonValue = JSON.parse(body)
  const summary = isObject(opened) ? opened['summary'] : undefined
  return typeof summary === 'string' ? summary : undefined
}

/**
 * The restored summary as the text of a user message. Not a system message: the summary is a model's output, and text
 * injected into the old conversation would gain the operator's authority.
 */
export function summaryText(summary: string): string {
  const head = 'This is a summary of the earlier part of this conversation, which it replaces.'
  return `${head}\n\n<conversation_summary>\n${summary}\n</conversation_summary>`
}
