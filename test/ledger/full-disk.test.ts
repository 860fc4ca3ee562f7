/**
 * The disk of a node fills up while its ledger is in Redis: the process survives, callers are served, and nothing is
 * lost.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { logged, totals, until } from './seen.ts'

const { directory } = opened()

const CHILD = join(import.meta.dir, 'outbox-child.ts')

interface NodeState {
  readonly beats: number
  readonly ready: boolean
  readonly complaint?: string
  readonly pending: number
}

/** A node in a process of its own, so that `prlimit` can cap its file sizes, which needs no privileges. */
class Node {
  readonly exited: Promise<number>
  private readonly lines: AsyncIterator<string>

  private constructor(private readonly child: Bun.Subprocess<'pipe', 'pipe', 'inherit'>) {
    this.exited = child.exited
    this.lines = linesOf(child.stdout)
  }

  static start(directory: string, server: RedisServer, organization: string): Node {
    // Writes beyond the limit fail, as on a full disk; without the trap the kernel would end the process.
    const words = ['sh', '-c', 'trap "" XFSZ; exec "$@"', 'sh', process.execPath, CHILD, directory, server.socket]
    return new Node(Bun.spawn([...words, organization], { stdio: ['pipe', 'pipe', 'inherit'] }))
  }

  /** Sets the largest size that a file of this process may grow to; what is there stays. */
  limit(bytes: '0' | 'unlimited'): void {
    const { exitCode } = Bun.spawnSync(['prlimit', '--pid', String(this.child.pid), `--fsize=${bytes}:unlimited`])
    if (exitCode !== 0) throw new Error('prlimit (of the package util-linux) is needed, and failed.')
  }

  async ask(word: 'settle' | 'health'): Promise<NodeState> {
    this.child.stdin.write(`${word}\n`)
    await this.child.stdin.flush()
    const { done, value } = await this.lines.next()
    if (done === true) throw new Error(`The node ended with ${await this.exited}.`)
    return JSON.parse(value)
  }

  async end(): Promise<number> {
    this.child.stdin.write('end\n')
    await this.child.stdin.end()
    return await this.exited
  }

  kill(): void {
    this.child.kill('SIGKILL')
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

test('a full disk: timers and charges go on, health reports it, all is written once there is room', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = accountOf()
  // Settlements acknowledged an hour ago are deleted on the next runs of the timer, which is a write, too.
  const elsewhere = accountOf()
  const past = new Outbox(at, () => Date.now() - 3_600_000)
  for (let i = 0; i < 20; i++) {
    const id = `old-${i}`
    await logged(past, { id, account: elsewhere, admittedMs: 1, charge: chargeOf(1), heldMicroUsd: 1 }, false)
    past.taken(id, elsewhere.organization, 0)
  }
  past.commit()
  past.close()
  const node = Node.start(at, server, account.organization)
  try {
    await node.ask('health')
    node.limit('0')
    let state = await node.ask('settle')
    while (state.complaint === undefined) state = await node.ask('health')
    const before = state.beats
    while (state.beats < before + 4) state = await node.ask('health')
    expect(state).toMatchObject({ ready: true, complaint: expect.stringMatching(/disk|full|I\/O/i) })
    await node.ask('settle')
    await until(async () => (await totals(server, account)).spent === 20 * 70)
    node.limit('unlimited')
    while (state.complaint !== undefined || state.pending > 0) state = await node.ask('health')
    await node.ask('settle')
    expect(await node.end()).toBe(0)
  } finally {
    node.kill()
  }
  expect(await totals(server, account)).toEqual({ spent: 30 * 70, held: 0, live: 0 })
  // Everything is in the log once; settlements acknowledged long before are deleted.
  const log = new Outbox(at)
  expect(log.pendingCount()).toBe(0)
  log.close()
  const file = new Database(join(at, 'outbox.sqlite'))
  const served = file.query<{ id: string }, [string]>('SELECT id FROM request WHERE organization = ?')
  const ids = served.all(account.organization).map(({ id }) => id)
  expect([ids.length, new Set(ids).size]).toEqual([30, 30])
  const entries = file.query<{ id: string }, []>("SELECT entry ->> '$.closing.id' AS id FROM outbox").all()
  expect(entries.filter(({ id }) => id.startsWith('old-'))).toEqual([])
  expect(file.query('SELECT batch FROM outbox_group').all()).toEqual([])
  file.close()
})

/** An outbox that fails to read while `failing` is set. */
class FailingOutbox extends Outbox {
  failing = false

  override pending(most: number, early?: boolean) {
    if (this.failing) throw new Error('disk I/O error')
    return super.pending(most, early)
  }

  override pendingCount() {
    if (this.failing) throw new Error('disk I/O error')
    return super.pendingCount()
  }
}

test('a failed run of the timer is reported in health, and the next successful one clears it', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const link = new RedisLink({ kind: 'single', url: server.socket })
  await link.start()
  const outbox = new FailingOutbox(at)
  const ledger = new RedisLedger(link, outbox, 'refuse')
  outbox.failing = true
  await until(() => ledger.health().complaint === 'disk I/O error')
  const account = accountOf()
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))
  expect(ledger.health()).toMatchObject({ ready: true, complaint: 'disk I/O error' })
  outbox.failing = false
  await until(() => ledger.health().complaint === undefined)
  expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
  await ledger.close()
})
