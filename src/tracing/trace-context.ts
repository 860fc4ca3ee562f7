/** W3C Trace Context: reads and writes `traceparent` and `tracestate`, and makes ids. */

/** The trace that a request belongs to, as its caller sent it. */
export interface TraceContext {
  /** 32 lower-case hexadecimal digits, not all of them 0. */
  readonly traceId: string
  /** The caller's span: 16 lower-case hexadecimal digits, not all of them 0. */
  readonly parentId: string
  /** The bits that this version of the standard knows. */
  readonly flags: number
}

export const SAMPLED = 0b01
/** The trace id is random. Level 2 of the standard: each service passes this flag on. */
const RANDOM = 0b10

/** A later version may have more fields, after another dash. Version 00 has no others, and ff is invalid. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/
const LENGTH = '00-'.length + 32 + '-'.length + 16 + '-00'.length
const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)

/**
 * Undefined if the value is malformed: the standard then treats the request as one without a caller's trace. Nearly
 * every request of a traced caller has the header, sampled or not; groups in the expression would double its time.
 */
export function parseTraceparent(value: string): TraceContext | undefined {
  if (!TRACEPARENT.test(value) || (value.length > LENGTH && value.startsWith('00'))) return undefined
  const traceId = value.slice(3, 35)
  const parentId = value.slice(36, 52)
  if (traceId === NO_TRACE || parentId === NO_SPAN) return undefined
  return { traceId, parentId, flags: Number.parseInt(value.slice(53, LENGTH), 16) & (SAMPLED | RANDOM) }
}

export function traceparent(traceId: string, spanId: string, flags: number): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`
}

/** What the standard asks everyone to pass on; a longer list is dropped as a whole. */
const TRACESTATE_CHARS_MAX = 512
const TRACESTATE_MEMBERS_MAX = 32

/** `key=value`, as lenient as the standard allows: characters and lengths are checked, duplicates are not. */
const MEMBER = /^[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/

/** The list of a `tracestate` header; undefined if it is empty, malformed or too long, and must not be passed on. */
export function parseTracestate(value: string | null): string | undefined {
  if (value === null || value.length > TRACESTATE_CHARS_MAX) return undefined
  const members = value.split(',').map((member) => member.trim())
  const given = members.filter((member) => member !== '')
  if (given.length === 0 || given.length > TRACESTATE_MEMBERS_MAX) return undefined
  return given.every((member) => MEMBER.test(member)) ? given.join(',') : undefined
}

const TRACE_ID_BYTES = 16
const SPAN_ID_BYTES = 8

export function newTraceId(): string {
  return randomHex(TRACE_ID_BYTES)
}

export function newSpanId(): string {
  return randomHex(SPAN_ID_BYTES)
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes))
  // An id of zeros is invalid.
  if (random.every((byte) => byte === 0)) random[0] = 1
  return random.toHex()
}
