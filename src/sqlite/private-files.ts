/**
 * File modes of `data_dir`: only weir's own user may read it, because it holds callers' spending and the key of their
 * conversations.
 */

import { chmodSync, chownSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export const FILE_MODE = 0o600
export const FOLDER_MODE = 0o700
/** Every right of the group and of others. */
const SHARED = 0o077

/** Creates a folder that only its owner may enter; an existing one keeps its mode (`sharedProblem` judges that). */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE })
}

/**
 * Removes the rights of everybody but the owner: an earlier version, or a copy, may have left the file readable. What
 * root makes belongs to the owner of the folder: a command that root runs before the first start of the service would
 * leave a file that the service cannot open.
 */
export function keepPrivate(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.uid === 0 && process.geteuid?.() === 0) giveToOwner(path, dirname(path))
  // On another user's file `chmod` would fail.
  if (stat === undefined || (stat.mode & SHARED) === 0 || stat.uid !== process.geteuid?.()) return
  chmodSync(path, FILE_MODE)
}

/** Lets `path` belong to the user and group of `like`. Only root may. */
function giveToOwner(path: string, like: string): void {
  const { uid, gid } = statSync(like)
  chownSync(path, uid, gid)
}
