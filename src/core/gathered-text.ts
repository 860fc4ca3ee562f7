/** A text of many small pieces: strings that are joined one by one keep each piece, at six times the memory. */

const PART_CHARS = 4096

export class GatheredText {
  private readonly parts: string[] = []
  private tail = ''
  private partChars = 0

  get length(): number {
    return this.partChars + this.tail.length
  }

  add(text: string): void {
    this.tail += text
    if (this.tail.length < PART_CHARS) return
    // Makes one string of the pieces, in half the bytes if it is ASCII; reading a character of it does not.
    this.tail = JSON.parse(JSON.stringify(this.tail))
    this.parts.push(this.tail)
    this.partChars += this.tail.length
    this.tail = ''
  }

  toString(): string {
    return this.parts.join('') + this.tail
  }
}
