/** Redis over TLS: weir connects only with a valid certificate, and reports what is wrong in one line. */

import { beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { openRedisKeyStore } from '../../src/keys/redis-key-store.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisUnfitError } from '../../src/redis/redis-errors.ts'
import { accountOf, chargeOf, holdOf } from '../ledger/conformance.ts'
import { opened } from '../ledger/opened.ts'
import { REDIS } from '../ledger/programs.ts'
import { RedisServer } from '../ledger/redis-server.ts'
import { failureOf, totals, until } from '../ledger/seen.ts'
import { lastingPort } from '../support/ports.ts'

const FOLDER = join(import.meta.dir, '../fixtures/tls')
const path = (name: string) => join(FOLDER, name)
const pem = (name: string) => readFileSync(path(name), 'utf8')
const CA = { ca: pem('authority.crt') }
const CLIENT = { certificate: pem('client.crt'), key: pem('client.key') }

type Certificate = 'good' | 'expired' | 'wrong-name' | 'self-signed'

const { open, directory } = opened()

beforeAll(() => {
  const { stderr, stdout } = Bun.spawnSync([REDIS, '--port', '0', '--tls-port', '0', '--loglevel', 'nonsense'])
  // Redis rejects unknown options in the order of the command line.
  const output = `${stdout}${stderr}`
  if (output.includes("'tls-port")) throw new Error(`${REDIS} was built without TLS. Use Debian's package.`)
})

async function openAt(place: RedisConfig): Promise<RedisLedger> {
  const ledger = await RedisLedger.open(place, directory(), 'refuse')
  open.push(ledger)
  return ledger
}

function files(name: Certificate): readonly string[] {
  const key = name === 'self-signed' ? 'self-signed.key' : 'leaf.key'
  return ['--tls-cert-file', path(`${name}.crt`), '--tls-key-file', path(key)]
}

interface Secure {
  readonly server: RedisServer
  readonly port: number
  readonly url: string
}

/** A server with TLS on its port. The tests read it through its Unix socket. */
async function secure(name: Certificate, ...settings: readonly string[]): Promise<Secure> {
  const port = await lastingPort()
  const tls = ['--tls-port', String(port), ...files(name), '--tls-ca-cert-file', path('client.crt')]
  const server = await RedisServer.start(...tls, '--tls-auth-clients', 'no', ...settings)
  return { server, port, url: `rediss://127.0.0.1:${port}` }
}

/** Makes the server require a password. */
async function locked(server: RedisServer): Promise<void> {
  await server.client().config('SET', 'requirepass', 'secret')
}

async function works(ledger: RedisLedger, server: RedisServer): Promise<void> {
  // It opens without Redis, too, and on a busy machine the handshakes take longer than the start waits.
  await until(() => ledger.health().ready)
  const account = accountOf()
  expect(await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))).toBe('settled')
  expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
}

/** The message with which the start fails. */
async function refusal(place: RedisConfig): Promise<string> {
  const error = await openAt(place).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof RedisUnfitError)) throw new Error(`It opened, or failed with another error: ${error}`)
  expect(error.message).not.toContain('\n')
  return error.message
}

test('a CA of the operator is trusted if `tls.ca` names it', async () => {
  const { server, url } = await secure('good')
  await using _ = server
  await works(await openAt({ kind: 'single', url, tls: CA }), server)
})

const UNTRUSTED = (code: string) =>
  `The Redis certificate is not signed by a trusted CA (${code}). Set \`ledger.tls.ca\`.`
