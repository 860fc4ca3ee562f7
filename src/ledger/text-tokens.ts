/**
 * Counts the tokens of a text without a tokenizer: each vendor has its own, and an exact one costs 30 to 100 ns for
 * each character.
 */

import {
  BEGINNING,
  CLASS_OF,
  FIRST_LETTER,
  NEXT_STATE,
  PAIR,
  SAME_LETTER,
  STEP_TOKENS,
  WITHIN_WORD,
} from './token-weights.ts'

/**
 * Characters that are all read; beyond them one window of each block stands for the block. Reading costs 1 ns a
 * character, as much as a pass-through server spends on a byte of the whole request.
 */
const READ_WHOLE = 16 * 1024
/**
 * The same for a text that is known to be long: nearly all of its estimate comes from samples anyway, and reading
 * 16 KiB took an eighth of the time to convert 200 KB.
 */
const READ_OF_LONG = 1024
const LONG = 64 * 1024
const BLOCK = 512
const WINDOW = 32
const BLOCKS_A_WINDOW = BLOCK / WINDOW
/**
 * From this position on one block of eight has a window, which stands for all of them. A text that is known to be long
 * has few windows before, too: 62 a request of 200 KB instead of 400, which took a third of the time to convert it.
 */
const SPARSE_FROM = 64 * 1024
const SPARSE_FROM_OF_LONG = 8 * 1024
const SPARSE = 8
/**
 * Decides the place of each window in its block, so that the author of a text cannot know it; constant within this
 * process.
 */
const SECRET = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0

const BACKSLASH = 0x5c
const LETTER_U = 0x75
const LETTER_E = 0x65
/** No character. */
const NONE = -1
/** The character of each short escape in JSON. */
const ESCAPED = Uint8Array.from({ length: 256 }, (_, code) => code)
for (const [name, code] of Object.entries({ b: 8, f: 12, n: 10, r: 13, t: 9 })) ESCAPED[name.charCodeAt(0)] = code

/** Counts the tokens of text that comes in pieces. The result does not depend on how the text is cut. */
export class TextTokens {
  private read = 0
  private sampled = 0
  private sparse = 0
  /** Characters so far. */
  private position = 0
  /** In the table of steps. */
  private state = BEGINNING
  /** The last character, if it was a letter. */
  private letter = NONE
  /** The window that is read next, or being read. */
  private windowBlock = 0
  private windowFrom = 0
  private isSparse = false
  private readonly readWhole: number
  private readonly sparseFrom: number

  /** `expected`: how many characters will be added, if that is known. */
  constructor(expected = 0) {
    this.readWhole = expected < LONG ? READ_WHOLE : READ_OF_LONG
    this.sparseFrom = expected < LONG ? SPARSE_FROM : SPARSE_FROM_OF_LONG
    this.windowAt(this.readWhole / BLOCK)
  }

  /** So far, not rounded. */
  get tokens(): number {
    return this.read + (this.sampled + this.sparse * SPARSE) * BLOCKS_A_WINDOW
  }

  /** Begins another text: the last word of the one before has ended. */
  begin(): void {
    this.state = BEGINNING
    this.letter = NONE
  }

  /** Adds a text of which no character would be read. False if one would be: then it is not added. */
  pass(length: number): boolean {
    const end = this.position + length
    if (this.position < this.readWhole || this.windowFrom < end) return false
    this.position = end
    return true
  }

  /**
   * Adds a piece of text, or a part of the inside of a JSON string, in UTF-8 and with its escapes. Positions and
   * blocks are then those of its bytes, so that its estimate differs from that of the same text in the choice of the
   * windows, not in the weights.
   */
  add(source: string | Uint8Array, from = 0, to: number = source.length): void {
    const start = this.position - from
    const end = this.position + to - from
    if (this.position < this.readWhole)
      this.read = this.scan(source, from, Math.min(to, this.readWhole - start), this.read)
    this.position = end
    // Most texts of a long request have no window.
    while (this.windowFrom < end) {
      if (this.windowFrom >= start + from) this.inMidWord()
      const first = Math.max(this.windowFrom - start, from)
      const windowTo = this.windowFrom + WINDOW
      const last = Math.min(windowTo - start, to)
      if (this.isSparse) this.sparse = this.scan(source, first, last, this.sparse)
      else this.sampled = this.scan(source, first, last, this.sampled)
      if (windowTo > end) break
      this.windowAt(this.windowBlock + 1)
    }
  }

