/**
 * The members of a JSON object as the bytes that spell them: what goes on unchanged is sent from where it stands, and a body of
 * pictures is not held as text, as values and as text again.
 */

export interface Member {
  readonly name: string
  /** The name, the colon and the value: a view of the object's bytes. */
  readonly bytes: Uint8Array
}

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN = 0x7b
const CLOSE = 0x7d

/**
 * The members in order, of a name that comes twice the last alone, as parsers have it. `bytes` must spell a JSON object; whoever calls
 * has parsed it.
 */
export function membersOf(bytes: Uint8Array): readonly Member[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const members = new Map<string, Member>()
  let at = buffer.indexOf(OPEN) + 1
  for (;;) {
    const start = buffer.indexOf(QUOTE, at)
    if (start === -1) break
    const nameEnd = closingQuote(buffer, start) + 1
    const end = valueEnd(buffer, nameEnd)
    const name = String(JSON.parse(buffer.toString('utf8', start, nameEnd)))
    members.delete(name)
    members.set(name, { name, bytes: buffer.subarray(start, end) })
    if (buffer[end] !== COMMA) break
    at = end + 1
  }
  return [...members.values()]
}

/** Where the value that begins behind `at` ends: at the comma or the brace of the object itself. Strings are skipped with native searches. */
function valueEnd(buffer: Buffer, from: number): number {
  let depth = 0
  for (let at = from; at < buffer.length; at++) {
    switch (buffer[at]) {
      case QUOTE:
        at = closingQuote(buffer, at)
        break
      case OPEN:
      case OPEN_LIST:
        depth++
        break
      case CLOSE:
      case CLOSE_LIST:
        if (depth-- === 0) return at
        break
      case COMMA:
        if (depth === 0) return at
        break
    }
  }
  throw new Error('these bytes spell no JSON object')
}

function closingQuote(buffer: Buffer, open: number): number {
  for (let at = buffer.indexOf(QUOTE, open + 1); at !== -1; at = buffer.indexOf(QUOTE, at + 1)) {
    let before = at - 1
    while (buffer[before] === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
  }
  throw new Error('these bytes spell no JSON object')
}

/** An object of these members, behind a first one. */
export function writeMembers(first: readonly [name: string, value: string], members: readonly Member[]): Uint8Array[] {
  const [name, value] = first
  const pieces: Uint8Array[] = [Buffer.from(`{${JSON.stringify(name)}:${JSON.stringify(value)}`)]
  for (const member of members) pieces.push(Buffer.of(COMMA), member.bytes)
  pieces.push(Buffer.of(CLOSE))
  return pieces
}
