/** Encodes commands for Redis (RESP). */

/** The beginning of a command of `count` words. */
export function respCommand(count: number): string {
  return `*${count}\r\n`
}

/** One word of a command. */
export function respWord(word: string | number): string {
  if (typeof word === 'number') {
    const digits = String(word)
    return `$${digits.length}\r\n${digits}\r\n`
  }
  return `$${Buffer.byteLength(word)}\r\n${word}\r\n`
}
