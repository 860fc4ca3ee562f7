/**
 * The structure of JSON text, 64 bytes at a time: a WebAssembly kernel with SIMD, after simdjson's first stage. A
 * conversation of 200 KB takes 35 µs, its copy into the kernel's memory included; byte by byte it takes 1.0 ms
 * (`PlainFinder` in `json-structure.ts`, the reference of the kernel).
 */

import {
  bytes,
  type Code,
  code,
  get,
  getGlobal,
  giveBack,
  i32,
  i64,
  kernelOf,
  PAGE_BYTES,
  repeatWhile,
  set,
  setGlobal,
  when,
} from './wasm.ts'

/** Bytes of JSON that are read by one call. */
export const CHUNK = 64 * 1024
/** The kernel's memory holds so many positions, and those of one more chunk. Few texts have more. */
export const POSITIONS_MAX = 768 * 1024
/** The chunk, and the positions after it, four bytes each. Every byte of the last chunk may be one. */
const PAGES = (CHUNK + 4 * (POSITIONS_MAX + CHUNK)) / PAGE_BYTES

/** Globals: bits of 64 bytes, from the lowest; what the last block of one call leaves to the next call. */
const IS_ESCAPED = 0
/** All bits, or none. */
const IS_IN_STRING = 1
/** The first bytes that must be hexadecimal digits of a `\u0041`. */
const IS_HEX = 2
const GLOBALS = 3

/**
 * The parameters of `run`: how many bytes of the chunk to read, a multiple of 64; how many bytes of the text precede
 * them, 0 if it begins with them; where in memory to store the first position.
 */
const LENGTH = 0
const BEFORE = 1
const OUT = 2
const PARAMETERS = ['i32', 'i32', 'i32'] as const
/** A local of 32 bits. */
const AT = 3
/** Locals of 64 bits: bits for the bytes of the block. */
const QUOTES = 4
const BACKSLASHES = 5
const ESCAPED = 6
const FOLLOWS = 7
const IN_STRING = 8
const INVALID = 9
const HEX = 10
const FOUND = 11
/** The sum that carries over runs of backslashes. */
const CARRIED = 12
/** The globals, within a call. Locals are not stored and loaded for each block. */
const WAS_ESCAPED = 13
const WAS_IN_STRING = 14
const WAS_HEX = 15
/** The four parts of the block. */
const PARTS = 16
const LOCALS = ['i32', ...new Array<'i64'>(12).fill('i64'), ...new Array<'v128'>(4).fill('v128')] as const

const EVEN_BITS = 0x5555_5555_5555_5555n

const block = (index: number) => get(PARTS + index)
const is = (character: string) => (value: Code) => bytes.equal(value, bytes.all(code(character)))
const isControl = (value: Code) => bytes.lessThan(value, bytes.all(0x20))
/** `{` and `[` differ in this bit alone, and so do `}` and `]`. */
const folded = (value: Code) => bytes.or(value, bytes.all(0x20))
const isStructural = (value: Code) =>
  bytes.or(bytes.or(is('{')(folded(value)), is('}')(folded(value))), bytes.or(is(',')(value), is(':')(value)))
const isHexDigit = (value: Code) =>
  bytes.or(
    bytes.lessThan(bytes.sub(value, bytes.all(code('0'))), bytes.all(10)),
    bytes.lessThan(bytes.sub(folded(value), bytes.all(code('a'))), bytes.all(6)),
  )

/**
 * True for what may follow a backslash, save for `u`: one table has a bit for each high half of a byte that occurs, the
 * other the bits that may occur with each low half.
 */
function isEscape(value: Code): Code {
  const high = new Array<number>(16).fill(0)
  const low = new Array<number>(16).fill(0)
  for (const character of '"\\/bfnrt') {
    const half = code(character) >> 4
    high[half] = 1 << half
    low[code(character) & 15] = (low[code(character) & 15] ?? 0) | (1 << half)
  }
  const found = bytes.and(
    bytes.lookUp(bytes.const(high), bytes.shiftRight(value, 4)),
    bytes.lookUp(bytes.const(low), bytes.and(value, bytes.all(15))),
  )
  return bytes.notEqual(found, bytes.all(0))
}

