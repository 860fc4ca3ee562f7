/**
 * The thoughts of an answer in numbered blocks (Anthropic, Bedrock): each is gathered with the signature that it must
 * come back with.
 */

import { GatheredText } from '../core/gathered-text.ts'

/** Longer thoughts, and longer signatures, are not kept. */
const CHARS_MAX = 1024 * 1024

interface Thought {
  readonly words: GatheredText
  signature: string
}

/** One per stream. */
export class ThoughtBlocks {
  /** Those that have not ended. */
  private readonly open = new Map<number, Thought>()
  /** The one that the last words belong to. */
  private last: Thought | undefined

  begin(block: number, signature = ''): void {
    this.last = { words: new GatheredText(), signature }
    this.open.set(block, this.last)
  }

  /** What follows belongs to this block, which begins if it is not open. */
  goOn(block: number): void {
    const open = this.open.get(block)
    if (open === undefined) this.begin(block)
    else this.last = open
  }

  /** Words of the block that began or went on last. */
  add(words: string): void {
    if (this.last !== undefined && this.last.words.length < CHARS_MAX) this.last.words.add(words)
  }

  /** A part of the signature of a block. */
  sign(block: number, signature: string): void {
    const open = this.open.get(block)
    if (open !== undefined && open.signature.length < CHARS_MAX) open.signature += signature
  }

  /** A block of any kind ends. Undefined if it is no thought, or one that is too long. */
  end(block: number): { readonly words: string; readonly signature: string } | undefined {
    const ended = this.open.get(block)
    this.open.delete(block)
    if (ended === this.last) this.last = undefined
    if (ended === undefined || ended.words.length >= CHARS_MAX) return undefined
    return { words: ended.words.toString(), signature: ended.signature }
  }
}
