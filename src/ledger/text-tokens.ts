/**
 * Counts the tokens of a text without a tokenizer: each vendor has its own, and an exact one costs 30 to 100 ns for
 * each character. The weights were fitted to o200k_base on prose, code, JSON, logs and a dozen scripts (within 15 % on
 * the first four), and then raised for text that nobody writes, such as random letters, which has many times as many
 * tokens as words of that length.
 */

const OTHER = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
const SPACE = 4
const INDENT = 5
const LINE = 6
const ACCENTED = 7
const GREEK_CYRILLIC = 8
const MIDDLE = 9
const SYMBOL = 10
const WIDE = 11
const RARE = 12
const RAREST = 13
const CLASSES = 14

/** Ranges of code units of one class: each ends before the next begins. */
const STRETCHES: readonly (readonly [from: number, kind: number])[] = [
  // Control characters are a token each.
  [0x00, SYMBOL],
  [0x20, OTHER],
  [0x7f, SYMBOL],
  [0x80, ACCENTED],
  // Phonetic letters and combining marks.
  [0x250, RARE],
  [0x370, GREEK_CYRILLIC],
  [0x480, RARE],
  // Armenian, Hebrew, Arabic.
  [0x530, MIDDLE],
  [0x700, RAREST],
  // The scripts of India, Thai.
  [0x900, MIDDLE],
  [0xe80, RARE],
  // Burmese, Georgian.
  [0x1000, MIDDLE],
  [0x1100, RAREST],
  // Ethiopic.
  [0x1200, RARE],
  [0x1380, RAREST],
  // Khmer.
  [0x1780, MIDDLE],
  [0x1800, RAREST],
  // Vietnamese.
  [0x1e00, MIDDLE],
  [0x1f00, RARE],
  [0x2000, SYMBOL],
  [0x2e80, RARE],
  [0x3000, WIDE],
  [0x3180, RARE],
  [0x4e00, WIDE],
  [0xa000, RAREST],
  // Hangul, and the halves of what is beyond 16 bits, emoji among them.
  [0xac00, WIDE],
  [0xe000, RAREST],
  [0xff00, WIDE],
]

const KIND = kinds()

function kinds(): Uint8Array {
  const table = new Uint8Array(0x10000)
  for (const [from, kind] of STRETCHES) table.fill(kind, from)
  table.fill(LOWER, 97, 123)
  table.fill(UPPER, 65, 91)
  table.fill(DIGIT, 48, 58)
  for (const code of [9, 32]) table[code] = SPACE
  for (const code of [10, 13]) table[code] = LINE
  return table
}

/** Tokens for a character of one class (second) after a character of another (first). */
const COST = costs()

function costs(): Float64Array {
  const begins = [0.75, 0.84, 0.95, 0.95, 0, 1, 0.55, 0.6, 0.5, 0.6, 1.1, 1, 1.4, 2]
  const goesOn = [0.3, 0, 0.4, 0.32, 0, 0, 0, 0.6, 0.5, 0.6, 1.1, 1, 1.4, 2]
  const table = new Float64Array(CLASSES * CLASSES)
  for (let first = 0; first < CLASSES; first++) {
    for (let second = 0; second < CLASSES; second++) {
      table[first * CLASSES + second] = (first === second ? goesOn : begins)[second] ?? 0
    }
  }
  table[UPPER * CLASSES + LOWER] = 0.05
  table[SPACE * CLASSES + DIGIT] = 1.95
  return table
}

/**
 * Tokens for a lower-case letter within a word. Words of any language have few of the rare letters, random text has
 * many.
 */
const LETTER = letters()

function letters(): Float64Array {
  const table = new Float64Array(128)
  for (const letter of 'etaoinshrdlucm') table[letter.charCodeAt(0)] = 0.03
  for (const letter of 'fgypbvkw') table[letter.charCodeAt(0)] = 0.06
  for (const letter of 'jxqz') table[letter.charCodeAt(0)] = 0.3
  return table
}

const VOWEL = Uint8Array.from({ length: 128 }, (_, code) => ('aeiouy'.includes(String.fromCharCode(code)) ? 1 : 0))
/**
 * The most vowels and consonants in a row within a word, and letters of a word; each letter beyond adds to the tokens.
 */
const ALIKE_MAX = [4, 3] as const
const WORD_MAX = 9
const BEYOND_WORDS = 0.3
/** A letter that repeats the one before: a run of one letter is few tokens, however long. */
const SAME_LETTER = 0.18
/** A blank of another kind than the one before, or a line end: vendors' tokens are runs of one kind. */
const OTHER_BLANK = 0.5

/** No character of a text that is all read adds more. */
export const TOKENS_A_CHARACTER_MAX = Math.max(...COST) + OTHER_BLANK

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

/** What is read next, as UTF-16; a piece of escaped text ends with a whole character. */
const UNITS_MAX = 512
const units = new Uint16Array(UNITS_MAX + 4)

