/** Who may read what is in `data_dir`: the user of the program alone. It holds what callers spent, and the key of their conversations. */

import { chmodSync, mkdirSync, statSync } from 'node:fs'

const FILE_MODE = 0o600
const FOLDER_MODE = 0o700
/** Any right of the group or of others. */
const SHARED = 0o077

/** Makes a folder that only its owner may enter; one that exists stays as the operator made it. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE })
}

/** Takes a file away from everybody but its owner: an earlier version, or a copy, may have left it readable. */
export function keepPrivate(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false })
  // A file of another user that we may write to is that user's to protect, and `chmod` would fail.
  if (stat === undefined || (stat.mode & SHARED) === 0 || stat.uid !== process.geteuid?.()) return
  chmodSync(path, FILE_MODE)
}