/** A bit for each of the 64 bytes of the block. */
function bitsOf(test: (value: Code) => Code): Code {
  const part = (index: number) =>
    i64.shiftLeft(i64.extend(bytes.mask(test(block(index)))), i64.const(BigInt(16 * index)))
  return i64.or(i64.or(part(0), part(1)), i64.or(part(2), part(3)))
}

const not = (value: Code) => i64.xor(value, i64.const(-1n))
const setBits = (local: number, bits: Code) => set(local, i64.or(get(local), bits))

/**
 * The characters that a backslash escapes: those that follow an odd number of backslashes. Eight bytes as an example,
 * within a string, the bit of the first byte on the left; `.` is 0:
 *
 *     bytes               a \ \ n \ " b "
 *     BACKSLASHES         . 1 1 . 1 . . .
 *     FOLLOWS             . . 1 1 . 1 . .   one place later
 *     ESCAPED, at first   . 1 . . . . . .   where a run begins at an odd place
 *     CARRIED             . . . 1 1 . . .   BACKSLASHES plus that: the run at 1 has become a carry at 3
 *     even places         1 . 1 . 1 . 1 .
 *       xor CARRIED << 1  1 . 1 . . 1 1 .   even places, and odd ones after a run that began at an odd place
 *     ESCAPED             . . 1 . . 1 . .   of these, what follows a backslash: the second `\`, and the quote
 *
 * So of the two quotes only the last one ends the string: QUOTES without ESCAPED is `. . . . . . . 1`, and IN_STRING
 * `1 1 1 1 1 1 1 .`.
 */
const findEscaped: readonly Code[] = [
  set(BACKSLASHES, i64.and(get(BACKSLASHES), not(get(WAS_ESCAPED)))),
  set(FOLLOWS, i64.or(i64.shiftLeft(get(BACKSLASHES), i64.const(1n)), get(WAS_ESCAPED))),
  // The first of a run that begins at an odd place; adding it carries over the whole run.
  set(ESCAPED, i64.and(get(BACKSLASHES), not(i64.or(i64.const(EVEN_BITS), get(FOLLOWS))))),
  set(CARRIED, i64.add(get(ESCAPED), get(BACKSLASHES))),
  set(WAS_ESCAPED, i64.extend(i64.lessThan(get(CARRIED), get(ESCAPED)))),
  set(ESCAPED, i64.and(i64.xor(i64.const(EVEN_BITS), i64.shiftLeft(get(CARRIED), i64.const(1n))), get(FOLLOWS))),
]

/** Each `\u` is followed by four digits. `INVALID` has what follows a backslash and is not another escape. */
const checkHex: readonly Code[] = [
  set(HEX, get(WAS_HEX)),
  set(WAS_HEX, i64.const(0n)),
  set(FOLLOWS, i64.and(get(INVALID), bitsOf(is('u')))),
  set(INVALID, i64.xor(get(INVALID), get(FOLLOWS))),
  ...[1n, 2n, 3n, 4n].flatMap((distance) => [
    setBits(HEX, i64.shiftLeft(get(FOLLOWS), i64.const(distance))),
    setBits(WAS_HEX, i64.shiftRight(get(FOLLOWS), i64.const(64n - distance))),
  ]),
  setBits(INVALID, i64.and(get(HEX), not(bitsOf(isHexDigit)))),
]

/** What follows a backslash must be an escape. */
const checkEscapes: readonly Code[] = [
  // Most are line ends, quotes and backslashes, of which two are known already.
  set(INVALID, i64.and(get(ESCAPED), not(i64.or(i64.or(get(QUOTES), get(FOUND)), bitsOf(is('n')))))),
  when(i64.isAny(get(INVALID)), [set(INVALID, i64.and(get(INVALID), not(bitsOf(isEscape))))]),
  when(i64.isAny(i64.or(get(INVALID), get(WAS_HEX))), checkHex),
]

