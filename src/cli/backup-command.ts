/** `weir backup`: copies what `data_dir` must not lose, while weir serves. */

import { BackupProblem, backUp } from '../assembly/backup.ts'
import { accessProblem } from '../assembly/data-dir.ts'
import { LedgerFileError } from '../sqlite/database.ts'
import { exit, failed, parseFlags } from './command.ts'
import { locateDataDir } from './ledger-access.ts'

/** Returns the exit code. */
export async function backup(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'backup')
  const place = await locateDataDir(flags['config'])
  const { dataDir } = place
  const denied = accessProblem(dataDir)
  if (denied !== undefined) return failed(denied)
  try {
    const files = await backUp(dataDir, argument)
    const listed = files.map(({ name, bytes }) => `${name} (${bytes} bytes)`)
    process.stdout.write(`${dataDir} is backed up in ${argument}: ${listed.join(', ')}\n`)
    return exit.done
  } catch (error) {
    return failed(lineOf(error))
  }
}

function lineOf(error: unknown): string {
  if (error instanceof BackupProblem || error instanceof LedgerFileError) return error.message
  // Of the file system: a missing folder, a full disk, missing rights.
  if (error instanceof Error && 'code' in error) return `no backup was made: ${error.message}`
  throw error
}
