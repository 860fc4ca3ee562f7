/**
 * Writes WebAssembly modules: the few instructions that the kernels beside it need, as functions that return their
 * bytes, so that a kernel is readable source and no binary is committed. Runs once for each module, when it is loaded.
 */

/** The bytes of instructions. An expression leaves one value on the stack. */
export type Code = readonly number[]

const I32 = 0x7f
const I64 = 0x7e
const V128 = 0x7b
const TYPES = { i32: I32, i64: I64, v128: V128 } as const
type Type = keyof typeof TYPES

function unsigned(value: number): Code {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  return [...bytes, rest]
}

function signed(value: bigint): Code {
  const bytes: number[] = []
  let rest = value
  for (;;) {
    const byte = Number(rest & 0x7fn)
    rest >>= 7n
    if (rest === (byte & 0x40 ? -1n : 0n)) return [...bytes, byte]
    bytes.push(byte | 0x80)
  }
}

const vector = (opcode: number): Code => [0xfd, ...unsigned(opcode)]
const unary = (opcode: Code) => (value: Code) => [...value, ...opcode]
const binary = (opcode: Code) => (left: Code, right: Code) => [...left, ...right, ...opcode]

export const i32 = {
  const: (value: number): Code => [0x41, ...signed(BigInt(value))],
  add: binary([0x6a]),
  sub: binary([0x6b]),
  mul: binary([0x6c]),
  div: binary([0x6e]),
  rem: binary([0x70]),
  and: binary([0x71]),
  or: binary([0x72]),
  shiftLeft: binary([0x74]),
  trailingZeros: unary([0x68]),
  equal: binary([0x46]),
  notEqual: binary([0x47]),
  lessThan: binary([0x49]),
  isZero: unary([0x45]),
  load: (address: Code, offset = 0): Code => [...address, 0x28, 2, ...unsigned(offset)],
  loadByte: (address: Code, offset = 0): Code => [...address, 0x2d, 0, ...unsigned(offset)],
  /** Stores the value at the address. */
  store: (address: Code, value: Code, offset = 0): Code => [...address, ...value, 0x36, 2, ...unsigned(offset)],
  storeByte: (address: Code, value: Code): Code => [...address, ...value, 0x3a, 0, 0],
  wrap: unary([0xa7]),
}

export const i64 = {
  const: (value: bigint): Code => [0x42, ...signed(BigInt.asIntN(64, value))],
  /** An i32. */
  isAny: unary([0x50, 0x45]),
  /** An i32. */
  lessThan: binary([0x54]),
  trailingZeros: unary([0x7a]),
  add: binary([0x7c]),
  sub: binary([0x7d]),
  and: binary([0x83]),
  or: binary([0x84]),
  xor: binary([0x85]),
  shiftLeft: binary([0x86]),
  shiftRightSigned: binary([0x87]),
  shiftRight: binary([0x88]),
  extend: unary([0xad]),
}

/** Sixteen bytes at once. */
export const bytes = {
  load: (address: Code, offset: number): Code => [...address, ...vector(0x00), 0, ...unsigned(offset)],
  store: (address: Code, value: Code): Code => [...address, ...value, ...vector(0x0b), 0, 0],
  const: (values: readonly number[]): Code => [...vector(0x0c), ...values],
  /** Sixteen times the same. */
  all: (value: number): Code => [...vector(0x0c), ...new Array<number>(16).fill(value)],
  /** For each byte of `indices`, the byte of `table` at that index. */
  lookUp: (table: Code, indices: Code): Code => [...table, ...indices, ...vector(0x0e)],
  equal: binary(vector(0x23)),
  notEqual: binary(vector(0x24)),
  lessThan: binary(vector(0x26)),
  min: binary(vector(0x77)),
  /** An i32. */
  isAny: unary(vector(0x53)),
  and: binary(vector(0x4e)),
  or: binary(vector(0x50)),
  sub: binary(vector(0x71)),
  shiftRight: (value: Code, bits: number): Code => [...value, ...i32.const(bits), ...vector(0x6d)],
  /** The highest bit of each byte, as an i32. */
  mask: unary(vector(0x64)),
}

