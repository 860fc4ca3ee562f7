/**
 * Copies the texts of many frames into the caller's events: a WebAssembly kernel, from bytes to bytes, in one call. The
 * 63 texts of a burst take 1.4 µs. As strings that are found, cut out and joined they take 9 µs (`Template.textsIn` and
 * `textEvents` in `sse.ts`): that way is the reference, and the kernel copies exactly the same events.
 *
 * An example: of a provider's frames
 *
 *     data: {"text":"He","n":7}⏎⏎data: {"text":"y!","n":8}⏎⏎
 *
 * the input begins at `He`. After a text, a frame has the piece `","n":`, the number 7 or 8, which is a *hole*, and
 * the *seam* `}⏎⏎data: {"text":"` up to the next text; its part `}⏎⏎`, which belongs to the first of the two, is the
 * *tail*. If the caller's events are `data: {"seq":1,"delta":"He"}⏎⏎`, the kernel writes between two texts what follows
 * the one (`"}⏎⏎data: {"seq":`), the next number, and what precedes the other (`,"delta":"`). A frame that differs ends
 * the run.
 */

import {
  bytes,
  type Code,
  code,
  get,
  giveBack,
  i32,
  kernelOf,
  move,
  PAGE_BYTES as PAGE,
  repeatWhile,
  set,
  when,
} from './wasm.ts'

const PAGES = 12
/** Sixteen bytes are read and written at once, of which some may be beyond the end. */
const SLACK = 64

// The memory.
const TABLE = 0
const TABLE_ENTRIES = 96
/** Where the holes of the last frame begin and end in the input, and those of the frame before it. */
const SPANS = 1024
/** The fixed pieces of a frame, one after the other. */
export const PIECES = 4 * 1024
/** The fixed pieces of the caller's event. */
export const EVENT = 20 * 1024
/** The texts, without anything between them. */
export const TEXTS = PAGE
/** The frames, from the first text on. */
export const INPUT = 2 * PAGE
/** The caller's events. */
export const OUTPUT = 4 * PAGE
export const OUTPUT_END = PAGES * PAGE - SLACK

export const PIECES_BYTES_MAX = EVENT - PIECES - SLACK
export const EVENT_BYTES_MAX = TEXTS - EVENT - SLACK
/** Bounds what is copied in vain if the kernel stops after a few frames: 0.3 µs. */
export const INPUT_BYTES_MAX = 16 * 1024
export const HOLES_MAX = 32

// The table, in entries of four bytes: what is sought and written.
/** Holes after the text. */
export const HOLE_COUNT = 0
/** From the end of a frame's text, or of its last hole, to the text of the next. */
export const SEAM_LENGTH = 1
/** The part of it that belongs to the first of the two. */
export const TAIL_LENGTH = 2
/** From the end of a text to the next text, or to a number that each event counts up. */
export const BEFORE_LENGTH = 3
export const HAS_NUMBER = 4
/** From that number to the text. */
export const AFTER_LENGTH = 5
// What was found, up to the end of the last frame that was copied: where the next one begins, and two ends.
export const NEXT = 6
export const OUTPUT_TO = 7
export const TEXTS_TO = 8
/** For each hole the length of the piece before it, and its kind. */
export const HOLES = 16

export const STRING_HOLE = 0
export const NUMBER_HOLE = 1
export const COUNTER_HOLE = 2

/** More than any counter of tokens has; 100 million is the most that is believed. */
export const COUNTER_DIGITS_MAX = 8

/** The parameters of `run`: the first text and the end of the input, where to write, and the number of its event. */
const AT = 0
const END = 1
const OUT = 2
const NUMBER = 3
const PARAMETERS = ['i32', 'i32', 'i32', 'i32'] as const
/** Frames that were copied. */
const COUNT = 4
const WORDS = 5
const START = 6
const CHARACTER = 7
/** Bits for the sixteen bytes of `BLOCK`; after a comparison 0 if it found no difference. */
const MASK = 8
const PIECE = 9
const LENGTH = 10
const HOLE = 11
const FROM = 12
const TO = 13
const SPAN = 14
const LOCALS_32 = 11
const BLOCK = 15
const LOCALS = [...new Array<'i32'>(LOCALS_32).fill('i32'), 'v128'] as const

const QUOTE = i32.const(code('"'))
const BACKSLASH = i32.const(code('\\'))
const entry = (index: number) => i32.load(i32.const(TABLE), 4 * index)
const holeEntry = (index: number) => i32.load(get(HOLE), 4 * (HOLES + index))
const byteAt = (local: number, offset = 0) => i32.loadByte(get(local), offset)
const isCharacter = (character: string) => bytes.equal(get(BLOCK), bytes.all(code(character)))
const isByte = (byte: number) => bytes.equal(get(BLOCK), bytes.all(byte))
const isControl = bytes.lessThan(get(BLOCK), bytes.all(0x20))
const any = (...tests: readonly Code[]) => tests.reduce(bytes.or)
const atLeast = (left: Code, right: Code) => i32.isZero(i32.lessThan(left, right))
/** The frame is not copied. */
const stop = giveBack(get(COUNT))
const stopAtEnd = when(atLeast(get(AT), get(END)), [stop])