  /** The next window is that of this block, or of the next one that has one. */
  private windowAt(block: number): void {
    this.isSparse = block * BLOCK >= this.sparseFrom
    this.windowBlock = this.isSparse ? chosenFrom(block) : block
    this.windowFrom = this.windowBlock * BLOCK + offsetIn(this.windowBlock)
  }

  /** The text before a window is not known; most likely the window begins within a word. */
  private inMidWord(): void {
    this.state = WITHIN_WORD
    this.letter = LETTER_E
  }

  private scan(source: string | Uint8Array, from: number, to: number, sum: number): number {
    return typeof source === 'string' ? this.scanText(source, from, to, sum) : this.scanEscaped(source, from, to, sum)
  }

  /** Adds to `sum` character by character: sums of pieces would be rounded in another way for other pieces. */
  private scanText(text: string, from: number, to: number, sum: number): number {
    let { state, letter } = this
    let tokens = sum
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at)
      if (code === letter) {
        tokens += SAME_LETTER
        continue
      }
      const kind = CLASS_OF[code] ?? 0
      tokens += STEP_TOKENS[state + kind] ?? 0
      state = NEXT_STATE[state + kind] ?? 0
      letter = kind < FIRST_LETTER ? NONE : code
    }
    this.state = state
    this.letter = letter
    return tokens
  }

  /**
   * The same for the characters that begin between `from` and `to`. A window may begin within a character, which then
   * counts with the window before it, or within an escape, of which the rest is read as letters.
   */
  private scanEscaped(bytes: Uint8Array, from: number, to: number, sum: number): number {
    let { state, letter } = this
    let tokens = sum
    for (let at = from; at < to; ) {
      let code = bytes[at] ?? 0
      let kind = CLASS_OF[code] ?? 0
      if (code === BACKSLASH) {
        const escaped = bytes[at + 1] ?? 0
        code = escaped === LETTER_U ? hexOf(bytes, at + 2) : (ESCAPED[escaped] ?? 0)
        kind = CLASS_OF[code] ?? 0
        at += escaped === LETTER_U ? 6 : 2
      } else if (code < 0x80) {
        at++
      } else {
        const length = lengthOf(code)
        if (length > 1) kind = length === 4 ? PAIR : (CLASS_OF[characterAt(bytes, at, length)] ?? 0)
        at += length
        if (length === 1) continue
      }
      if (code === letter) {
        tokens += SAME_LETTER
        continue
      }
      tokens += STEP_TOKENS[state + kind] ?? 0
      state = NEXT_STATE[state + kind] ?? 0
      letter = kind < FIRST_LETTER ? NONE : code
    }
    this.state = state
    this.letter = letter
    return tokens
  }
}

/** The bytes of the character that begins with this one; 1 for a byte within a character. */
function lengthOf(lead: number): number {
  if (lead < 0xc0) return 1
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4
}

/** A character of 2 or 3 bytes. */
function characterAt(bytes: Uint8Array, at: number, length: number): number {
  const lead = bytes[at] ?? 0
  if (length === 2) return ((lead & 0x1f) << 6) | tail(bytes, at + 1)
  return ((lead & 0x0f) << 12) | (tail(bytes, at + 1) << 6) | tail(bytes, at + 2)
}

function tail(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) & 0x3f
}

/** The number of four hexadecimal digits. */
function hexOf(bytes: Uint8Array, from: number): number {
  let code = 0
  for (let at = from; at < from + 4; at++) {
    const digit = bytes[at] ?? 0
    code = code * 16 + (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57)
  }
  return code
}

const SAMPLES = 64
const SAMPLE = 64

/** The beginning of a text, and windows over all of it: the beginning may differ from what follows. */
export function sampleOf(text: string): string {
  if (text.length <= SAMPLES * SAMPLE) return text
  const share = text.length / SAMPLES
  const windows = Array.from({ length: SAMPLES }, (_, window) => {
    const from = Math.floor(window * share + (offsetIn(window) / BLOCK) * (share - SAMPLE))
    return text.slice(from, from + SAMPLE)
  })
  return text.slice(0, SAMPLE) + windows.slice(1).join('')
}

/** The position of a block's window within the block. */
function offsetIn(block: number): number {
  return hashOf(block) % (BLOCK - WINDOW + 1)
}

/** One block in eight has a window: returns the first such block that is not before this one. */
function chosenFrom(block: number): number {
  const group = Math.floor(block / SPARSE)
  const chosen = group * SPARSE + (hashOf(~group) % SPARSE)
  return chosen < block ? chosenFrom((group + 1) * SPARSE) : chosen
}

function hashOf(block: number): number {
  let hash = Math.imul(block ^ SECRET, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