export const get = (local: number): Code => [0x20, ...unsigned(local)]
export const set = (local: number, value: Code): Code => [...value, 0x21, ...unsigned(local)]
export const getGlobal = (index: number): Code => [0x23, ...unsigned(index)]
export const setGlobal = (index: number, value: Code): Code => [...value, 0x24, ...unsigned(index)]
export const giveBack = (value: Code): Code => [...value, 0x0f]
export const when = (condition: Code, then: readonly Code[], otherwise: readonly Code[] = []): Code => [
  ...condition,
  ...[0x04, 0x40],
  ...then.flat(),
  ...(otherwise.length === 0 ? [] : [0x05, ...otherwise.flat()]),
  0x0b,
]
/** One of two values, by a condition. */
export const choose = (condition: Code, then: Code, otherwise: Code): Code => [
  ...then,
  ...otherwise,
  ...condition,
  0x1b,
]
/** Repeats the body while the condition, an i32, is not 0. */
export const repeatWhile = (condition: Code, body: readonly Code[]): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...condition,
  // Leaves the block if it is 0, else goes on with the loop.
  ...[0x45, 0x0d, 1],
  ...body.flat(),
  ...[0x0c, 0, 0x0b, 0x0b],
]

export const code = (character: string): number => character.charCodeAt(0)
/** Adds to a local. */
export const move = (local: number, by: Code): Code => set(local, i32.add(get(local), by))
/** Of a memory. */
export const PAGE_BYTES = 64 * 1024

/** A function that returns an i32. */
interface FunctionSource {
  readonly parameters: readonly Type[]
  readonly locals: readonly Type[]
  readonly body: readonly Code[]
}

interface KernelSource<Name extends string> {
  /** Pages of 64 KiB. */
  readonly pages: number
  readonly globals: number
  /** By their names. */
  readonly functions: Readonly<Record<Name, FunctionSource>>
}

/** The functions of a module, and its memory. */
type Kernel<Name extends string> = Readonly<Record<Name, (...parameters: number[]) => number>> & {
  readonly memory: WebAssembly.Memory
}

/** Undefined if this machine, or this process, has no WebAssembly with SIMD: loops in JavaScript are used then. */
export function kernelOf<Name extends string>(source: KernelSource<Name>): Kernel<Name> | undefined {
  if (typeof WebAssembly === 'undefined') return undefined
  const module = moduleOf(source)
  if (!WebAssembly.validate(module)) return undefined
  return new WebAssembly.Instance(new WebAssembly.Module(module)).exports as Kernel<Name>
}

/** A module with these functions, its memory, `memory`, and globals of 64 bits. */
function moduleOf({ pages, globals, functions }: KernelSource<string>): Uint8Array {
  const sources = Object.values(functions)
  const types = sources.map(({ parameters }) => [0x60, ...list(parameters.map((each) => [TYPES[each]])), 1, I32])
  const codes = sources.map(({ locals, body }) => {
    const code = [...list(locals.map((each) => [1, TYPES[each]])), ...body.flat(), 0x0b]
    return [...unsigned(code.length), ...code]
  })
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list(types)),
    ...section(3, list(sources.map((_, index) => unsigned(index)))),
    ...section(5, list([[1, ...unsigned(pages), ...unsigned(pages)]])),
    ...section(6, list(new Array<Code>(globals).fill([I64, 1, ...i64.const(0n), 0x0b]))),
    ...section(
      7,
      list([
        [...name('memory'), 2, 0],
        ...Object.keys(functions).map((each, index) => [...name(each), 0, ...unsigned(index)]),
      ]),
    ),
    ...section(10, list(codes)),
  ])
}

const list = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()]
const section = (id: number, content: Code): Code => [id, ...unsigned(content.length), ...content]
const name = (text: string): Code => [...unsigned(text.length), ...Buffer.from(text)]