const EXPIRED = 'The Redis certificate has expired (CERT_HAS_EXPIRED).'
const OTHER_NAME = /^The Redis certificate is for another name than the address in the configuration \(.*127\.0\.0\.1/

describe('at the start, one line reports', () => {
  test.each([
    ['a certificate of an unknown CA', 'good', undefined, UNTRUSTED('UNABLE_TO_VERIFY_LEAF_SIGNATURE')],
    ['a self-signed certificate', 'self-signed', CA, UNTRUSTED('DEPTH_ZERO_SELF_SIGNED_CERT')],
    ['an expired certificate', 'expired', CA, EXPIRED],
    ['a certificate for another name', 'wrong-name', CA, OTHER_NAME],
  ] as const)('%s', async (_, name, tls, words) => {
    const { server, url } = await secure(name)
    await using _server = server
    const message = await refusal({ kind: 'single', url, tls })
    if (typeof words === 'string') expect(message).toBe(words)
    else expect(message).toMatch(words)
    // Commands for keys report the same.
    await expect(openRedisKeyStore({ kind: 'single', url, tls })).rejects.toThrow(message)
  })

  test('a server without TLS at rediss://, and one with TLS at redis://', async () => {
    const { server, port } = await secure('good')
    await using _ = server
    const plain = await lastingPort()
    await using other = await RedisServer.start('--port', String(plain))
    await locked(other)
    const [toPlain, toSecure] = [`rediss://127.0.0.1:${plain}`, `redis://127.0.0.1:${port}`]
    expect(await refusal({ kind: 'single', url: toPlain, tls: CA })).toBe(
      'Redis does not speak TLS at an address that begins with rediss://. Use its TLS port, or write redis://.',
    )
    expect(await refusal({ kind: 'single', url: toSecure })).toBe(
      'Redis speaks TLS at an address that begins with redis://. Write rediss://.',
    )
  })

  test('a wrong password', async () => {
    const { server, url } = await secure('good')
    await using _ = server
    await locked(server)
    const place = (password: string): RedisConfig => ({
      ...{ kind: 'single', url: url.replace('rediss://', `rediss://:${password}@`) },
      tls: CA,
    })
    expect(await refusal(place('wrong'))).toContain('WRONGPASS')
    expect(await openAt(place('secret'))).toBeInstanceOf(RedisLedger)
  })

  test('a client certificate that Redis requires and that is not configured', async () => {
    const { server, url } = await secure('good', '--tls-auth-clients', 'yes')
    await using _ = server
    expect(await refusal({ kind: 'single', url, tls: CA })).toContain('Set `ledger.tls.certificate`')
    await works(await openAt({ kind: 'single', url, tls: { ...CA, ...CLIENT } }), server)
  })
})

describe('at run time the ledger is not ready, reports the cause, and recovers on its own', () => {
  test.each([
    ['expired', EXPIRED],
    ['wrong-name', OTHER_NAME],
    ['self-signed', UNTRUSTED('DEPTH_ZERO_SELF_SIGNED_CERT')],
  ] as const)('%s', async (name, words) => {
    const { server, url } = await secure('good')
    await using _ = server
    const ledger = await openAt({ kind: 'single', url, tls: CA })
    const account = accountOf()
    const running = await ledger.reserve(account, holdOf(100))
    const client = server.client()
    const show = async (certificate: Certificate) => {
      const [, crt, , key] = files(certificate)
      await client.call('CONFIG', 'SET', 'tls-cert-file', crt ?? '', 'tls-key-file', key ?? '')
      await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    }
    await show(name)
    await until(() => /certificate/.test(ledger.health().complaint ?? ''))
    const { ready, complaint } = ledger.health()
    expect(ready).toBe(false)
    if (typeof words === 'string') expect(complaint).toBe(words)
    else expect(complaint).toMatch(words)
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
    expect(await failureOf(ledger.extend(running, running.held, running.held))).toBe('ledger_unavailable')
    expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
    expect(ledger.health().pending).toBe(1)
    await show('good')
    await until(() => ledger.health().ready && ledger.health().pending === 0)
    expect(ledger.health().complaint).toBeUndefined()
    expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
  })
})

test('a server that comes back without TLS is not used until it has TLS again', async () => {
  const { server, port, url } = await secure('good')
  await using _ = server
  const ledger = await openAt({ kind: 'single', url, tls: CA })
  const account = accountOf()
  await works(ledger, server)
  await server.kill()
  {
    await using plain = await RedisServer.start('--port', String(port))
    await until(() => !ledger.health().ready)
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
    expect(ledger.health().complaint).toContain('Redis is not reached')
    expect(await totals(plain, account)).toEqual({ spent: 0, held: 0, live: 0 })
  }
  await server.start()
  await until(() => ledger.health().ready)
  await works(ledger, server)
})

test('a cluster: every node uses TLS', async () => {
  const settings = ['--cluster-enabled', 'yes', '--tls-cluster', 'yes', '--cluster-announce-ip', '127.0.0.1']
  const { server, url } = await secure('good', ...settings)
  await using _ = server
  const client = server.client()
  await client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383)
  await until(async () => String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'))
  const nodes = [url]
  expect(await refusal({ kind: 'cluster', nodes })).toBe(UNTRUSTED('UNABLE_TO_VERIFY_LEAF_SIGNATURE'))
  await works(await openAt({ kind: 'cluster', nodes, tls: CA }), server)
})

test('a sentinel and its master: both connections use TLS', async () => {
  const { server, port } = await secure('good', '--tls-replication', 'yes', '--tls-ca-cert-file', path('authority.crt'))
  await using _ = server
  const at = await lastingPort()
  const file = join(directory(), 'sentinel.conf')
  const tls = [
    `tls-port ${at}`,
    `tls-cert-file ${path('good.crt')}`,
    `tls-key-file ${path('leaf.key')}`,
    `tls-ca-cert-file ${path('authority.crt')}`,
    'tls-auth-clients no',
    'tls-replication yes',
  ]
  writeFileSync(
    file,
    ['port 0', 'bind 127.0.0.1', ...tls, `sentinel monitor mymaster 127.0.0.1 ${port} 1`, ''].join('\n'),
  )
  const sentinel = Bun.spawn([REDIS, file, '--sentinel'], { stdout: 'ignore', stderr: 'ignore' })
  try {
    const probe = new Redis(at, '127.0.0.1', { tls: CA, retryStrategy: () => 20, maxRetriesPerRequest: null })
    probe.on('error', () => undefined)
    await probe.ping()
    probe.disconnect()
    const place: RedisConfig = { kind: 'sentinel', sentinels: [`rediss://127.0.0.1:${at}`], name: 'mymaster' }
    expect(await refusal(place)).toBe(UNTRUSTED('SELF_SIGNED_CERT_IN_CHAIN'))
    await works(await openAt({ ...place, tls: CA }), server)
  } finally {
    sentinel.kill('SIGKILL')
    await sentinel.exited
  }
})
