/**
 * How a template is made from decoded frames, and proven: a new decoder is asked what it finds in frames with probes in
 * the holes.
 */

import type { StreamEvent } from '../core/event.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Usage } from '../core/token-usage.ts'
import { decodedText, encodedText } from './byte-text.ts'
import { shapeProblem } from './json-shape.ts'
import { type Figure, type Hole, Template } from './template.ts'

/** The events that a new decoder finds in one frame. */
export type Prove = (event: string, chunk: JsonObject) => readonly StreamEvent[]

/** A frame that was decoded to one text and, in some APIs, a usage. */
export interface TextFrame {
  readonly event: string
  /** Byte text. */
  readonly data: string
  /** The text as it most probably stands in the data: the inside of a JSON string, as byte text. */
  readonly inside: string
  readonly usage: Usage | undefined
}

/** What stands in the holes when a template is proven; no frame of a provider contains it. */
const PROBE = 'weir-probe'
/** What stands in the first counter. Each next one has four times as much, so that a sum shows its addends. */
const FIRST_COUNTER = 4 ** 6
/** More would be over 100 million, which is the most that is believed. */
const COUNTERS_MAX = 7

const FIGURES = ['input', 'cachedInput', 'cacheWrite5m', 'cacheWrite1h', 'output', 'reasoning'] as const

/** The strings and numbers of JSON text; the names of members, which are strings too, with their colon. */
const LEAVES = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d[\d.eE+-]*/g

/** The frame, if its events are one text and at most one usage; a `start` does not count. */
export function textFrame(event: string, data: string, events: readonly StreamEvent[]): TextFrame | undefined {
  let text: string | undefined
  let usage: Usage | undefined
  for (const each of events) {
    if (each.type === 'start') continue
    if (each.type === 'usage' && usage === undefined) usage = each.usage
    else if (each.type === 'text' && each.logprobs === undefined && text === undefined) text = each.text
    else return undefined
  }
  return text === undefined ? undefined : { event, data, inside: encodedText(JSON.stringify(text).slice(1, -1)), usage }
}

/** A template whose only hole is the text; undefined if the place of the text is ambiguous. It is not proven. */
export function templateOf({ event, data, inside }: TextFrame): Template | undefined {
  const quoted = `"${inside}"`
  let place = -1
  let at = data.indexOf(quoted)
  while (at !== -1) {
    const isFound = isValue(data, at)
    if (isFound && place !== -1) return undefined
    if (isFound) place = at
    at = data.indexOf(quoted, isFound ? at + quoted.length : at + 1)
  }
  if (place === -1) return undefined
  const end = place + quoted.length - 1
  return new Template(event, [ownCopy(data.slice(0, place + 1)), ownCopy(data.slice(end))], ['text'])
}

/** True for a quote that begins a value: the quotes around `,` in `"a","b"` do not. */
function isValue(data: string, quote: number): boolean {
  const before = data.charCodeAt(quote - 1)
  return before === 0x3a || before === 0x20 || before === 0x5b || before === 0x2c
}

export function isProven({ event, fixed }: Template, { usage }: TextFrame, prove: Prove): boolean {
  return provenTemplate(event, fixed, ['text'], [], usage, prove) !== undefined
}

/**
 * A template with holes for the text and for every other string and number that differs between two frames; undefined
 * if they differ in anything else, or if the template cannot be proven.
 */
export function templateOfBoth(before: TextFrame, frame: TextFrame, prove: Prove): Template | undefined {
  const earlier = leavesOf(before.data)
  const later = leavesOf(frame.data)
  if (earlier.length !== later.length) return undefined
  const fixed: string[] = []
  const holes: Hole[] = []
  const numbers: number[] = []
  let textAt = -1
  let done = 0
  let end = 0
  let earlierEnd = 0
  for (let at = 0; at < later.length; at++) {
    const was = earlier[at]
    const is = later[at]
    if (was === undefined || is === undefined || was.kind !== is.kind) return undefined
    if (frame.data.slice(end, is.from) !== before.data.slice(earlierEnd, was.from)) return undefined
    end = is.to
    earlierEnd = was.to
    const isText = textAt === -1 && is.kind === 'string' && was.text === before.inside && is.text === frame.inside
    if (!isText && was.text === is.text) continue
    if (isText) textAt = at
    fixed.push(ownCopy(frame.data.slice(done, is.from)))
    holes.push(isText ? 'text' : is.kind)
    if (is.kind === 'number') numbers.push(Number(is.text))
    done = is.to
  }
  if (textAt === -1 || frame.data.slice(end) !== before.data.slice(earlierEnd)) return undefined
  fixed.push(ownCopy(frame.data.slice(done)))
  return provenTemplate(frame.event, fixed, holes, numbers, frame.usage, prove)
}

interface Leaf {
  readonly kind: 'string' | 'number'
  /** Without quotes. */
  readonly text: string
  readonly from: number
  readonly to: number
}