const differences = bytes.mask(bytes.notEqual(bytes.load(get(FROM), 0), bytes.load(get(TO), 0)))
/** `MASK` is 0 if the next bytes are those of the piece, whose ends are then `FROM` and `TO`. */
const compare = (length: Code): readonly Code[] => [
  set(LENGTH, length),
  set(FROM, get(AT)),
  set(TO, get(PIECE)),
  set(MASK, i32.lessThan(get(END), i32.add(get(AT), get(LENGTH)))),
  when(i32.isZero(get(MASK)), [
    repeatWhile(atLeast(get(LENGTH), i32.const(16)), [
      set(MASK, differences),
      when(
        get(MASK),
        [set(LENGTH, i32.const(0))],
        [move(LENGTH, i32.const(-16)), move(FROM, i32.const(16)), move(TO, i32.const(16))],
      ),
    ]),
    when(i32.isZero(get(MASK)), [
      set(MASK, i32.and(differences, i32.sub(i32.shiftLeft(i32.const(1), get(LENGTH)), i32.const(1)))),
      move(FROM, get(LENGTH)),
      move(TO, get(LENGTH)),
    ]),
  ]),
]

/** Writes the next bytes of the pieces of the caller's event. */
const write = (length: Code): readonly Code[] => [
  set(FROM, get(OUT)),
  set(LENGTH, length),
  move(OUT, get(LENGTH)),
  set(TO, i32.add(get(PIECE), get(LENGTH))),
  repeatWhile(i32.lessThan(get(FROM), get(OUT)), [
    bytes.store(get(FROM), bytes.load(get(PIECE), 0)),
    move(FROM, i32.const(16)),
    move(PIECE, i32.const(16)),
  ]),
  set(PIECE, get(TO)),
]

const pass = (by: Code): readonly Code[] => [move(AT, by), move(OUT, by), move(WORDS, by)]
const copyByte: readonly Code[] = [
  i32.storeByte(get(OUT), byteAt(AT)),
  i32.storeByte(get(WORDS), byteAt(AT)),
  ...pass(i32.const(1)),
]

/** The escapes that `JSON.stringify` writes, other than `\u`. */
const isEscape = [...'"\\bfnrt'].map((character) => i32.equal(byteAt(AT, 1), i32.const(code(character)))).reduce(i32.or)

/** U+0085, U+2028 and U+2029, which `jsonLine` escapes. */
const isLineBreak = i32.or(
  i32.and(i32.equal(get(CHARACTER), i32.const(0xc2)), i32.equal(byteAt(AT, 1), i32.const(0x85))),
  i32.and(
    i32.and(i32.equal(get(CHARACTER), i32.const(0xe2)), i32.equal(byteAt(AT, 1), i32.const(0x80))),
    i32.equal(i32.and(byteAt(AT, 2), i32.const(0xfe)), i32.const(0xa8)),
  ),
)

/** Copies the text up to its quote; stops if it is empty, or cannot be copied as it is. */
const copyText: readonly Code[] = [
  set(START, get(AT)),
  set(CHARACTER, i32.const(0)),
  // In ill-formed UTF-8, a byte that would continue a character of the text before.
  when(i32.equal(i32.and(byteAt(AT), i32.const(0xc0)), i32.const(0x80)), [stop]),
  repeatWhile(i32.notEqual(get(CHARACTER), QUOTE), [
    stopAtEnd,
    set(BLOCK, bytes.load(get(AT), 0)),
    bytes.store(get(OUT), get(BLOCK)),
    bytes.store(get(WORDS), get(BLOCK)),
    set(MASK, bytes.mask(any(isCharacter('"'), isCharacter('\\'), isControl, isByte(0xc2), isByte(0xe2)))),
    when(i32.isZero(get(MASK)), pass(i32.const(16)), [
      ...pass(i32.trailingZeros(get(MASK))),
      stopAtEnd,
      set(CHARACTER, byteAt(AT)),
      when(i32.equal(get(CHARACTER), BACKSLASH), [when(i32.isZero(isEscape), [stop]), ...copyByte]),
      when(i32.or(i32.lessThan(get(CHARACTER), i32.const(0x20)), isLineBreak), [stop]),
      when(i32.notEqual(get(CHARACTER), QUOTE), copyByte),
    ]),
  ]),
  when(i32.equal(get(AT), get(START)), [stop]),
]

const passString: readonly Code[] = [
  set(CHARACTER, i32.const(0)),
  repeatWhile(i32.notEqual(get(CHARACTER), QUOTE), [
    stopAtEnd,
    set(BLOCK, bytes.load(get(AT), 0)),
    set(MASK, bytes.mask(any(isCharacter('"'), isCharacter('\\'), isControl))),
    when(
      i32.isZero(get(MASK)),
      [move(AT, i32.const(16))],
      [
        move(AT, i32.trailingZeros(get(MASK))),
        set(CHARACTER, byteAt(AT)),
        when(i32.notEqual(get(CHARACTER), QUOTE), [stop]),
      ],
    ),
  ]),
]

