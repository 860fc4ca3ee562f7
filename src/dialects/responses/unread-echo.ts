/**
 * The instructions and tools that an answer repeats, if the request's bytes of them were not parsed. A whole answer is
 * written as text with marks in their place, which the bytes then replace: decoding and encoding 20 KB of them took 8 %
 * of the time of a request of 200 KB.
 */

import type { BytePieces } from '../../core/byte-pieces.ts'
import { JsonBuilder, part } from '../../core/json-builder.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { ENTRY_INTS, INPUT, KINDS, NAME, STRICT, TEXT, type UnparsedTools } from '../../core/unparsed.ts'
import type { Echo } from './resource.ts'
import { functionsJson } from './unparsed-functions.ts'

/** Where the inside of the instructions is in the request: its first byte, and the byte after its last. */
type Span = readonly [from: number, to: number]

export class UnreadEcho {
  constructor(
    private readonly longTexts: LongTexts,
    /** Absent: they were parsed, or there are none. The same for the tools. */
    private readonly instructions: Span | undefined,
    private readonly tools: UnparsedTools | undefined,
  ) {}

  /** The echo with their text, for a stream: its events are text, and it outlives the request. */
  read(echo: Echo): Echo {
    const { instructions, longTexts, tools } = this
    return {
      ...echo,
      instructions: instructions === undefined ? echo.instructions : `"${longTexts.writtenAt(...instructions)}"`,
      tools: tools === undefined ? echo.tools : functionsJson(tools, longTexts),
    }
  }

  /** The echo with marks, for a whole answer that `fill` completes. */
  marked(echo: Echo): Echo {
    const { instructions, longTexts, tools } = this
    return {
      ...echo,
      instructions:
        instructions === undefined
          ? echo.instructions
          : JSON.stringify(longTexts.markOfValue(instructions[0] - 1, instructions[1] + 1)),
      tools: tools === undefined ? echo.tools : JSON.stringify(longTexts.markOfWritten(functions(tools, longTexts))),
    }
  }

  /** The UTF-8 of JSON with the bytes in place of the marks. */
  fill(json: string): Uint8Array {
    return this.longTexts.fill(json).joined()
  }
}

const OPEN_LIST = part('[')
const COMMA = part(',')
const OPEN = part('{"type":"function","name":"')
const DESCRIPTION = part('","description":"')
const NO_DESCRIPTION = part('","description":null')
const AFTER_DESCRIPTION = part('"')
const PARAMETERS = part(',"parameters":')
const STRICTNESS = part(',"strict":')
const NO_STRICTNESS = part(',"strict":null')
const CLOSE = part('}')
const CLOSE_LIST = part(']')
/** Bytes around an entry. */
const AROUND_ENTRY = 32

/** The tools as `functionsJson` writes them, in pieces. */
function functions({ from, to, entries }: UnparsedTools, longTexts: LongTexts): BytePieces {
  const json = new JsonBuilder(longTexts, to - from + AROUND_ENTRY * entries.length)
  const kindAt = (at: number) => (entries[at] ?? 0) & KINDS
  const span = (at: number) => json.span(entries[at + 1] ?? 0, entries[at + 2] ?? 0)
  json.part(OPEN_LIST)
  for (let at = 0; at < entries.length; at += ENTRY_INTS) {
    switch (kindAt(at)) {
      case NAME:
        if (at > 0) json.part(COMMA)
        json.part(OPEN)
        span(at)
        if (kindAt(at + ENTRY_INTS) !== TEXT) json.part(NO_DESCRIPTION)
        break
      case TEXT:
        json.part(DESCRIPTION)
        span(at)
        json.part(AFTER_DESCRIPTION)
        break
      case INPUT:
        json.part(PARAMETERS)
        span(at)
        if (kindAt(at + ENTRY_INTS) !== STRICT) {
          json.part(NO_STRICTNESS)
          json.part(CLOSE)
        }
        break
      case STRICT:
        json.part(STRICTNESS)
        span(at)
        json.part(CLOSE)
        break
    }
  }
  json.part(CLOSE_LIST)
  return json.take()
}
