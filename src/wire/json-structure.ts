/** Where the structure of JSON text is: its quotes, and the brackets, commas and colons outside strings. */

import { CHUNK, type StructureKernel, structureKernel } from './structure-kernel.ts'

/** Finds the structure of one text after the other, chunk by chunk from its first byte. */
export interface StructureFinder {
  /** Positions within the chunk, in order: as many as `find` returned. */
  readonly positions: Uint32Array
  /**
   * Reads the next chunk, from `from` on; 0 begins a text. Returns how many positions it has; -1 if a string has a
   * control character or an invalid escape, or a backslash is outside strings. What ends within a string or an escape
   * is not reported.
   */
  find(bytes: Uint8Array, from: number): number
}

export { CHUNK }

/** The kernel works on blocks of this size. What is beyond the end of a text is filled with blanks. */
const BLOCK = 64
const BLANK = 0x20

class KernelFinder implements StructureFinder {
  readonly positions: Uint32Array

  constructor(private readonly kernel: StructureKernel) {
    this.positions = kernel.positions
  }

  find(bytes: Uint8Array, from: number): number {
    const { chunk, run } = this.kernel
    const length = Math.min(bytes.length - from, CHUNK)
    chunk.set(bytes.subarray(from, from + length))
    const whole = Math.ceil(length / BLOCK) * BLOCK
    chunk.fill(BLANK, length, whole)
    const end = run(whole, from === 0 ? 1 : 0)
    return end === -1 ? -1 : (end - CHUNK) / 4
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const LETTER_U = 0x75
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
  readonly positions = new Uint32Array(CHUNK)
  private isInString = false
  private isEscaped = false
  /** Hexadecimal digits that must follow. */
  private digits = 0

  find(bytes: Uint8Array, from: number): number {
    if (from === 0) {
      this.isInString = false
      this.isEscaped = false
      this.digits = 0
    }
    const end = Math.min(bytes.length, from + CHUNK)
    let found = 0
    for (let at = from; at < end; at++) {
      const byte = bytes[at] ?? 0
      const isSpecial = this.isInString ? this.inString(byte) : this.outside(byte)
      if (isSpecial === undefined) return -1
      if (isSpecial) this.positions[found++] = at - from
    }
    return found
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
