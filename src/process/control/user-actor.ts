/** Users of this machine, as the admin audit names those who changed something. */

import { readFileSync } from 'node:fs'
import type { Changer } from '../../keys/admin-audit.ts'

/** `uid:1000 (deploy)`; without the name if the machine's own list of users does not have it. */
export function userActor(uid: number): string {
  const name = nameOf(uid)
  return name === undefined ? `uid:${uid}` : `uid:${uid} (${name})`
}

/**
 * Who runs this command. It is the word of the command itself: a user that may write the store of the keys may write
 * anything into it.
 */
export function commandChanger(): Changer {
  return { source: 'cli', actor: userActor(process.getuid?.() ?? -1) }
}

/** The runtime's own `userInfo` believes the environment. */
function nameOf(uid: number): string | undefined {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
    return lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid))?.[0]
  } catch {
    return undefined
  }
}
