/** What the bodies of Chat Completions and Responses have in common: texts, and the cache marks on them. */

import { type Conversation, MARKED } from '../../core/conversation.ts'
import { type JsonBuilder, part } from '../../core/json-builder.ts'

const OPEN_LIST = part('[')
const CLOSE_LIST = part(']')
const COMMA = part(',')
const QUOTE = part('"')
export const NOTHING = part('')
export const LINE_END = part('\\n')
/** The end of a part, by the index of its cache mark. */
export const PART_ENDS: readonly Uint8Array[] = [part('"}'), ...marked('"', '}')]

/** For each cache mark, in the order of `MARKS`. */
export function marked(before: string, after: string): readonly Uint8Array[] {
  return ['', ',"ttl":"5m"', ',"ttl":"1h"'].map((ttl) =>
    part(`${before},"cache_control":{"type":"ephemeral"${ttl}}${after}`),
  )
}

/** The first entry from `from` on that is not of this kind, or `end`. */
export function after(conversation: Conversation, from: number, end: number, kind: number): number {
  let entry = from
  while (entry < end && conversation.kindAt(entry) === kind) entry = conversation.next(entry)
  return entry
}

/**
 * One string, which every server accepts. Parts only to carry cache marks, and then split only after a mark: in the
 * next turn the mark has moved, and the text before it must be the same bytes. `textPart`: how a part begins;
 * `mark`: the index of a mark on the whole text.
 */
export function writeText(
  json: JsonBuilder,
  textPart: Uint8Array,
  conversation: Conversation,
  first: number,
  end: number,
  separator: Uint8Array,
  mark: number,
): void {
  let isMarked = mark > 0 && first < end
  for (let at = first; at < end; at = conversation.next(at)) isMarked ||= conversation.bitsAt(at) >= MARKED
  if (isMarked) json.part(OPEN_LIST)
  json.part(isMarked ? textPart : QUOTE)
  for (let at = first; at < end; ) {
    const next = conversation.next(at)
    const isLast = next === end
    if (at > first) json.part(separator)
    json.entry(conversation, at)
    const own = isLast && mark > 0 ? mark : conversation.markIndexAt(at)
    // Only a part with a mark ends before the whole text does.
    if (own > 0 || (isMarked && isLast)) json.part(PART_ENDS[own] ?? NOTHING)
    if (own > 0 && !isLast) {
      json.part(COMMA)
      json.part(textPart)
    }
    at = next
  }
  json.part(isMarked ? CLOSE_LIST : QUOTE)
}
