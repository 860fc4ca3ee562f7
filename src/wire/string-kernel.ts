/**
 * Reads JSON text that is written within a string of JSON, such as the arguments of a tool call, 16 bytes at a time: a
 * WebAssembly kernel with SIMD. Of the 26 KB of arguments in a conversation of 200 KB, it counts the values in 13 µs
 * and unescapes all in 19; byte by byte that takes 21 and 49 µs (`plainValues` and `plainUnescaped` in `json-text.ts`,
 * the references of the kernel).
 */

import { DEPTH_MAX } from './json-shape.ts'
import {
  bytes,
  type Code,
  choose,
  code,
  get,
  giveBack,
  i32,
  kernelOf,
  move,
  PAGE_BYTES,
  repeatWhile,
  set,
  when,
} from './wasm.ts'

/** The longest text that fits into the kernel's memory. */
export const STRING_BYTES_MAX = 128 * 1024
/** Both functions read, and one writes, up to 64 bytes beyond the end. */
const SLACK = 64
/** Where a text is unescaped to. The text itself is at the beginning. */
const UNESCAPED = STRING_BYTES_MAX + SLACK
const PAGES = Math.ceil((2 * UNESCAPED) / PAGE_BYTES)

const backslashes = (address: Code) => bytes.mask(bytes.equal(bytes.load(address, 0), bytes.all(code('\\'))))
const isByte = (value: Code, character: string) => i32.equal(value, i32.const(code(character)))

/** Locals of both functions. The only parameter is the end of the text. */
const END = 0
const AT = 1
/** One bit for each of 16 bytes. */
const MASK = 2
/** What follows a backslash. */
const ESCAPED = 3

// Of `values`:
const IN_STRING = 4
const DEPTH = 5
const VALUES = 6
const BYTE = 7
/** `{` and `[` differ in one bit, and so do `}` and `]`. */
const FOLDED = 8

const afterBackslash: readonly Code[] = [
  set(ESCAPED, i32.loadByte(get(AT), 1)),
  move(AT, i32.const(2)),
  when(isByte(get(ESCAPED), 'u'), [giveBack(i32.const(-1))]),
  when(isByte(get(ESCAPED), '"'), [set(IN_STRING, i32.isZero(get(IN_STRING)))]),
  // A backslash of the inner text: within a string, it escapes the character that follows, which may be escaped too.
  when(i32.and(isByte(get(ESCAPED), '\\'), get(IN_STRING)), [
    move(AT, i32.add(i32.const(1), isByte(i32.loadByte(get(AT)), '\\'))),
  ]),
]

const outsideStrings: readonly Code[] = [
  set(FOLDED, i32.or(get(BYTE), i32.const(0x20))),
  when(isByte(get(FOLDED), '{'), [
    move(DEPTH, i32.const(1)),
    when(i32.equal(get(DEPTH), i32.const(DEPTH_MAX + 1)), [giveBack(i32.const(-1))]),
  ]),
  when(isByte(get(FOLDED), '}'), [move(DEPTH, i32.const(-1))]),
  move(VALUES, i32.or(isByte(get(BYTE), ','), isByte(get(BYTE), ':'))),
  move(AT, i32.const(1)),
]

const counting: readonly Code[] = [
  repeatWhile(i32.lessThan(get(AT), get(END)), [
    // Within a string only a backslash matters, and most of the bytes, such as those of a file, are within one.
    when(get(IN_STRING), [
      set(MASK, backslashes(get(AT))),
      repeatWhile(i32.and(i32.isZero(get(MASK)), i32.lessThan(get(AT), get(END))), [
        move(AT, i32.const(16)),
        set(MASK, backslashes(get(AT))),
      ]),
      move(AT, i32.trailingZeros(get(MASK))),
    ]),
    set(BYTE, i32.loadByte(get(AT))),
    when(i32.lessThan(get(AT), get(END)), [when(isByte(get(BYTE), '\\'), afterBackslash, outsideStrings)]),
  ]),
  get(VALUES),
]

// Of `unescape`:
const OUT = 4
const BLOCK = 5

/** What each escape of two characters stands for. */
const character = [
  ['n', 10],
  ['t', 9],
  ['r', 13],
  ['b', 8],
  ['f', 12],
].reduce<Code>(
  (others, [name, value]) => choose(isByte(get(ESCAPED), String(name)), i32.const(Number(value)), others),
  get(ESCAPED),
)

const unescaping: readonly Code[] = [
  set(OUT, i32.const(UNESCAPED)),
  repeatWhile(i32.lessThan(get(AT), get(END)), [
    set(BLOCK, bytes.load(get(AT), 0)),
    bytes.store(get(OUT), get(BLOCK)),
    set(MASK, bytes.mask(bytes.equal(get(BLOCK), bytes.all(code('\\'))))),
    when(
      i32.isZero(get(MASK)),
      [move(AT, i32.const(16)), move(OUT, i32.const(16))],
      [
        move(AT, i32.trailingZeros(get(MASK))),
        move(OUT, i32.trailingZeros(get(MASK))),
        when(i32.lessThan(get(AT), get(END)), [
          set(ESCAPED, i32.loadByte(get(AT), 1)),
          when(isByte(get(ESCAPED), 'u'), [giveBack(i32.const(-1))]),
          i32.storeByte(get(OUT), character),
          move(AT, i32.const(2)),
          move(OUT, i32.const(1)),
        ]),
      ],
    ),
  ]),
  // What was read beyond the end was copied.
  i32.sub(i32.sub(get(OUT), i32.sub(get(AT), get(END))), i32.const(UNESCAPED)),
]

interface StringKernel {
  /** The text begins at its beginning. */
  readonly memory: Buffer
  /** Returns the commas and colons of the text; -1 if it is too deep or has an escape like `\u0041`. */
  readonly values: (end: number) => number
  /** What `unescape` has written begins at its beginning. */
  readonly unescaped: Buffer
  /** Returns the size of the unescaped text; -1 if it has an escape like `\u0041`. */
  readonly unescape: (end: number) => number
}

let kernel: StringKernel | 'none' | undefined

/** Undefined if there is no WebAssembly with SIMD: the loops in JavaScript are used then. */
export function stringKernel(): StringKernel | undefined {
  kernel ??= newKernel() ?? 'none'
  return kernel === 'none' ? undefined : kernel
}

function newKernel(): StringKernel | undefined {
  const [parameters, i32s] = [['i32'] as const, (count: number) => new Array<'i32'>(count).fill('i32')]
  const found = kernelOf({
    pages: PAGES,
    globals: 0,
    functions: {
      values: { parameters, locals: i32s(FOLDED), body: counting },
      unescape: { parameters, locals: [...i32s(OUT), 'v128'], body: unescaping },
    },
  })
  if (found === undefined) return undefined
  const { memory, ...functions } = found
  return { memory: Buffer.from(memory.buffer), unescaped: Buffer.from(memory.buffer, UNESCAPED), ...functions }
}
