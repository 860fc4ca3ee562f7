/** Where the structure of JSON text is: its quotes, and the brackets, commas and colons outside strings. */

import { BACKSLASH, LETTER_U, QUOTE } from '../core/json-bytes.ts'
import { CHUNK, POSITIONS_MAX, type StructureKernel, structureKernel } from './structure-kernel.ts'

/** Finds the structure of one text after the other. */
export interface StructureFinder {
  /** Positions in the text that was searched last, in order: as many as `find` returned. */
  readonly positions: Uint32Array
  /**
   * Returns how many positions the text has, which is the first `size` bytes, by default all of them. -1 if a string
   * has a control character or an invalid escape, or if a backslash is outside strings. A text that ends within a
   * string or an escape is not noticed.
   */
  find(bytes: Uint8Array, size?: number): number
}

export { POSITIONS_MAX }

/** The kernel works on blocks of this size. What is beyond the end of a text is filled with blanks. */
const BLOCK = 64
const BLANK = 0x20

class KernelFinder implements StructureFinder {
  positions: Uint32Array

  constructor(private readonly kernel: StructureKernel) {
    this.positions = kernel.positions
  }

  find(bytes: Uint8Array, size: number = bytes.length): number {
    const { chunk, run, positions } = this.kernel
    let earlier: Uint32Array[] | undefined
    let end = CHUNK
    for (let from = 0; from < size; from += CHUNK) {
      const length = Math.min(size - from, CHUNK)
      Buffer.prototype.copy.call(bytes, chunk, 0, from, from + length)
      let whole = length
      for (; whole % BLOCK > 0; whole++) chunk[whole] = BLANK
      end = run(whole, from, end)
      if (end === -1) return -1
      if (end <= POSITIONS_END) continue
      earlier ??= []
      earlier.push(positions.slice(0, (end - CHUNK) / 4))
      end = CHUNK
    }
    const count = (end - CHUNK) / 4
    this.positions = earlier === undefined ? positions : joined([...earlier, positions.subarray(0, count)])
    return earlier === undefined ? count : this.positions.length
  }
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  const whole = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** More of them do not stay in the kernel's memory. */
const POSITIONS_END = CHUNK + 4 * POSITIONS_MAX
const HEX_DIGITS = 4

const STRUCTURAL = tableOf('{}[],:')
const AFTER_BACKSLASH = tableOf('"\\/bfnrtu')
const HEX = tableOf('0123456789abcdefABCDEF')

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}

/** The same, byte by byte: the reference of the kernel, and its substitute. */
export class PlainFinder implements StructureFinder {
  positions = new Uint32Array(CHUNK)
  private isInString = false
  private isEscaped = false
  /** Hexadecimal digits that must follow. */
  private digits = 0

  find(bytes: Uint8Array, size: number = bytes.length): number {
    this.isInString = false
    this.isEscaped = false
    this.digits = 0
    const positions: number[] = []
    for (let at = 0; at < size; at++) {
      const byte = bytes[at] ?? 0
      const isSpecial = this.isInString ? this.inString(byte) : this.outside(byte)
      if (isSpecial === undefined) return -1
      if (isSpecial) positions.push(at)
    }
    this.positions = Uint32Array.from(positions)
    return positions.length
  }

  private outside(byte: number): boolean | undefined {
    if (byte === BACKSLASH) return undefined
    if (byte === QUOTE) this.isInString = true
    return this.isInString || STRUCTURAL[byte] === 1
  }

  private inString(byte: number): boolean | undefined {
    if (byte < BLANK) return undefined
    if (this.isEscaped) {
      this.isEscaped = false
      if (byte === LETTER_U) this.digits = HEX_DIGITS
      return AFTER_BACKSLASH[byte] === 1 ? false : undefined
    }
    if (this.digits > 0) {
      this.digits--
      return HEX[byte] === 1 ? false : undefined
    }
    if (byte === BACKSLASH) this.isEscaped = true
    if (byte === QUOTE) this.isInString = false
    return !this.isInString
  }
}

let kernelFinder: StructureFinder | undefined

/** The fastest there is. One for all texts: each is read to its end, or given up, before the next begins. */
export function structureFinder(): StructureFinder {
  kernelFinder ??= fastest()
  return kernelFinder
}

function fastest(): StructureFinder {
  const kernel = structureKernel()
  return kernel === undefined ? new PlainFinder() : new KernelFinder(kernel)
}