function leavesOf(data: string): Leaf[] {
  const leaves: Leaf[] = []
  for (const { 0: found, 1: colon, index } of data.matchAll(LEAVES)) {
    if (colon !== undefined) continue
    const quote = found.startsWith('"') ? 1 : 0
    const from = index + quote
    const to = index + found.length - quote
    leaves.push({ kind: quote === 1 ? 'string' : 'number', text: data.slice(from, to), from, to })
  }
  return leaves
}

/**
 * The template if a new decoder reads none of its strings except the text, and if it reads numbers, only to add them to
 * the usage. `numbers` are those of the frame that had the usage `usage`.
 */
function provenTemplate(
  event: string,
  fixed: readonly string[],
  holes: readonly Hole[],
  numbers: readonly number[],
  usage: Usage | undefined,
  prove: Prove,
): Template | undefined {
  const probing = (scale: number) => {
    let number = 0
    const filled = fixed.map((piece, at) => {
      switch (holes[at]) {
        case undefined:
          return piece
        case 'text':
          return piece + PROBE
        case 'string':
          return `${piece}${PROBE}-${at}`
        default:
          return piece + scale * 4 ** number++
      }
    })
    return probe(event, filled.join(''), prove)
  }
  const coded = probing(FIRST_COUNTER)
  if (coded === undefined || numbers.length > COUNTERS_MAX) return undefined
  if (holes.some((hole, at) => hole === 'string' && coded.read.has(`${PROBE}-${at}`))) return undefined
  const counters = numbers
    .map((value, at) => ({ value, code: FIRST_COUNTER * 4 ** at }))
    .filter(({ code }) => coded.read.has(code))
  if (counters.length === 0) {
    return Bun.deepEquals(coded.usage, usage) ? new Template(event, fixed, holes) : undefined
  }
  const zero = probing(0)
  const figures = zero && figuresOf({ zero: zero.usage, coded: coded.usage, actual: usage }, counters)
  if (figures === undefined) return undefined
  let number = 0
  const kinds = holes.map((hole): Hole => {
    return hole === 'number' && coded.read.has(FIRST_COUNTER * 4 ** number++) ? 'counter' : hole
  })
  return new Template(event, fixed, kinds, figures)
}

interface Counter {
  readonly value: number
  /** What stood in its place in the coded probe. */
  readonly code: number
}

/** The usage with all counters at 0, with their codes, and of the frame itself. */
interface Usages {
  readonly zero: Usage | undefined
  readonly coded: Usage | undefined
  readonly actual: Usage | undefined
}

/** How each figure follows from the counters; undefined if one is not a sum of some of them and a constant. */
function figuresOf({ zero, coded, actual }: Usages, counters: readonly Counter[]): Figure[] | undefined {
  if (zero === undefined || coded === undefined || actual === undefined) return undefined
  const figures: Figure[] = []
  for (const name of FIGURES) {
    const constant = zero[name]
    const [sum, value] = [coded[name], actual[name]]
    if (constant === undefined && sum === undefined && value === undefined) continue
    if (constant === undefined || sum === undefined || value === undefined) return undefined
    const addends = counters.flatMap(({ code }, at) => (Math.floor((sum - constant) / code) % 4 === 1 ? [at] : []))
    const total = (of: (counter: Counter) => number) =>
      addends.reduce((all, at) => all + (counters[at] === undefined ? 0 : of(counters[at])), constant)
    if (total(({ code }) => code) !== sum || total((counter) => counter.value) !== value) return undefined
    figures.push({ name, constant, addends })
  }
  return figures
}

interface Probed {
  readonly usage: Usage | undefined
  /** The strings and numbers of the frame that the decoder read. */
  readonly read: ReadonlySet<unknown>
}

/** Undefined if the decoder does not find the probe, and nothing else, as the text. */
function probe(event: string, data: string, prove: Prove): Probed | undefined {
  const json = decodedText(data)
  // Short frames are not checked when they are decoded, but a later frame of this form may be long.
  if (shapeProblem(json) !== undefined) return undefined
  const read = new Set<unknown>()
  try {
    const chunk: unknown = JSON.parse(json)
    if (!isObject(chunk)) return undefined
    const frame = textFrame(event, data, prove(event, observed(chunk, read)))
    return frame?.inside === PROBE ? { usage: frame.usage, read } : undefined
  } catch (error) {
    // The decoder, or the parser, rejects what stands in a hole: it is not one.
    if (error instanceof ProviderError || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** The same object; the strings and numbers that are read from it are noted. */
function observed<T extends object>(value: T, read: Set<unknown>): T {
  return new Proxy(value, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member === 'object' && member !== null) return observed(member, read)
      read.add(member)
      return member
    },
  })
}

/** A copy without the chunk that it was cut from, which would stay in memory as long as the stream. */
function ownCopy(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('latin1')
}
