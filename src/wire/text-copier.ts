/**
 * Copies the texts of frames to the caller's events with the copy kernel, in whose memory the events stay until they
 * are written: most are in the same turn of the event loop.
 */

import {
  AFTER_LENGTH,
  BEFORE_LENGTH,
  type CopyKernel,
  copyKernel,
  EVENT,
  EVENT_BYTES_MAX,
  HAS_NUMBER,
  HOLE_COUNT,
  HOLES,
  HOLES_MAX,
  INPUT,
  INPUT_BYTES_MAX,
  NEXT,
  OUTPUT,
  OUTPUT_END,
  OUTPUT_TO,
  PIECES,
  PIECES_BYTES_MAX,
  SEAM_LENGTH,
  TAIL_LENGTH,
  TEXTS,
  TEXTS_TO,
} from './copy-kernel.ts'

/** Frames that follow each other, from the first text on. Byte text. */
export interface FrameForm {
  /** All that stands between two holes; the last piece ends a frame and begins the next one. */
  readonly pieces: readonly string[]
  /** The kinds of the holes after the text, such as `STRING_HOLE`. */
  readonly holes: readonly number[]
  /** The length of that part of the last piece that ends a frame. */
  readonly tailLength: number
}

/** The caller's events, which differ in their text and, in some dialects, in a number that counts them. */
export interface TextForm {
  /** The beginning of the next event, up to its text. */
  readonly opening: string
  /** The end of an event and the beginning of the one after it, up to its text or number. */
  readonly seam: string
  /** The number of the next event, if events have one. */
  readonly number?: number
  /** What stands between number and text. */
  readonly middle?: string
  /** The end of an event. */
  readonly closing: string
}

/** Whose events are in the kernel's memory. */
export interface EventOwner {
  /** The memory is another's from now on. The text of the events. */
  displaced(events: string): void
}

/** A UTF-16 unit takes at most so many bytes of UTF-8. */
const BYTES_A_UNIT = 3
const BYTES_A_HOLE = 2
const NO_BYTES = new Uint8Array(0)

/** `copy` needs no view of a part of the bytes, which takes 0.7 µs in a server. */
const { copy, latin1Write, utf8Write, latin1Slice, utf8Slice } = Buffer.prototype

export class TextCopier {
  private owner: EventOwner | undefined
  /** The end of the owner's events. */
  private end = OUTPUT
  private loaded: FrameForm | undefined
  private frames: FrameForm | undefined
  private input: Uint8Array = NO_BYTES
  private from = 0
  private to = 0
  private isPlain = false
  /** Frames of the last run. */
  private count = 0
  /** The texts that were copied last, in one string: the inside of a JSON string. */
  joined = ''

  constructor(private readonly kernel: CopyKernel) {}

  /** The frames to copy from: the first text begins at `from`, the last frame ends at `to`. `isPlain`: it is ASCII. */
  offer(frames: FrameForm, input: Uint8Array, from: number, to: number, isPlain: boolean): void {
    this.frames = frames
    this.input = input
    this.from = from
    this.to = to
    this.isPlain = isPlain
  }

