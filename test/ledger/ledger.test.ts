/** Runs the suite of `conformance.ts` for every kind of ledger. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LedgerServer } from '../../src/ledger/embedded/socket/ledger-server.ts'
import { SharedLedger } from '../../src/ledger/embedded/socket/shared-ledger.ts'
import { conformance, type Installation } from './conformance.ts'
import { REDIS, VALKEY } from './programs.ts'
import { RedisServer } from './redis-server.ts'

function embedded(): Installation {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  return {
    name: 'embedded',
    place: { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir },
    open: async () => undefined,
    close: async () => rmSync(dataDir, { recursive: true, force: true }),
  }
}

function shared(): Installation {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  let server: LedgerServer | undefined
  return {
    name: 'shared embedded',
    place: { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir },
    ledger: () => SharedLedger.open(dataDir),
    open: async () => {
      server = new LedgerServer(dataDir)
    },
    close: async () => {
      server?.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

function redis(name: string, program: string): Installation {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  let server: RedisServer | undefined
  return {
    name,
    get place() {
      const url = server?.socket ?? ''
      return {
        ledger: { kind: 'redis', redis: { kind: 'single', url } },
        ledgerUnreachable: 'refuse',
        dataDir,
      } as const
    },
    open: async () => {
      server = await RedisServer.of(program)
    },
    close: async () => {
      await server?.[Symbol.asyncDispose]()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

conformance(embedded())
conformance(shared())
conformance(redis('Redis', REDIS))
if (VALKEY !== undefined) conformance(redis('Valkey', VALKEY))
