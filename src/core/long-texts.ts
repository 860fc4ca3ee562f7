/**
 * The long texts of one request, kept as the bytes that the caller sent. In the parsed body a short mark stands for
 * each, so that a conversation of megabytes is checked and converted as a few kilobytes; in the provider's JSON each
 * mark is replaced by the bytes. Code that must read such a text calls `resolve`.
 */

/** Where a mark is, and what it stands for. */
interface Mark {
  /** The mark's own place in the text that was searched. */
  readonly start: number
  readonly end: number
  /** How many times the text around it was written as a JSON string: 0 for a value, 1 for JSON, 2 for JSON in JSON. */
  readonly level: number
  /** The bytes that it stands for, in the request: the inside of a JSON string, with its escapes. */
  readonly from: number
  readonly to: number
}

const BACKSLASH = 0x5c
const LINE_END = 0x0a
const SEMICOLON = 0x3b
const LETTER_N = 0x6e
const ZERO = 0x30

export class LongTexts {
  private readonly buffer: Buffer

  constructor(
    /** The whole request. */
    readonly bytes: Uint8Array,
    /**
     * The beginning of every mark: letters and digits that no caller can know, drawn for this request. So no text of
     * the request contains it.
     */
    private readonly secret: string,
    /** The first byte of each text, and the byte after its last, in turn. */
    private readonly bounds: readonly number[],
    /** Commas and colons within long arguments of tool calls, for the limit on all arguments together. */
    readonly argumentValues: number,
  ) {
    this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /**
   * The mark of a text as it is written within a JSON string. Its line end shows how often the text around it was
   * written as JSON: each time, the number of backslashes before the `n` doubles. It begins and ends with a solid
   * character, so that no trimming touches the line end.
   */
  static mark(secret: string, index: number): string {
    return `${secret}\\n${index};`
  }

  /** The first mark in a text at or after `from`. */
  markIn(text: string, from: number): Mark | undefined {
    // Most texts are shorter than a mark, and a native search takes longer than this.
    if (text.length - from < this.secret.length) return undefined
    const start = text.indexOf(this.secret, from)
    if (start === -1) return undefined
    let at = start + this.secret.length
    const backslashesAt = at
    while (text.charCodeAt(at) === BACKSLASH) at++
    const backslashes = at - backslashesAt
    const level = backslashes === 0 ? 0 : 32 - Math.clz32(backslashes)
    if (text.charCodeAt(at++) !== (level === 0 ? LINE_END : LETTER_N)) throw new Error('the mark of a text was changed')
    let index = 0
    for (let code = text.charCodeAt(at++); code !== SEMICOLON; code = text.charCodeAt(at++))
      index = index * 10 + code - ZERO
    const [bound, to] = [this.bounds[2 * index], this.bounds[2 * index + 1]]
    if (bound === undefined || to === undefined) throw new Error('a mark stands for no text')
    return { start, end: at, level, from: bound, to }
  }

  /** The text with the real text in place of each mark. Marks within JSON in it stay. */
  resolve(text: string): string {
    let resolved = ''
    let at = 0
    for (let mark = this.markIn(text, 0); mark !== undefined; mark = this.markIn(text, mark.end)) {
      if (mark.level > 0) continue
      resolved += text.slice(at, mark.start) + this.textOf(mark)
      at = mark.end
    }
    return at === 0 ? text : resolved + text.slice(at)
  }

  /** The UTF-8 of JSON with the bytes in place of each mark: one copy of each text, and none of them decoded. */
  fill(json: string): Uint8Array {
    const marks: Mark[] = []
    const nested: (string | undefined)[] = []
    let size = Buffer.byteLength(json)
    for (let mark = this.markIn(json, 0); mark !== undefined; mark = this.markIn(json, mark.end)) {
      const inner = mark.level > 1 ? this.escaped(mark) : undefined
      marks.push(mark)
      nested.push(inner)
      size += (inner === undefined ? mark.to - mark.from : Buffer.byteLength(inner)) - (mark.end - mark.start)
    }
    const filled = Buffer.allocUnsafeSlow(size)
    let [at, read] = [0, 0]
    for (const [index, mark] of marks.entries()) {
      at += filled.write(json.slice(read, mark.start), at)
      const inner = nested[index]
      at += inner === undefined ? this.buffer.copy(filled, at, mark.from, mark.to) : filled.write(inner, at)
      read = mark.end
    }
    filled.write(json.slice(read), at)
    return filled
  }

  /** A text in JSON within JSON, with the escapes that `JSON.stringify` writes: the inner JSON is a text of its own. */
  private escaped(mark: Mark): string {
    let inner = this.textOf(mark)
    for (let nesting = 0; nesting < mark.level; nesting++) inner = JSON.stringify(inner).slice(1, -1)
    return inner
  }

  private textOf({ from, to }: Mark): string {
    return JSON.parse(`"${this.buffer.toString('utf8', from, to)}"`)
  }
}
