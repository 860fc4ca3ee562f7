/** Canonical values → the bytes of a server-sent event stream, as text. Knows JSON and SSE, knows no model. */

import type { JsonValue } from '../core/json.ts'

/**
 * Line breaks of Unicode that JSON leaves raw. Python's `str.splitlines()`, and so httpx's `iter_lines`, breaks an SSE line at them, so
 * they go out as escapes (wire.md A0).
 */
const LINE_BREAKS = /[\u0085\u2028\u2029]/g
const HAS_LINE_BREAK = /[\u0085\u2028\u2029]/

/** JSON text of a value that is safe on one line of SSE for every client. Lone surrogates come out as escapes. */
export function jsonLine(value: JsonValue | object): string {
  const json = JSON.stringify(value)
  return HAS_LINE_BREAK.test(json) ? json.replace(LINE_BREAKS, escapeUnit) : json
}

/** The inside of the JSON string of a text: `jsonLine(text)` without its quotes. */
export function jsonInside(text: string): string {
  return jsonLine(text).slice(1, -1)
}

/** One whole event with a name: its `event:` line, its `data:` line and the blank line. */
export function namedEvent(name: string, data: JsonValue | object): string {
  return `event: ${name}\ndata: ${jsonLine(data)}\n\n`
}

/** One whole event without a name. */
export function dataEvent(data: JsonValue | object): string {
  return `data: ${jsonLine(data)}\n\n`
}

/** A comment: safe for every client while there is nothing to say (wire.md 0.4). */
export const KEEP_ALIVE_COMMENT = ': keep-alive\n\n'

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
