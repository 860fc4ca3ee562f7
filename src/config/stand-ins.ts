/**
 * Stand-ins for secrets that a command does not use. The service has them in its environment, and a shell that asks for
 * usage or for keys has not.
 */

import { createHash } from 'node:crypto'
import type { Path } from './problems.ts'

/** Sections whose references no such command needs. */
const UNUSED: ReadonlySet<unknown> = new Set(['admin', 'providers', 'compaction', 'alerts', 'tracing', 'responses'])
const SECRETS_OF_KEYS: ReadonlySet<unknown> = new Set(['key', 'sha256'])

/** True if the value at a path may be a stand-in for a command that works with the ledger and the keys. */
export function isUnused(path: Path): boolean {
  const [section, , list] = path
  return UNUSED.has(section) || (section === 'organizations' && list === 'keys' && SECRETS_OF_KEYS.has(path.at(-1)))
}

/** A value that the checks accept for every secret, and that no other path has. */
export function standInFor(path: Path): string {
  const digest = createHash('sha256').update(JSON.stringify(path)).digest()
  if (path[0] === 'alerts' && (path.at(-1) === 'webhook' || path.at(-1) === 'url')) {
    return `https://stand-in.invalid/${digest.toString('hex')}`
  }
  return path[0] === 'compaction' ? digest.toString('base64') : digest.toString('hex')
}
