/**
 * How a template is made from a decoded frame, and proven: a new decoder is asked what it finds in frames with probes
 * in the holes.
 */

import type { StreamEvent } from '../core/event.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Usage } from '../core/token-usage.ts'
import { decodedText, encodedText, ownCopy } from './byte-text.ts'
import { shapeProblem } from './json-shape.ts'
import { type Figure, type Hole, Template, type TextKind } from './template.ts'

/** The events that a new decoder finds in one frame. */
export type Prove = (event: string, chunk: JsonObject) => readonly StreamEvent[]

/** A frame that was decoded to one text, of the answer or of a thought, and, in some APIs, a usage. */
export interface TextFrame {
  readonly kind: TextKind
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
/** What stands in numbers that were not read; no frame of a provider contains it. */
const UNREAD = 77_007_700_777
/** Strings and numbers of a frame: each costs a decoding to prove. */
const LEAVES_MAX = 64

const FIGURES = ['input', 'cachedInput', 'cacheWrite5m', 'cacheWrite1h', 'output', 'reasoning'] as const

/** The strings and numbers of JSON text; the names of members, which are strings too, with their colon. */
const LEAVES = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|-?\d[\d.eE+-]*/g

/** The frame, if its events are one text and at most one usage; a `start` does not count. */
export function textFrame(event: string, data: string, events: readonly StreamEvent[]): TextFrame | undefined {
  let found: { readonly type: TextKind; readonly text: string } | undefined
  let usage: Usage | undefined
  for (const each of events) {
    if (each.type === 'start') continue
    if (each.type === 'usage' && usage === undefined) usage = each.usage
    else if (isLoneText(each) && found === undefined) found = each
    else return undefined
  }
  if (found === undefined) return undefined
  const { type: kind, text } = found
  return { kind, event, data, inside: encodedText(JSON.stringify(text).slice(1, -1)), usage }
}

/** A text with nothing beside it that the caller gets. */
function isLoneText(event: StreamEvent): event is Extract<StreamEvent, { type: TextKind }> {
  if (event.type === 'text') return event.logprobs === undefined
  return event.type === 'reasoning' && event.isNewPart === undefined
}

/**
 * The template of every frame that differs from this one only in the text, in strings and numbers that the decoder does
 * not read, and in counters; undefined if the text cannot be found, or if the template cannot be proven. Takes 30 to
 * 100 µs.
 */
export function learnedTemplate(frame: TextFrame, prove: Prove): Template | undefined {
  const { data, inside, usage } = frame
  const leaves = leavesOf(data)
  if (leaves.length > LEAVES_MAX) return undefined
  const trial = (fills: ReadonlyMap<number, string>) => {
    let json = ''
    let done = 0
    for (const [at, { from, to }] of leaves.entries()) {
      const fill = fills.get(at)
      if (fill === undefined) continue
      json += data.slice(done, from) + fill
      done = to
    }
    return probe(frame, json + data.slice(done), prove)
  }
  const textAt = leaves.findIndex(({ kind, text }, at) => {
    return kind === 'string' && text === inside && trial(new Map([[at, PROBE]])) !== undefined
  })
  if (textAt === -1) return undefined
  const kinds = leaves.map(({ kind }, at): Hole | undefined => {
    if (at === textAt) return 'text'
    const fill = kind === 'string' ? `${PROBE}-1` : FIRST_COUNTER
    const probed = trial(
      new Map([
        [textAt, PROBE],
        [at, String(fill)],
      ]),
    )
    if (probed === undefined) return undefined
    if (!probed.read.has(fill)) return kind
    // Without a usage it is something else, such as the number of a block, and stays as it is.
    return kind === 'number' && usage !== undefined ? 'counter' : undefined
  })
  const fixed: string[] = []
  const holes: Hole[] = []
  const counts: number[] = []
  let done = 0
  for (const [at, { text, from, to }] of leaves.entries()) {
    const hole = kinds[at]
    if (hole === undefined) continue
    fixed.push(ownCopy(data.slice(done, from)))
    holes.push(hole)
    if (hole === 'counter') counts.push(Number(text))
    done = to
  }
  fixed.push(ownCopy(data.slice(done)))
  return provenTemplate(frame, fixed, holes, counts, prove)
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
 * The template if a new decoder, with probes in all holes at once, reads no string and number that is not a counter,
 * and adds counters to the usage. `counts` are the counters of the frame that had its usage.
 */
function provenTemplate(
  proven: TextFrame,
  fixed: readonly string[],
  holes: readonly Hole[],
  counts: readonly number[],
  prove: Prove,
): Template | undefined {
  const { kind, event, usage } = proven
  if (counts.length > COUNTERS_MAX) return undefined
  const probing = (scale: number) => {
    let counter = 0
    const filled = fixed.map((piece, at) => {
      switch (holes[at]) {
        case 'text':
          return piece + PROBE
        case 'string':
          return `${piece}${PROBE}-${at}`
        case 'number':
          return piece + UNREAD
        case 'counter':
          return piece + scale * 4 ** counter++
        default:
          return piece
      }
    })
    return probe(proven, filled.join(''), prove)
  }
  const coded = probing(FIRST_COUNTER)
  if (coded === undefined || coded.read.has(UNREAD)) return undefined
  if (holes.some((hole, at) => hole === 'string' && coded.read.has(`${PROBE}-${at}`))) return undefined
  if (counts.length === 0)
    return Bun.deepEquals(coded.usage, usage) ? new Template(event, fixed, holes, [], kind) : undefined
  const zero = probing(0)
  const counters = counts.map((value, at) => ({ value, code: FIRST_COUNTER * 4 ** at }))
  const figures = zero && figuresOf({ zero: zero.usage, coded: coded.usage, actual: usage }, counters)
  return figures && new Template(event, fixed, holes, figures, kind)
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
function probe({ event, kind }: TextFrame, data: string, prove: Prove): Probed | undefined {
  const json = decodedText(data)
  // Short frames are not checked when they are decoded, but a later frame of this form may be long.
  if (shapeProblem(json) !== undefined) return undefined
  const read = new Set<unknown>()
  try {
    const chunk: unknown = JSON.parse(json)
    if (!isObject(chunk)) return undefined
    const frame = textFrame(event, data, prove(event, observed(chunk, read)))
    return frame?.kind === kind && frame.inside === PROBE ? { usage: frame.usage, read } : undefined
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