/** Every bit becomes the parity of the bits up to it: set from each opening quote up to before its closing quote. */
const findStrings: readonly Code[] = [
  set(IN_STRING, get(QUOTES)),
  ...[1n, 2n, 4n, 8n, 16n, 32n].map((distance) =>
    set(IN_STRING, i64.xor(get(IN_STRING), i64.shiftLeft(get(IN_STRING), i64.const(distance)))),
  ),
  set(IN_STRING, i64.xor(get(IN_STRING), get(WAS_IN_STRING))),
  set(WAS_IN_STRING, i64.shiftRightSigned(get(IN_STRING), i64.const(63n))),
]

const smallest = bytes.min(bytes.min(block(0), block(1)), bytes.min(block(2), block(3)))

const body: readonly Code[] = [
  // Locals are zero before the first block of a text.
  when(get(BEFORE), [
    set(WAS_ESCAPED, getGlobal(IS_ESCAPED)),
    set(WAS_IN_STRING, getGlobal(IS_IN_STRING)),
    set(WAS_HEX, getGlobal(IS_HEX)),
  ]),
  repeatWhile(i32.lessThan(get(AT), get(LENGTH)), [
    ...[0, 1, 2, 3].map((index) => set(PARTS + index, bytes.load(get(AT), 16 * index))),
    set(BACKSLASHES, bitsOf(is('\\'))),
    set(QUOTES, bitsOf(is('"'))),
    set(ESCAPED, i64.const(0n)),
    set(INVALID, i64.const(0n)),
    // All backslashes: the next step keeps those that are not escaped themselves.
    set(FOUND, get(BACKSLASHES)),
    when(i64.isAny(i64.or(i64.or(get(BACKSLASHES), get(WAS_ESCAPED)), get(WAS_HEX))), [
      ...findEscaped,
      ...checkEscapes,
    ]),
    set(QUOTES, i64.and(get(QUOTES), not(get(ESCAPED)))),
    // Most blocks of a conversation are within a string.
    set(IN_STRING, get(WAS_IN_STRING)),
    when(i64.isAny(get(QUOTES)), findStrings),
    when(bytes.isAny(isControl(smallest)), [setBits(INVALID, i64.and(get(IN_STRING), bitsOf(isControl)))]),
    setBits(INVALID, i64.and(get(FOUND), not(get(IN_STRING)))),
    when(i64.isAny(get(INVALID)), [giveBack(i32.const(-1))]),
    set(FOUND, get(QUOTES)),
    when(i64.isAny(not(get(IN_STRING))), [setBits(FOUND, i64.and(bitsOf(isStructural), not(get(IN_STRING))))]),
    repeatWhile(i64.isAny(get(FOUND)), [
      i32.store(get(OUT), i32.add(i32.add(get(BEFORE), get(AT)), i32.wrap(i64.trailingZeros(get(FOUND))))),
      set(OUT, i32.add(get(OUT), i32.const(4))),
      set(FOUND, i64.and(get(FOUND), i64.sub(get(FOUND), i64.const(1n)))),
    ]),
    set(AT, i32.add(get(AT), i32.const(64))),
  ]),
  setGlobal(IS_ESCAPED, get(WAS_ESCAPED)),
  setGlobal(IS_IN_STRING, get(WAS_IN_STRING)),
  setGlobal(IS_HEX, get(WAS_HEX)),
  // The end of the positions.
  get(OUT),
]

export interface StructureKernel {
  readonly chunk: Uint8Array
  readonly positions: Uint32Array
  /** Returns the end of the positions in memory; -1 if a string is invalid. */
  readonly run: (length: number, before: number, out: number) => number
}

/** Undefined if there is no WebAssembly with SIMD: the loop in JavaScript is used then. */
export function structureKernel(): StructureKernel | undefined {
  const functions = { run: { parameters: PARAMETERS, locals: LOCALS, body } }
  const kernel = kernelOf({ pages: PAGES, globals: GLOBALS, functions })
  if (kernel === undefined) return undefined
  const { memory, run } = kernel
  return { chunk: new Uint8Array(memory.buffer, 0, CHUNK), positions: new Uint32Array(memory.buffer, CHUNK), run }
}