const BACKSLASH = 0x5c
const LETTER_U = 0x75
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
  /** Class and code of the last character; length of its word, and how many vowels or consonants in a row end it. */
  private last = SPACE
  private code = 32
  private word = 0
  private alike = 0
  private readonly readWhole: number
  private readonly sparseFrom: number

  /** `expected`: how many characters will be added, if that is known. */
  constructor(expected = 0) {
    this.readWhole = expected < LONG ? READ_WHOLE : READ_OF_LONG
    this.sparseFrom = expected < LONG ? SPARSE_FROM : SPARSE_FROM_OF_LONG
  }

  /** So far, not rounded. */
  get tokens(): number {
    return this.read + (this.sampled + this.sparse * SPARSE) * BLOCKS_A_WINDOW
  }

  /** Begins another text: the last word of the one before has ended. */
  begin(): void {
    this.last = SPACE
    this.code = 32
  }

  add(piece: string): void {
    this.addFrom(piece, 0, piece.length)
  }

  /**
   * Adds the inside of a JSON string, in UTF-8 and with its escapes. Positions and blocks are then those of its bytes,
   * so that its estimate differs from that of the same text in the choice of the windows, not in the weights.
   */
  addEscaped(bytes: Uint8Array, from: number, to: number): void {
    this.addFrom(bytes, from, to)
  }

  private addFrom(source: string | Uint8Array, from: number, to: number): void {
    const whole = Math.min(to - from, Math.max(0, this.readWhole - this.position))
    if (whole > 0) this.read = this.scanAll(source, from, from + whole, this.read)
    const start = this.position - from
    this.position += to - from
    if (whole < to - from) this.sample(source, start, from + whole, to)
  }

  /** Reads the windows within a piece. `start` is the position, in the text, of index 0 of the source. */
  private sample(source: string | Uint8Array, start: number, from: number, to: number): void {
    const end = start + to
    for (let block = Math.floor((start + from) / BLOCK); block * BLOCK < end; block++) {
      const isSparse = block * BLOCK >= this.sparseFrom
      if (isSparse) {
        const chosen = chosenOf(block)
        if (chosen < block) {
          block |= SPARSE - 1
          continue
        }
        block = chosen
      }
      const opens = block * BLOCK + offsetIn(block)
      if (opens >= start + from && opens < end) this.inMidWord()
      const first = Math.max(opens - start, from)
      const last = Math.min(opens + WINDOW - start, to)
      if (first >= last) continue
      if (isSparse) this.sparse = this.scanAll(source, first, last, this.sparse)
      else this.sampled = this.scanAll(source, first, last, this.sampled)
    }
  }

  /** The text before a window is not known; most likely the window begins within a word. */
  private inMidWord(): void {
    this.last = LOWER
    this.code = 101
    this.word = 4
    this.alike = 1
  }

  private scanAll(source: string | Uint8Array, from: number, to: number, sum: number): number {
    let tokens = sum
    for (let at = from; at < to; at += UNITS_MAX) {
      const end = Math.min(to, at + UNITS_MAX)
      tokens = this.scan(typeof source === 'string' ? takeText(source, at, end) : takeEscaped(source, at, end), tokens)
    }
    return tokens
  }

  /** Adds to `sum` character by character: sums of pieces would be rounded in another way for other pieces. */
  private scan(count: number, sum: number): number {
    let { last, code: before, word, alike } = this
    let tokens = sum
    for (let at = 0; at < count; at++) {
      const code = units[at] ?? 0
      let kind = KIND[code] ?? OTHER
      if (kind === LOWER) {
        if (code === before) {
          tokens += SAME_LETTER
        } else if (last === LOWER) {
          alike = VOWEL[code] === VOWEL[before] ? alike + 1 : 1
          tokens += LETTER[code] ?? 0
          if (++word > WORD_MAX || alike > (ALIKE_MAX[VOWEL[code] ?? 0] ?? 0)) tokens += BEYOND_WORDS
        } else {
          word = 1
          alike = 1
          tokens += COST[last * CLASSES + LOWER] ?? 0
        }
      } else {
        if (kind === SPACE && (last === SPACE || last === INDENT)) kind = INDENT
        if (code !== before && kind === INDENT) tokens += OTHER_BLANK
        if (code === 13 && before === 10) tokens += OTHER_BLANK
        tokens += COST[last * CLASSES + kind] ?? 0
      }
      last = kind
      before = code
    }
    this.last = last
    this.code = before
    this.word = word
    this.alike = alike
    return tokens
  }
}

function takeText(text: string, from: number, to: number): number {
  for (let at = from; at < to; at++) units[at - from] = text.charCodeAt(at)
  return to - from
}

/**
 * Decodes the characters that begin between `from` and `to`. A window may begin within a character, which then counts
 * with the window before it, or within an escape, of which the rest is read as letters.
 */
function takeEscaped(bytes: Uint8Array, from: number, to: number): number {
  let count = 0
  for (let at = from; at < to; ) {
    const byte = bytes[at] ?? 0
    if (byte === BACKSLASH) {
      const escaped = bytes[at + 1] ?? 0
      units[count++] = escaped === LETTER_U ? hexOf(bytes, at + 2) : (ESCAPED[escaped] ?? 0)
      at += escaped === LETTER_U ? 6 : 2
    } else if (byte < 0x80) {
      units[count++] = byte
      at++
    } else if (byte < 0xc0) {
      at++
    } else if (byte < 0xe0) {
      units[count++] = ((byte & 0x1f) << 6) | tail(bytes, at + 1)
      at += 2
    } else if (byte < 0xf0) {
      units[count++] = ((byte & 0x0f) << 12) | (tail(bytes, at + 1) << 6) | tail(bytes, at + 2)
      at += 3
    } else {
      // Both halves of a pair are in one class.
      units[count++] = 0xd83d
      units[count++] = 0xdc00 | (tail(bytes, at + 2) << 6) | tail(bytes, at + 3)
      at += 4
    }
  }
  return count
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

/** The block, of the eight that this one belongs to, that has a window. */
function chosenOf(block: number): number {
  const group = Math.floor(block / SPARSE)
  return group * SPARSE + (hashOf(~group) % SPARSE)
}

function hashOf(block: number): number {
  let hash = Math.imul(block ^ SECRET, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
