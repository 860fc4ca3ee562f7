/**
 * A copy of everything that `data_dir` must not lose, made while weir serves: the SQLite files, the journal of the
 * embedded ledger, the compaction key. The copy can be used as `data_dir`.
 */

import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { JOURNAL_FILE, OLD_JOURNAL_FILE } from '../ledger/embedded/journal-file.ts'
import { EmbeddedUsageLog } from '../ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE } from '../ledger/embedded/state-tables.ts'
import { FILE_MODE, giveToOwner } from '../sqlite/private-files.ts'
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
 * the disk, and then renamed, so that there is a whole backup or none. Throws `BackupProblem` or `LedgerFileError`.
 */
export async function backUp(dataDir: string, target: string): Promise<readonly CopiedFile[]> {
  const names = readdirSync(dataDir)
  if (!names.some(isKept)) throw new BackupProblem(`${resolve(dataDir)} has nothing of weir to back up`)
  const found = statSync(target, { throwIfNoEntry: false })
  if (found?.isDirectory() === false) throw new BackupProblem(`${target} is a file; name a directory`)
  if (found !== undefined && readdirSync(target).length > 0)
    throw new BackupProblem(`${target} is not empty; name a directory that is, or that does not exist`)
  const draft = `${resolve(target)}.unfinished-${process.pid}`
  mkdirSync(draft, { recursive: true, mode: 0o700 })
  try {
    const copied = copyAll(dataDir, names, draft)
    await checkLedger(draft)
    // The copy of root must open for the user of the gateway, too.
    if (process.geteuid?.() === 0) for (const path of [draft, ...pathsIn(draft)]) giveToOwner(path, dataDir)
    flush(draft)
    renameSync(draft, resolve(target))
    return copied
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    throw error
  }
}

const JOURNALS = [JOURNAL_FILE, OLD_JOURNAL_FILE]

function isKept(name: string): boolean {
  return JOURNALS.includes(name) || name === COMPACTION_KEY_FILE || name.endsWith('.sqlite')
}

/**
 * The journal first, and in it the current file first: what leaves the current file meanwhile is in the old one, and
 * what leaves the journal is in SQLite. A start finds what SQLite has and replays the rest.
 */
function copyAll(dataDir: string, names: readonly string[], draft: string): readonly CopiedFile[] {
  for (const name of JOURNALS) copyJournal(join(dataDir, name), join(draft, name))
  for (const name of names) if (name.endsWith('.sqlite')) snapshotDatabase(join(dataDir, name), join(draft, name))
  if (names.includes(COMPACTION_KEY_FILE))
    writeFileSync(join(draft, COMPACTION_KEY_FILE), readFileSync(join(dataDir, COMPACTION_KEY_FILE)), {
      mode: FILE_MODE,
    })
  return readdirSync(draft)
    .sort()
    .map((name) => ({ name, bytes: statSync(join(draft, name)).size }))
}

const NEWLINE = 0x0a

/** The whole lines of the file; the last one may be in the middle of being written. */
function copyJournal(from: string, to: string): void {
  // Gone since it was listed, or never made: SQLite has everything.
  if (!existsSync(from)) return
  const bytes = readFileSync(from)
  writeFileSync(to, bytes.subarray(0, bytes.lastIndexOf(NEWLINE) + 1), { mode: FILE_MODE })
}

/** Reads the copy as a start does, which fails if a part of the journal is missing. */
async function checkLedger(draft: string): Promise<void> {
  if (!existsSync(join(draft, LEDGER_FILE))) return
  await new EmbeddedUsageLog(draft).read({ sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER })
}

function flush(folder: string): void {
  for (const path of [...pathsIn(folder), folder]) {
    const file = openSync(path, 'r')
    fsyncSync(file)
    closeSync(file)
  }
}

function pathsIn(folder: string): readonly string[] {
  return readdirSync(folder).map((name) => join(folder, name))
}
