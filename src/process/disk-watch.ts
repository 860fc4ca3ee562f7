/** Logs when the disk of `data_dir` is nearly full, before the ledger fails for it. */

import { statfsSync } from 'node:fs'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'

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
