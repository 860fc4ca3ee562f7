/**
 * The thoughts of a model as OpenRouter has them: a list of parts, which it wants back as it sent them. In a stream,
 * pieces of a part follow each other with its type and index.
 */

import type { StreamEvent } from '../../core/event.ts'
import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'

export const DETAILS_FIELD = 'reasoning_details'

/** Members that come in pieces; a later value of any other replaces the one before. */
const IN_PIECES: ReadonlySet<string> = new Set(['text', 'summary', 'data'])
/** Longer thoughts are not kept. */
const CHARS_MAX = 1024 * 1024

export class ReasoningDetails {
  private readonly parts: Record<string, JsonValue | undefined>[] = []
  private chars = 0

  /** The details of one chunk, or of a whole answer. */
  add(details: readonly JsonValue[]): void {
    const open = this.parts.at(-1)
    for (const [at, detail] of details.entries()) {
      if (!isObject(detail)) continue
      this.chars += JSON.stringify(detail).length
      if (this.chars > CHARS_MAX) return
      if (at === 0 && open !== undefined && isSamePart(open, detail)) extend(open, detail)
      else this.parts.push({ ...detail })
    }
  }

  end(events: StreamEvent[]): void {
    if (this.parts.length === 0 || this.chars > CHARS_MAX) return
    events.push({ type: 'thought', json: JSON.stringify({ [DETAILS_FIELD]: this.parts }), on: 'answer' })
  }
}

function isSamePart(open: JsonObject, { type, index }: JsonObject): boolean {
  return index !== undefined && open['index'] === index && open['type'] === type
}

function extend(open: Record<string, JsonValue | undefined>, piece: JsonObject): void {
  for (const [name, value] of Object.entries(piece)) {
    const before = open[name]
    if (IN_PIECES.has(name) && typeof before === 'string' && typeof value === 'string') open[name] = before + value
    else if (value !== null || before === undefined) open[name] = value
  }
}
