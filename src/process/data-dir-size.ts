/** How many bytes the files in `data_dir` have, for the metrics. */

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** weir keeps far fewer files. */
const ENTRIES_MAX = 1000

/** Undefined if the folder cannot be read. */
export async function bytesOf(folder: string): Promise<number | undefined> {
  try {
    const names = await readdir(folder)
    const sizes = await Promise.all(names.slice(0, ENTRIES_MAX).map((name) => sizeOf(join(folder, name))))
    return sizes.reduce((sum, size) => sum + size, 0)
  } catch {
    // It does not exist yet, or belongs to somebody else: the ledger reports what matters.
    return undefined
  }
}

/** 0 for a folder, and for a file that was deleted meanwhile. */
async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path)
    return found.isFile() ? found.size : 0
  } catch {
    return 0
  }
}
