/** Which values a tag may have, and what stands for a name that is none. */

export const TAG_VALUE = '^[A-Za-z0-9._/@:-]{1,64}$'
const LEGAL = new RegExp(TAG_VALUE)

/**
 * The value of a tag for a name from elsewhere: a hash stands for one that no tag may have, such as the JSON by which
 * Claude Code names its user. `encoding`: that of the bytes whose hash is meant.
 */
export function legalTagValue(name: string, encoding: 'utf8' | 'latin1' = 'utf8'): string {
  if (LEGAL.test(name)) return name
  return `h:${new Bun.CryptoHasher('sha256').update(name, encoding).digest('base64url').slice(0, 22)}`
}
