/**
 * A copy of everything that `data_dir` must not lose, made while weir serves: the SQLite files, the journal of the
 * embedded ledger, the compaction key, what targets have taught and what providers' budgets have counted. The copy can
 * be used as `data_dir`.
 */

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fchownSync,
  fsyncSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { JOURNAL_FILE, OLD_JOURNAL_FILE } from '../ledger/embedded/journal-file.ts'
import { EmbeddedUsageLog } from '../ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE } from '../ledger/embedded/state-tables.ts'
import { FILE_MODE, FOLDER_MODE } from '../sqlite/private-files.ts'
import { snapshotDatabase } from '../sqlite/snapshot.ts'
import { COMPACTION_KEY_FILE } from './compaction-keys.ts'

interface CopiedFile {
  readonly name: string
  readonly bytes: number
}

/** Why there is no backup. `message` is one line for the operator. */
export class BackupProblem extends Error {
  override readonly name = 'BackupProblem'
}

/**
 * Makes `target`, which must not exist or be empty: everything is copied into a folder beside it, checked, flushed to
 * the disk, and then renamed, so that there is a whole backup or none. Another user may write to the folder above it
 * (`/tmp`): what is copied has a name that cannot be guessed, and nothing is written to what is there already. Throws
 * `BackupProblem` or `LedgerFileError`.
 */
export async function backUp(dataDir: string, target: string): Promise<readonly CopiedFile[]> {
  const names = readdirSync(dataDir)
  if (!names.some(isKept)) throw new BackupProblem(`${resolve(dataDir)} has nothing of weir to back up`)
  checkTarget(target)
  mkdirSync(dirname(resolve(target)), { recursive: true, mode: FOLDER_MODE })
  const draft = `${resolve(target)}.unfinished-${randomBytes(16).toString('hex')}`
  // Not recursive: it fails if there is anything of this name, also a symbolic link.
  mkdirSync(draft, { mode: FOLDER_MODE })
  const { ino } = lstatSync(draft)
  const isOwn = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.ino === ino
  try {
    // The copy of root must open for the user of the gateway, too.
    const like = process.geteuid?.() === 0 ? statSync(dataDir) : undefined
    const copied = copyAll(dataDir, names, draft, like)
    await checkLedger(draft)
    flush(draft)
    if (!isOwn(draft)) throw new BackupProblem(`${draft} was replaced while it was made; name a directory of your own`)
    if (like !== undefined) lchownSync(draft, like.uid, like.gid)
    renameSync(draft, resolve(target))
    return copied
  } catch (error) {
    if (isOwn(draft)) rmSync(draft, { recursive: true, force: true })
    throw error
  }
}

function checkTarget(target: string): void {
  const found = lstatSync(resolve(target), { throwIfNoEntry: false })
  if (found?.isSymbolicLink() === true)
    throw new BackupProblem(`${target} is a symbolic link; name the directory that it leads to`)
  if (found?.isDirectory() === false) throw new BackupProblem(`${target} is a file; name a directory`)
  if (found !== undefined && readdirSync(target).length > 0)
    throw new BackupProblem(`${target} is not empty; name a directory that is, or that does not exist`)
}

const JOURNALS = [JOURNAL_FILE, OLD_JOURNAL_FILE]

function isKept(name: string): boolean {
  return JOURNALS.includes(name) || name.endsWith('.sqlite') || isWhole(name)
}

/** Written under another name and renamed, so that each read finds a whole file. The charts begin anew. */
function isWhole(name: string): boolean {
  return name === COMPACTION_KEY_FILE || (name.endsWith('.json') && name !== 'history.json')
}

interface Owner {
  readonly uid: number
  readonly gid: number
}

/**
 * The journal first, and in it the current file first: what leaves the current file meanwhile is in the old one, and
 * what leaves the journal is in SQLite. A start finds what SQLite has and replays the rest.
 */
function copyAll(
  dataDir: string,
  names: readonly string[],
  draft: string,
  like: Owner | undefined,
): readonly CopiedFile[] {
  const make = (name: string, bytes?: Uint8Array) => makeFile(join(draft, name), like, bytes)
  for (const name of JOURNALS) {
    const lines = linesOf(join(dataDir, name))
    if (lines !== undefined) make(name, lines)
  }
  for (const name of names) {
    if (!name.endsWith('.sqlite')) continue
    make(name)
    snapshotDatabase(join(dataDir, name), join(draft, name))
  }
  for (const name of names) if (isWhole(name)) make(name, readFileSync(join(dataDir, name)))
  return readdirSync(draft)
    .sort()
    .map((name) => ({ name, bytes: lstatSync(join(draft, name)).size }))
}

/** Makes a new private file; fails if there is anything of this name. */
function makeFile(path: string, like: Owner | undefined, bytes: Uint8Array = new Uint8Array()): void {
  const file = openSync(path, 'wx', FILE_MODE)
  try {
    if (like !== undefined) fchownSync(file, like.uid, like.gid)
    writeFileSync(file, bytes)
  } finally {
    closeSync(file)
  }
}

const NEWLINE = 0x0a

/** The whole lines of a journal; the last one may be in the middle of being written. */
function linesOf(path: string): Uint8Array | undefined {
  // Gone since it was listed, or never made: SQLite has everything.
  if (!existsSync(path)) return undefined
  const bytes = readFileSync(path)
  return bytes.subarray(0, bytes.lastIndexOf(NEWLINE) + 1)
}

/** Reads the copy as a start does, which fails if a part of the journal is missing. */
async function checkLedger(draft: string): Promise<void> {
  if (!existsSync(join(draft, LEDGER_FILE))) return
  await new EmbeddedUsageLog(draft).read({ sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER })
}

function flush(folder: string): void {
  for (const path of [...readdirSync(folder).map((name) => join(folder, name)), folder]) {
    const file = openSync(path, 'r')
    fsyncSync(file)
    closeSync(file)
  }
}
