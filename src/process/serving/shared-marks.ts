/** The marks of thinking targets, in memory that all workers of a machine share. */

import { appendFileSync, chmodSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { MARKS } from '../../gateway/thought-memory.ts'
import { FILE_MODE } from '../../sqlite/private-files.ts'

const FILE = 'thinking'

/** Those of a `data_dir`. If its file cannot be used, all are set, so that thoughts are always looked up. */
export function sharedMarks(dataDir: string): Uint8Array {
  const path = join(dataDir, FILE)
  try {
    const missing = MARKS - (statSync(path, { throwIfNoEntry: false })?.size ?? 0)
    // Bytes and not a hole: a page for which a full disk has no room would end the process when it is written.
    if (missing > 0) appendFileSync(path, new Uint8Array(missing), { mode: FILE_MODE })
    chmodSync(path, FILE_MODE)
    return Bun.mmap(path, { shared: true })
  } catch {
    return new Uint8Array(MARKS).fill(1)
  }
}
