/** Reads the replies of scripts and checks them against the table of scripts. */

import type { Numbers } from './reply-readers.ts'
import { type OutcomeOf, type ScriptName, scripts } from './scripts.ts'

/** How many words follow an outcome before the numbers begin; 0 if not listed. */
const WORD_COUNTS: Readonly<Record<string, number>> = { refused: 2, entered: 1, parts: Infinity }

export interface Reply<Name extends ScriptName> {
  readonly outcome: OutcomeOf<Name>
  readonly words: readonly string[]
  readonly numbers: Numbers
}

/** A reply that the table of scripts does not list: another version of the scripts, or a bug. */
class ScriptReplyError extends Error {
  constructor(name: ScriptName, reply: unknown) {
    super(`Unexpected reply from script '${name}': ${JSON.stringify(reply)}.`)
    this.name = 'ScriptReplyError'
  }
}

const NO_WORDS: readonly string[] = []
const BLANK = ' '.charCodeAt(0)
const MINUS = '-'.charCodeAt(0)
const ZERO = '0'.charCodeAt(0)

/** The words of a reply. A list of one text holds all words, with spaces between them. Throws `ScriptReplyError`. */
function wordsOf(name: ScriptName, list: unknown): readonly unknown[] {
  if (!Array.isArray(list)) throw new ScriptReplyError(name, list)
  const [first]: unknown[] = list
  return list.length === 1 && typeof first === 'string' ? first.split(' ') : list
}

function outcomeOf<Name extends ScriptName>(name: Name, word: unknown): OutcomeOf<Name> {
  const outcomes: readonly OutcomeOf<Name>[] = scripts[name].outcomes
  // No callback: this runs for each outcome of a call.
  for (const outcome of outcomes) if (outcome === word) return outcome
  throw new ScriptReplyError(name, word)
}

/** A list of outcomes. Throws `ScriptReplyError`. */
export function readOutcomes<Name extends ScriptName>(name: Name, list: unknown): readonly OutcomeOf<Name>[] {
  return wordsOf(name, list).map((word) => outcomeOf(name, word))
}

/** An outcome for each line of a text, which is the reply or the only one of a list. Throws `ScriptReplyError`. */
export function readLines<Name extends ScriptName>(name: Name, list: unknown): readonly Reply<Name>[] {
  const text: unknown = Array.isArray(list) ? list[0] : list
  if (typeof text !== 'string') throw new ScriptReplyError(name, list)
  const replies: Reply<Name>[] = []
  for (let start = 0; start <= text.length; ) {
    const newline = text.indexOf('\n', start)
    const end = newline < 0 ? text.length : newline
    replies.push(readLine(name, text, start, end))
    start = end + 1
  }
  return replies
}

/**
 * Reads a line without splitting it: a line has a dozen numbers, and a string for each of them took 1 µs.
 * Throws `ScriptReplyError`.
 */
function readLine<Name extends ScriptName>(name: Name, text: string, start: number, end: number): Reply<Name> {
  let at = wordEnd(text, start, end)
  const outcome = outcomeOf(name, text.slice(start, at))
  let words = NO_WORDS
  const wordCount = WORD_COUNTS[outcome] ?? 0
  if (wordCount > 0) {
    words = text.slice(at + 1, end).split(' ', wordCount)
    for (const word of words) at += 1 + word.length
  }
  const numbers: number[] = []
  while (at < end) {
    const next = wordEnd(text, at + 1, end)
    const number = wholeNumber(text, at + 1, next)
    if (number === undefined) throw new ScriptReplyError(name, text.slice(start, end))
    numbers.push(number)
    at = next
  }
  return { outcome, words, numbers }
}

/** The place of the blank that ends a word, or `end`. */
function wordEnd(text: string, start: number, end: number): number {
  let at = start
  while (at < end && text.charCodeAt(at) !== BLANK) at++
  return at
}

/** An exact whole number in decimal digits, with or without a minus sign; undefined if the text is anything else. */
function wholeNumber(text: string, start: number, end: number): number | undefined {
  const isNegative = text.charCodeAt(start) === MINUS
  const first = isNegative ? start + 1 : start
  if (first === end) return undefined
  let value = 0
  for (let at = first; at < end; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return undefined
    value = 10 * value + digit
  }
  if (value > Number.MAX_SAFE_INTEGER) return undefined
  return isNegative ? -value : value
}

/** One outcome. Throws `ScriptReplyError`. */
export function readReply<Name extends ScriptName>(name: Name, list: unknown): Reply<Name> {
  const reply = wordsOf(name, list)
  const outcome = outcomeOf(name, reply[0])
  const end = 1 + (WORD_COUNTS[outcome] ?? 0)
  const words = end === 1 ? NO_WORDS : reply.slice(1, end).map(String)
  const numbers: number[] = []
  for (let i = end; i < reply.length; i++) {
    const number = Number(reply[i])
    if (!Number.isFinite(number)) throw new ScriptReplyError(name, reply)
    numbers.push(number)
  }
  return { outcome, words, numbers }
}