const isDigit = i32.lessThan(i32.sub(byteAt(AT), i32.const(code('0'))), i32.const(10))
/** At least one. */
const passDigits: readonly Code[] = [
  set(START, get(AT)),
  repeatWhile(i32.and(isDigit, i32.lessThan(get(AT), get(END))), [move(AT, i32.const(1))]),
  when(i32.equal(get(AT), get(START)), [stop]),
]
const digits = i32.sub(get(AT), get(START))
const isPoint = i32.and(i32.lessThan(get(AT), get(END)), i32.equal(byteAt(AT), i32.const(code('.'))))
const passNumber: readonly Code[] = [
  ...passDigits,
  when(i32.and(i32.equal(byteAt(START), i32.const(code('0'))), i32.lessThan(i32.const(1), digits)), [stop]),
  when(
    i32.equal(holeEntry(1), i32.const(COUNTER_HOLE)),
    [when(i32.lessThan(i32.const(COUNTER_DIGITS_MAX), digits), [stop])],
    [when(isPoint, [move(AT, i32.const(1)), ...passDigits])],
  ),
]

const HOLE_BYTES = 8
const passHoles: readonly Code[] = [
  set(PIECE, i32.const(PIECES)),
  set(HOLE, i32.const(0)),
  set(SPAN, i32.add(i32.const(SPANS), i32.mul(i32.and(get(COUNT), i32.const(1)), i32.const(HOLE_BYTES * HOLES_MAX)))),
  repeatWhile(i32.lessThan(get(HOLE), i32.mul(entry(HOLE_COUNT), i32.const(HOLE_BYTES))), [
    ...compare(holeEntry(0)),
    when(get(MASK), [stop]),
    set(AT, get(FROM)),
    set(PIECE, get(TO)),
    i32.store(get(SPAN), get(AT)),
    when(i32.equal(holeEntry(1), i32.const(STRING_HOLE)), passString, passNumber),
    i32.store(get(SPAN), get(AT), 4),
    move(HOLE, i32.const(HOLE_BYTES)),
    move(SPAN, i32.const(HOLE_BYTES)),
  ]),
]

const noteCopy: readonly Code[] = [
  move(COUNT, i32.const(1)),
  i32.store(i32.const(TABLE), i32.add(get(AT), entry(TAIL_LENGTH)), 4 * NEXT),
  i32.store(i32.const(TABLE), get(OUT), 4 * OUTPUT_TO),
  i32.store(i32.const(TABLE), get(WORDS), 4 * TEXTS_TO),
]

const writeNumber: readonly Code[] = [
  set(LENGTH, i32.const(1)),
  repeatWhile(atLeast(get(NUMBER), i32.mul(get(LENGTH), i32.const(10))), [
    set(LENGTH, i32.mul(get(LENGTH), i32.const(10))),
  ]),
  repeatWhile(get(LENGTH), [
    i32.storeByte(get(OUT), i32.add(i32.const(code('0')), i32.rem(i32.div(get(NUMBER), get(LENGTH)), i32.const(10)))),
    move(OUT, i32.const(1)),
    set(LENGTH, i32.div(get(LENGTH), i32.const(10))),
  ]),
]

const writeSeam: readonly Code[] = [
  set(PIECE, i32.const(EVENT)),
  ...write(entry(BEFORE_LENGTH)),
  when(entry(HAS_NUMBER), [move(NUMBER, i32.const(1)), ...writeNumber, ...write(entry(AFTER_LENGTH))]),
]

const body: readonly Code[] = [
  set(WORDS, i32.const(TEXTS)),
  repeatWhile(i32.const(1), [
    // Room for the longest text and the event around it.
    when(i32.lessThan(i32.const(OUTPUT_END - INPUT_BYTES_MAX - EVENT_BYTES_MAX), get(OUT)), [stop]),
    ...copyText,
    ...passHoles,
    ...compare(entry(SEAM_LENGTH)),
    // The last of the frames, before one of another form or the end.
    when(get(MASK), [...compare(entry(TAIL_LENGTH)), when(i32.isZero(get(MASK)), noteCopy), stop]),
    ...noteCopy,
    set(AT, get(FROM)),
    ...writeSeam,
  ]),
  get(COUNT),
]

export interface CopyKernel {
  readonly memory: Buffer
  readonly table: Int32Array
  /** The first byte and the end of each hole of a frame, in pairs; frames take turns in the two halves. */
  readonly spans: Int32Array
  /** Returns how many frames were copied. */
  readonly run: (at: number, end: number, output: number, number: number) => number
}

/** Undefined if there is no WebAssembly with SIMD. */
export function copyKernel(): CopyKernel | undefined {
  const functions = { run: { parameters: PARAMETERS, locals: LOCALS, body } }
  const kernel = kernelOf({ pages: PAGES, globals: 0, functions })
  if (kernel === undefined) return undefined
  const { memory, run } = kernel
  return {
    memory: Buffer.from(memory.buffer),
    table: new Int32Array(memory.buffer, TABLE, TABLE_ENTRIES),
    spans: new Int32Array(memory.buffer, SPANS, 4 * HOLES_MAX),
    run,
  }
}
