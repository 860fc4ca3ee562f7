/** Tools that were not parsed → those of Anthropic's body, from their bytes: what `toolBlock` makes of them. */

import { JsonBuilder, part } from '../../core/json-builder.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { ENTRY_INTS, INPUT, KINDS, NAME, STRICT, TEXT, type UnparsedTools } from '../../core/unparsed.ts'

const NOTHING = part('')
const FIRST_TOOL = part('[{"name":"')
const NEXT_TOOL = part('},{"name":"')
const CLOSE = part('}]')
/** What precedes a member of a tool, by the kind of its entry. */
const MEMBERS: Readonly<Record<number, Uint8Array>> = {
  [TEXT]: part('","description":"'),
  [INPUT]: part('","input_schema":'),
  [STRICT]: part(',"strict":'),
}
/** Bytes around an entry. */
const AROUND_ENTRY = 24

/**
 * The list of tools, as a mark; undefined if a schema must be changed. Only for tools without cache marks.
 * `structured`: the model takes `strict`.
 */
export function unparsedToolBlocks(
  { from, to, entries, areObjects }: UnparsedTools,
  longTexts: LongTexts,
  structured: boolean,
): string | undefined {
  if (!areObjects) return undefined
  const json = new JsonBuilder(longTexts, to - from + AROUND_ENTRY * entries.length)
  for (let at = 0; at < entries.length; at += ENTRY_INTS) {
    const kind = (entries[at] ?? 0) & KINDS
    if (kind === STRICT && !structured) continue
    if (kind === NAME) json.part(at === 0 ? FIRST_TOOL : NEXT_TOOL)
    else json.part(MEMBERS[kind] ?? NOTHING)
    json.span(entries[at + 1] ?? 0, entries[at + 2] ?? 0)
  }
  json.part(CLOSE)
  return longTexts.markOfWritten(json.take())
}