  /**
   * Copies texts of the offered frames. Returns how many; the events are in the memory after the owner's and after
   * `before`, and are the owner's with `keep`. The texts are those that a template takes (`Template.frameEnd`).
   */
  copy(form: TextForm, before: string, owner: EventOwner): number {
    const { frames, input, from, to: inputTo, isPlain, kernel } = this
    const { memory, table } = kernel
    this.input = NO_BYTES
    if (frames === undefined || !this.isLoaded(frames)) return 0
    if (this.owner !== owner) this.displace()
    const { opening, seam, number, middle = '', closing } = form
    const length = BYTES_A_UNIT * (seam.length + middle.length)
    const ends = BYTES_A_UNIT * (before.length + opening.length + closing.length)
    if (length > EVENT_BYTES_MAX || ends > OUTPUT_END - this.end) return 0
    table[BEFORE_LENGTH] = this.write(seam, EVENT)
    table[AFTER_LENGTH] = this.write(middle, EVENT + (table[BEFORE_LENGTH] ?? 0))
    table[HAS_NUMBER] = number === undefined ? 0 : 1
    const size = Math.min(inputTo - from, INPUT_BYTES_MAX)
    copy.call(input, memory, INPUT, from, from + size)
    const out = this.end + this.write(before, this.end)
    this.count = kernel.run(INPUT, INPUT + size, out + this.write(opening, out), number ?? 0)
    if (this.count === 0) return 0
    const to = table[TEXTS_TO] ?? 0
    this.joined = isPlain ? latin1Slice.call(memory, TEXTS, to) : utf8Slice.call(memory, TEXTS, to)
    // Ill-formed bytes, or this character itself.
    if (!isPlain && this.joined.includes('\ufffd')) this.count = 0
    return this.count
  }

  /** Where the first frame begins, in the offered bytes, that was not copied. */
  get next(): number {
    return this.from + (this.kernel.table[NEXT] ?? 0) - INPUT
  }

  /** The number in a hole of the last frame that was copied. */
  numberIn(hole: number): number {
    const { memory, spans } = this.kernel
    const at = BYTES_A_HOLE * (hole + HOLES_MAX * ((this.count - 1) % 2))
    return Number(latin1Slice.call(memory, spans[at], spans[at + 1]))
  }

  /** The events that were copied last, with the end of the last one, are the owner's. */
  keep(owner: EventOwner, { closing }: TextForm): void {
    const to = this.kernel.table[OUTPUT_TO] ?? 0
    this.owner = owner
    this.end = to + this.write(closing, to)
  }

  /** Bytes of the owner's events. */
  get size(): number {
    return this.end - OUTPUT
  }

  /** The owner's events, and a text after them. To be written or copied before anything else is done. */
  take(after: string): Uint8Array {
    const { end } = this
    const { memory } = this.kernel
    this.owner = undefined
    this.end = OUTPUT
    if (BYTES_A_UNIT * after.length > OUTPUT_END - end)
      return Buffer.concat([memory.subarray(OUTPUT, end), Buffer.from(after)])
    return new Uint8Array(memory.buffer, OUTPUT, end - OUTPUT + this.write(after, end))
  }

  private displace(): void {
    const { owner, end } = this
    this.owner = undefined
    this.end = OUTPUT
    owner?.displaced(utf8Slice.call(this.kernel.memory, OUTPUT, end))
  }

  private write(text: string, at: number): number {
    return text === '' ? 0 : utf8Write.call(this.kernel.memory, text, at, BYTES_A_UNIT * text.length)
  }

  /** False if the frames have more holes, or longer pieces, than the kernel takes. */
  private isLoaded(frames: FrameForm): boolean {
    if (this.loaded === frames) return true
    const { memory, table } = this.kernel
    const { holes, pieces, tailLength } = frames
    const all = pieces.join('')
    if (all.length > PIECES_BYTES_MAX || holes.length > HOLES_MAX) return false
    this.loaded = frames
    latin1Write.call(memory, all, PIECES, all.length)
    table[HOLE_COUNT] = holes.length
    table[SEAM_LENGTH] = pieces[holes.length]?.length ?? 0
    table[TAIL_LENGTH] = tailLength
    for (const [at, hole] of holes.entries()) {
      table[HOLES + BYTES_A_HOLE * at] = pieces[at]?.length ?? 0
      table[HOLES + BYTES_A_HOLE * at + 1] = hole
    }
    return true
  }
}

/** Made for the first long read of a stream. Undefined: this machine has no such kernel. */
let made: TextCopier | undefined
let isMade = false

/** The copier of this process; undefined if it has no kernel, so that texts are copied as strings. */
export function textCopier(): TextCopier | undefined {
  if (!isMade) {
    const kernel = copyKernel()
    made = kernel && new TextCopier(kernel)
    isMade = true
  }
  return made
}
