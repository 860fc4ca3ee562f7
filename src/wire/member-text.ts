/**
 * Some members of an object within JSON text, found without parsing the others: the last event of some streams repeats
 * an answer of any length, and only its counts are new.
 */

import { CLOSE, CLOSE_LIST, COLON, COMMA, isEscaped, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'

/**
 * JSON text of an object with those members of the object's member `outer` that have one of the names; undefined if
 * there is no such object. The text of other members need not be valid.
 */
export function membersText(text: string, outer: string, names: ReadonlySet<string>): string | undefined {
  const scan = new Scan(text)
  if (!scan.open()) return undefined
  for (let name = scan.name(); name !== undefined; name = scan.name()) {
    if (name !== outer) scan.value()
    else return scan.open() ? chosen(scan, names) : undefined
  }
  return undefined
}

function chosen(scan: Scan, names: ReadonlySet<string>): string | undefined {
  const members: string[] = []
  for (let name = scan.name(); name !== undefined; name = scan.name()) {
    const value = scan.value()
    if (value === '') return undefined
    if (names.has(name)) members.push(`"${name}":${value}`)
  }
  return scan.isClosed ? `{${members.join(',')}}` : undefined
}

/** Goes over the members of an object. */
class Scan {
  private at = 0

  constructor(private readonly text: string) {}

  /** Steps into an object. */
  open(): boolean {
    this.blanks()
    if (this.text.charCodeAt(this.at) !== OPEN) return false
    this.at++
    return true
  }

  get isClosed(): boolean {
    return this.text.charCodeAt(this.at) === CLOSE
  }

  /** The next name, as it is written; undefined at the end of the object. */
  name(): string | undefined {
    this.blanks()
    if (this.text.charCodeAt(this.at) === COMMA) this.at++
    this.blanks()
    if (this.text.charCodeAt(this.at) !== QUOTE) return undefined
    const from = this.at + 1
    const end = this.stringEnd()
    this.blanks()
    if (end === -1 || this.text.charCodeAt(this.at) !== COLON) return undefined
    this.at++
    this.blanks()
    return this.text.slice(from, end)
  }

  /** Steps over a value, and returns it; '' if it does not end. */
  value(): string {
    const from = this.at
    let depth = 0
    for (; this.at < this.text.length; this.at++) {
      switch (this.text.charCodeAt(this.at)) {
        case QUOTE:
          if (this.stringEnd() === -1) return ''
          this.at--
          break
        case OPEN:
        case OPEN_LIST:
          depth++
          break
        case CLOSE:
        case CLOSE_LIST:
          if (depth-- === 0) return this.text.slice(from, this.at)
          break
        case COMMA:
          if (depth === 0) return this.text.slice(from, this.at)
          break
      }
    }
    return ''
  }

  /** Steps over the string that begins here, and returns the index of its closing quote; -1 if it does not end. */
  private stringEnd(): number {
    const { text } = this
    let end = text.indexOf('"', this.at + 1)
    while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
    this.at = end === -1 ? text.length : end + 1
    return end
  }

  private blanks(): void {
    while (this.text.charCodeAt(this.at) <= 0x20) this.at++
  }
}
