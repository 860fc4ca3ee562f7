/**
 * How many tokens a character adds to a text, by what precedes it. The weights were fitted to o200k_base on prose,
 * code, JSON, logs and a dozen scripts (within 15 % on the first four), and then raised for unnatural text, such as
 * random letters, which has many times as many tokens as words of that length.
 *
 * All of it is one table of states and classes. Decided by branches, a character took 2.9 ns instead of 1.5 in a loop,
 * and more in a server, because the processor predicts few of them in ordinary text.
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
const KINDS = 14

/** Ranges of code units of one kind: each ends before the next begins. */
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

/** Tokens for a character of one kind (second) after a character of another (first). */
const COST = costs()

function costs(): Float64Array {
  const begins = [0.75, 0.84, 0.95, 0.95, 0, 1, 0.55, 0.6, 0.5, 0.6, 1.1, 1, 1.4, 2]
  const goesOn = [0.3, 0, 0.4, 0.32, 0, 0, 0, 0.6, 0.5, 0.6, 1.1, 1, 1.4, 2]
  const table = new Float64Array(KINDS * KINDS)
  for (let first = 0; first < KINDS; first++) {
    for (let second = 0; second < KINDS; second++) {
      table[first * KINDS + second] = (first === second ? goesOn : begins)[second] ?? 0
    }
  }
  table[UPPER * KINDS + LOWER] = 0.05
  table[SPACE * KINDS + DIGIT] = 1.95
  return table
}

function costOf(first: number, second: number): number {
  return COST[first * KINDS + second] ?? 0
}

/**
 * Lower-case letters and the tokens for one within a word. Words of any language have few of the rare letters, random
 * text has many.
 */
const LETTERS_BY_FREQUENCY = [
  ['etaoinshrdlucm', 0.03],
  ['fgypbvkw', 0.06],
  ['jxqz', 0.3],
] as const
const VOWELS = 'aeiouy'
/** The most consonants and vowels in a row within a word, and letters of a word; each letter beyond adds tokens. */
const ALIKE_MAX = [4, 3] as const
const WORD_MAX = 9
const BEYOND_WORDS = 0.3
/** A letter that repeats the one before: a run of one letter is few tokens, however long. */
export const SAME_LETTER = 0.18
/** A blank of another kind than the one before, or a line end: vendors' tokens are runs of one kind. */
const OTHER_BLANK = 0.5

/** No character of a text that is all read adds more. */
export const TOKENS_A_CHARACTER_MAX = Math.max(...COST) + OTHER_BLANK

/**
 * Classes of characters: their kinds, and more for characters that differ from others of their kind. A lower-case
 * letter has the class `FIRST_LETTER`, plus 1 if it is a vowel, plus 2 for each step of `LETTERS_BY_FREQUENCY`.
 */
const TAB = 14
const RETURN = 15
/** A character beyond 16 bits, which is two code units. */
export const PAIR = 16
export const FIRST_LETTER = 17
const CLASSES = FIRST_LETTER + 2 * LETTERS_BY_FREQUENCY.length

/** The class of each code unit. */
export const CLASS_OF: Uint8Array = classes()

function classes(): Uint8Array {
  const table = new Uint8Array(0x10000)
  for (const [from, kind] of STRETCHES) table.fill(kind, from)
  table.fill(UPPER, 65, 91)
  table.fill(DIGIT, 48, 58)
  table[9] = TAB
  table[32] = SPACE
  table[10] = LINE
  table[13] = RETURN
  for (const [step, [letters]] of LETTERS_BY_FREQUENCY.entries()) {
    for (const letter of letters)
      table[letter.charCodeAt(0)] = FIRST_LETTER + 2 * step + (VOWELS.includes(letter) ? 1 : 0)
  }
  return table
}

/**
 * States: the class of the last character, if that was no letter; else how long its word is, and how many vowels or
 * consonants in a row end it.
 */
const INDENT_TAB = PAIR
const FIRST_WORD = FIRST_LETTER
const WORDS = WORD_MAX + 1
const ALIKE = Math.max(...ALIKE_MAX) + 1
const STATES = FIRST_WORD + WORDS * ALIKE * 2

function wordState(length: number, alike: number, vowel: number): number {
  return FIRST_WORD + ((Math.min(length, WORDS) - 1) * ALIKE + Math.min(alike, ALIKE) - 1) * 2 + vowel
}

/** A step is a state, times `CLASSES`, plus the class of the character that comes next: the tokens that this adds. */
export const STEP_TOKENS: Float64Array = new Float64Array(STATES * CLASSES)
/** The state after it, times `CLASSES`. */
export const NEXT_STATE: Uint16Array = new Uint16Array(STATES * CLASSES)
/** The state at the beginning of a text, and within a word of unknown length, times `CLASSES`. */
export const BEGINNING: number = SPACE * CLASSES
export const WITHIN_WORD: number = wordState(4, 1, 1) * CLASSES

function step(state: number, next: number, after: number, tokens: number): void {
  STEP_TOKENS[state * CLASSES + next] = tokens
  NEXT_STATE[state * CLASSES + next] = after * CLASSES
}

/** The steps from a state, whose last character was of this kind, to a character that is no letter. */
function stepsToOthers(state: number, kind: number): void {
  for (let next = 0; next < FIRST_LETTER; next++) {
    if (next === PAIR) step(state, next, WIDE, costOf(kind, WIDE) + costOf(WIDE, WIDE))
    else if (next === RETURN) step(state, next, RETURN, costOf(kind, LINE) + (state === LINE ? OTHER_BLANK : 0))
    else if (next === SPACE || next === TAB) stepToBlank(state, kind, next)
    else step(state, next, next, costOf(kind, next))
  }
}

function stepToBlank(state: number, kind: number, next: number): void {
  if (kind !== SPACE && kind !== INDENT) return step(state, next, next, costOf(kind, SPACE))
  const isSame = (next === TAB) === (state === TAB || state === INDENT_TAB)
  step(state, next, next === TAB ? INDENT_TAB : INDENT, costOf(kind, INDENT) + (isSame ? 0 : OTHER_BLANK))
}

for (let state = 0; state < FIRST_WORD; state++) {
  const kind = state === TAB ? SPACE : state === INDENT_TAB ? INDENT : state === RETURN ? LINE : state
  stepsToOthers(state, kind)
  for (let next = FIRST_LETTER; next < CLASSES; next++)
    step(state, next, wordState(1, 1, (next - FIRST_LETTER) & 1), costOf(kind, LOWER))
}

for (let length = 1; length <= WORDS; length++)
  for (let alike = 1; alike <= ALIKE; alike++) for (const vowel of [0, 1]) stepsFromWord(length, alike, vowel)

function stepsFromWord(length: number, alike: number, vowel: number): void {
  const state = wordState(length, alike, vowel)
  stepsToOthers(state, LOWER)
  for (const [at, [, tokens]] of LETTERS_BY_FREQUENCY.entries()) {
    for (const isVowel of [0, 1] as const) {
      const row = isVowel === vowel ? alike + 1 : 1
      const isBeyond = length + 1 > WORD_MAX || row > ALIKE_MAX[isVowel]
      const after = wordState(length + 1, row, isVowel)
      step(state, FIRST_LETTER + 2 * at + isVowel, after, tokens + (isBeyond ? BEYOND_WORDS : 0))
    }
  }
}
