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

/** Characters of a text that are all read; beyond them one window of each block stands for the block. */
const READ_WHOLE = 128 * 1024
const BLOCK = 512
const WINDOW = 32
const BLOCKS_A_WINDOW = BLOCK / WINDOW
/**
 * Decides the place of each window in its block, so that the author of a text cannot know it; constant within this
 * process.
 */
const SECRET = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0

/** Counts the tokens of text that comes in pieces. The result does not depend on how the text is cut. */
export class TextTokens {
  private read = 0
  private sampled = 0
  /** Characters so far. */
  private position = 0
  /** Class and code of the last character; length of its word, and how many vowels or consonants in a row end it. */
  private last = SPACE
  private code = 32
  private word = 0
  private alike = 0

  /** So far, not rounded. */
  get tokens(): number {
    return this.read + this.sampled * BLOCKS_A_WINDOW
  }

  /** Begins another text: the last word of the one before has ended. */
  begin(): void {
    this.last = SPACE
    this.code = 32
  }

  add(piece: string): void {
    const whole = Math.min(piece.length, Math.max(0, READ_WHOLE - this.position))
    if (whole > 0) this.read = this.scan(piece, 0, whole, this.read)
    const start = this.position
    this.position += piece.length
    if (whole < piece.length) this.sample(piece, start, whole)
  }

  /** Reads the windows that lie within the piece. `start` is the position of its first character in the text. */
  private sample(piece: string, start: number, from: number): void {
    const end = start + piece.length
    for (let block = Math.floor((start + from) / BLOCK); block * BLOCK < end; block++) {
      const opens = block * BLOCK + offsetIn(block)
      if (opens >= start + from && opens < end) this.inMidWord()
      const first = Math.max(opens - start, from)
      const last = Math.min(opens + WINDOW - start, piece.length)
      if (first < last) this.sampled = this.scan(piece, first, last, this.sampled)
    }
  }

  /** The text before a window is not known; most likely the window begins within a word. */
  private inMidWord(): void {
    this.last = LOWER
    this.code = 101
    this.word = 4
    this.alike = 1
  }

  /** Adds to `sum` character by character: sums of pieces would be rounded in another way for other pieces. */
  private scan(text: string, from: number, to: number, sum: number): number {
    let { last, code: before, word, alike } = this
    let tokens = sum
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at)
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
  let hash = Math.imul(block ^ SECRET, 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
  return ((hash ^ (hash >>> 13)) >>> 0) % (BLOCK - WINDOW + 1)
}
