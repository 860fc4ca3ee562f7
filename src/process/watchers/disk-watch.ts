/** The disk of `data_dir`: what weir takes of it, and a log line when it is nearly full, before the ledger fails. */

import { readdirSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '../../logging/log.ts'
import { logEvent } from '../../logging/log-events.ts'

/** The share of free space below which the disk is nearly full. */
const LOW = 0.1
/** It is no longer nearly full above this share, so that a disk at the edge is not logged again and again. */
const ENOUGH = 0.12
const LOOK_MS = 60_000

interface Space {
  readonly freeBytes: number
  readonly totalBytes: number
}

/** What unprivileged processes may use of the file system; undefined if it cannot be read. */
export function spaceOf(folder: string): Space | undefined {
  try {
    const { bsize, bavail, blocks } = statfsSync(folder)
    return { freeBytes: bsize * bavail, totalBytes: bsize * blocks }
  } catch {
    // The folder does not exist, or its file system has no such figures: the ledger reports what matters.
    return undefined
  }
}

export class DiskWatch {
  private isLow = false

  constructor(
    private readonly folder: string,
    private readonly logger: Logger,
    private readonly space: () => Space | undefined = () => spaceOf(folder),
  ) {}

  /** Looks now and each minute, for as long as the process lives. */
  start(): void {
    this.look()
    setInterval(() => this.look(), LOOK_MS).unref()
  }

  look(): void {
    const space = this.space()
    if (space === undefined || space.totalBytes === 0) return
    const share = space.freeBytes / space.totalBytes
    const fields = {
      data_dir: this.folder,
      free_bytes: space.freeBytes,
      free_percent: Math.round(share * 1000) / 10,
    }
    if (!this.isLow && share < LOW) {
      this.isLow = true
      logEvent(this.logger, 'disk.low', fields)
    } else if (this.isLow && share > ENOUGH) {
      this.isLow = false
      logEvent(this.logger, 'disk.recovered', fields)
    }
  }
}

/** weir keeps far fewer files. */
const ENTRIES_MAX = 1000

/** How many bytes the files in a folder have. Undefined if the folder cannot be read. */
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
