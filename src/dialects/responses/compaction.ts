/**
 * Compaction: the instruction that makes a model summarise, the summary sealed into an item that only this organisation can send back,
 * and the summary restored. The sealing keys stay in here.
 */

import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import type { Sealer } from '../../items/sealer.ts'
import { mintId } from '../answer-ids.ts'

/** Appended to a conversation that is to be summarised, as the user's last message. */
export const SUMMARY_INSTRUCTION = `Write a summary of this conversation up to here. It will take the place of the conversation: whoever continues from it sees nothing else of what was said.

Keep what is needed to go on without asking again:
- what the user wants, in the user's own terms, with every constraint and preference;
- what was done, and what came of it, tool results included;
- facts that later steps rely on, exactly: names, paths, identifiers, numbers, commands, error messages, code that must not change;
- decisions and their reasons, and what was tried and given up;
- what is unfinished, and the next step.

Leave out greetings, repetition and anything that no longer matters. Do not call tools, do not continue the work, do not address the user. Answer with the summary alone.`

/** A summary longer than this, in UTF-16 units, ends there: some 130,000 tokens, more than a model writes. */
export const SUMMARY_CHARS_MAX = 512 * 1024

const PREFIX = 'gw1.'
/** A longer item is none of ours: the longest summary takes at most six bytes a unit in JSON, and base64 a third more. */
const SEALED_CHARS_MAX = 8 * SUMMARY_CHARS_MAX + 1024

/**
 * The one item that answers a compaction. Throws a `ProviderError` where the model wrote no summary (a filter, tool calls alone): the caller drops
 * its conversation for this item.
 */
export function compactionItem(sealer: Sealer, organization: string, summary: string): JsonObject {
  if (summary.trim() === '') throw new ProviderError('broken', 'the model wrote no summary')
  const body = JSON.stringify({ summary: summary.slice(0, SUMMARY_CHARS_MAX) })
  const sealed = sealer.seal('compaction', organization, body)
  return { id: mintId('cmp'), type: 'compaction', encrypted_content: PREFIX + sealed.toString('base64url') }
}

/** The summary of an item's `encrypted_content`; undefined where it is not what this organisation was sent, unchanged. */
export function openSummary(sealer: Sealer, organization: string, content: unknown): string | undefined {
  if (typeof content !== 'string' || content.length > SEALED_CHARS_MAX || !content.startsWith(PREFIX)) return undefined
  const encoded = content.slice(PREFIX.length)
  const sealed = Buffer.from(encoded, 'base64url')
  // The decoder skips what is not base64url; what comes back must be what was sent.
  if (sealed.toString('base64url') !== encoded) return undefined
  const body = sealer.open('compaction', organization, sealed)
  if (body === undefined) return undefined
  const opened: JsonValue = JSON.parse(body)
  const summary = isObject(opened) ? opened['summary'] : undefined
  return typeof summary === 'string' ? summary : undefined
}

/**
 * The restored summary as the text of a user message. It is a model's output: as a system message, what somebody smuggled into the old
 * conversation would speak with the operator's voice.
 */
export function summaryText(summary: string): string {
  return `This is a summary of the earlier part of this conversation, which it takes the place of.\n\n<conversation_summary>\n${summary}\n</conversation_summary>`
}
