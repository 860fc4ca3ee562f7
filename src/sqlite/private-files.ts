/**
 * The files of `data_dir` and their modes: only weir's own user may read it, because it holds callers' spending and the
 * key of their conversations.
 */

import { chmodSync, chownSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type JsonObject, parseObject } from '../core/json.ts'

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

/**
 * A small file that weir can do without: what is lost with it is learned again. Empty if there is none, or none that
 * can be read. From then on only weir's own user may read it.
 */
export function readSmallFile(path: string): JsonObject {
  try {
    keepPrivate(path)
    return parseObject(readFileSync(path, 'utf8')) ?? {}
  } catch (error) {
    if (error instanceof Error && 'code' in error) return {}
    throw error
  }
}

/** A reader never sees half of it. A full disk loses nothing but this: it has an alert of its own. */
export function writeSmallFile(path: string, text: string): void {
  try {
    writeFileSync(`${path}.new`, `${text}\n`, { mode: FILE_MODE })
    renameSync(`${path}.new`, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error
  }
}
