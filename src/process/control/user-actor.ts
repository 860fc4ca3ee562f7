/** Users of this machine, as the admin audit names those who changed something. */

import { accountRows } from '../../assembly/data-dir.ts'
import type { Changer } from '../../keys/admin-audit.ts'

/** `uid:1000 (deploy)`; without the name if the machine's own list of users does not have it. */
export function userActor(uid: number): string {
  const name = accountRows('/etc/passwd').find(([, , id]) => id === String(uid))?.[0]
  return name === undefined ? `uid:${uid}` : `uid:${uid} (${name})`
}

/**
 * Who runs this command. It is the word of the command itself: a user that may write the store of the keys may write
 * anything into it.
 */
export function commandChanger(): Changer {
  return { source: 'cli', actor: userActor(process.getuid?.() ?? -1) }
}
