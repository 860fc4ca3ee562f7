/** How many bytes the files in `data_dir` have, for the metrics. */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** weir keeps far fewer files. */
const ENTRIES_MAX = 1000

/** Undefined if the folder cannot be read. */
export function bytesIn(folder: string): number | undefined {
  try {
    const names = readdirSync(folder).slice(0, ENTRIES_MAX)
    return names.reduce((sum, name) => sum + bytesOf(join(folder, name)), 0)
  } catch {
    // It does not exist yet, or belongs to somebody else: the ledger reports what matters.
    return undefined
  }
}

/** 0 for a folder or a socket, and for a file that was deleted meanwhile. */
function bytesOf(path: string): number {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true ? found.size : 0
}
