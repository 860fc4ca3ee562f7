/** Opens Redis ledgers and data directories for a test file; closes and removes them after each test. */

import { afterEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { WhenUnreachable } from '../../src/ledger/redis/node-health.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'

export interface Opened {
  /** Closed after the test. A test adds what it opens by itself, and removes what it has closed. */
  readonly open: { close(): unknown }[]
  /** A new directory. */
  directory(): string
  /** `timeoutMs`: how long a call may take, if the test is not to depend on how busy the machine is. */
  ledgerOn(url: string, at?: string, timeoutMs?: number, unreachable?: WhenUnreachable): Promise<RedisLedger>
}

/** Call it once, at the top of a test file. */
export function opened(): Opened {
  const open: Opened['open'] = []
  const directories: string[] = []
  const directory = () => {
    const made = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
    directories.push(made)
    return made
  }
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close()
    for (const one of directories.splice(0)) rmSync(one, { recursive: true, force: true })
  })
  return {
    open,
    directory,
    async ledgerOn(url, at = directory(), timeoutMs = undefined, unreachable = 'refuse') {
      const ledger = await RedisLedger.open({ kind: 'single', url, timeoutMs }, at, unreachable)
      open.push(ledger)
      return ledger
    },
  }
}
