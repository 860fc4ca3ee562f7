/** The queue and its delivery, in virtual time: retries, the end after a day, the bound, claims, a broken queue. */

import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { alertOf, derivedId } from '../../src/alerts/alert.ts'
import { AlertDelivery, type DeliveryOptions } from '../../src/alerts/alert-delivery.ts'
import { AlertQueue } from '../../src/alerts/alert-queue.ts'
import type { Attempt } from '../../src/alerts/webhook.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-alerts-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0

const START_MS = Date.parse('2026-11-21T12:00:00Z')
const HOUR_MS = 3_600_000
const FAILED: Attempt = { ok: false, reason: 'the webhook answered 500' }

/** A clock that the test moves from timer to timer. */
class VirtualClock {
  private now = START_MS
  private readonly timers = new Map<object, { readonly atMs: number; readonly callback: () => void }>()

  nowMs(): number {
    return this.now
  }

  after(ms: number, callback: () => void): () => void {
    const timer = {}
    this.timers.set(timer, { atMs: this.now + ms, callback })
    return () => this.timers.delete(timer)
  }

  /** Runs every timer up to a time after the start, in order. */
  async until(ms: number): Promise<void> {
    for (;;) {
      await settled()
      const [first] = [...this.timers].sort(([, one], [, other]) => one.atMs - other.atMs)
      if (first === undefined || first[1].atMs > START_MS + ms) break
      this.timers.delete(first[0])
      this.now = first[1].atMs
      first[1].callback()
    }
    this.now = START_MS + ms
  }
}

/** Until the promises that are under way have been settled. */
async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(setImmediate)
}

function opened(options: Partial<DeliveryOptions> & { folder?: string; most?: number } = {}) {
  const { folder = join(root, String(folders++)), most, ...more } = options
  const clock = new VirtualClock()
  const queue = AlertQueue.open(folder, most)
  const posts: { readonly atMs: number; readonly id: string }[] = []
  const sent: string[] = []
  const failed: object[] = []
  const broken: unknown[] = []
  const post = more.post ?? (async () => FAILED)
  const delivery = new AlertDelivery({
    ...{ queue, clock, claim: async () => true },
    sent: ({ id }) => sent.push(id),
    failed: (alert) => failed.push(alert),
    broken: (error) => broken.push(error),
    ...more,
    post: (body) => {
      posts.push({ atMs: clock.nowMs() - START_MS, id: JSON.parse(body).id })
      return post(body)
    },
  })
  const add = (id: string) =>
    queue.add(alertOf({ type: 'ledger.down', fields: {} }, { node: 'n', nowMs: clock.nowMs(), id }), clock.nowMs())
  const addOnce = (id: string, forgetMs = START_MS + HOUR_MS) =>
    queue.addOnce(
      alertOf({ type: 'ledger.down', fields: {} }, { node: 'n', nowMs: clock.nowMs(), id }),
      clock.nowMs(),
      { claim: { organization: 'acme', token: `token of ${id}` }, forgetMs },
    )
  return { folder, clock, queue, delivery, posts, sent, failed, broken, add, addOnce }
}

test('pauses of 1, 2, 4 s and so on up to an hour; after a day the alert is given up', async () => {
  const { clock, queue, delivery, posts, failed, add } = opened()
  add('a')
  delivery.wake()
  await clock.until(25 * HOUR_MS)
  const pauses = posts.slice(1).map(({ atMs }, i) => (atMs - (posts[i]?.atMs ?? 0)) / 1000)
  expect(pauses.slice(0, 14)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600])
  expect(pauses.every((pause) => pause <= 3600)).toBe(true)
  expect(posts.at(-1)?.atMs).toBe(24 * HOUR_MS)
  const reason = 'the webhook answered 500'
  expect(failed).toEqual([{ id: 'a', type: 'ledger.down', attempts: posts.length, reason }])
  expect([queue.size, delivery.failure]).toEqual([0, { sinceMs: START_MS, reason }])
})

test('a delivered alert is gone, and ends the failure', async () => {
  let isUp = false
  const { clock, queue, delivery, posts, sent, add } = opened({ post: async () => (isUp ? { ok: true } : FAILED) })
  add('a')
  delivery.wake()
  await clock.until(2500)
  expect(delivery.failure?.sinceMs).toBe(START_MS)
  isUp = true
  await clock.until(10_000)
  expect([posts.length, sent, queue.size, delivery.failure]).toEqual([3, ['a'], 0, undefined])
})

test('four at once; one that hangs delays no other', async () => {
  const { promise, resolve } = Promise.withResolvers<Attempt>()
  const post = (body: string) => (JSON.parse(body).id === 'slow' ? promise : Promise.resolve<Attempt>({ ok: true }))
  const { clock, delivery, sent, add } = opened({ post })
  for (const id of ['slow', 'a', 'b', 'c', 'd', 'e']) add(id)
  delivery.wake()
  await clock.until(0)
  expect(sent.toSorted()).toEqual(['a', 'b', 'c', 'd', 'e'])
  resolve({ ok: true })
  await clock.until(0)
  expect(sent).toContain('slow')

  const all = Promise.withResolvers<Attempt>()
  const hanging = opened({ post: () => all.promise })
  for (let i = 0; i < 10; i++) hanging.add(String(i))
  hanging.delivery.wake()
  await hanging.clock.until(0)
  expect(hanging.posts).toHaveLength(4)
  all.resolve({ ok: true })
  await hanging.clock.until(0)
  expect(hanging.sent).toHaveLength(10)
})

test('a full queue drops the oldest', () => {
  const { queue, add } = opened({ most: 3 })
  for (const id of ['a', 'b', 'c']) expect(add(id)).toEqual([])
  expect(add('d').map(({ id }) => id)).toEqual(['a'])
  expect(queue.next(10, new Set()).map(({ id }) => id)).toEqual(['b', 'c', 'd'])
})

test('once means once until it may be forgotten, also after a restart', async () => {
  const first = opened({ post: async () => ({ ok: true }) })
  expect(first.addOnce('a')).toEqual([])
  expect(first.addOnce('a')).toBeUndefined()
  first.delivery.wake()
  await first.clock.until(0)
  expect([first.sent, first.addOnce('a')]).toEqual([['a'], undefined])
  first.queue.close()
  const second = opened({ folder: first.folder })
  expect(second.addOnce('a')).toBeUndefined()
  second.queue.forget(START_MS + HOUR_MS - 1)
  expect(second.addOnce('a')).toBeUndefined()
  second.queue.forget(START_MS + HOUR_MS)
  expect(second.addOnce('a')).toEqual([])
  expect(statSync(join(first.folder, 'alerts.sqlite')).mode & 0o777).toBe(0o600)
})

test('an alert of another node is dropped; a claim without an answer is repeated with the same token', async () => {
  const tokens: string[] = []
  let answer: () => boolean = () => {
    throw new Error('Redis does not answer')
  }
  const { clock, queue, delivery, posts, addOnce } = opened({
    post: async () => ({ ok: true }),
    claim: async (_, { token }) => {
      tokens.push(token)
      return answer()
    },
  })
  addOnce('a')
  delivery.wake()
  await clock.until(12_000)
  expect([tokens, posts]).toEqual([Array(3).fill('token of a'), []])
  answer = () => false
  await clock.until(20_000)
  expect([posts, queue.size, tokens.length]).toEqual([[], 0, 4])
  answer = () => true
  addOnce('b')
  delivery.wake()
  await clock.until(20_000)
  expect(posts.map(({ id }) => id)).toEqual(['b'])
})

test('a claim that was granted is not repeated when the delivery fails', async () => {
  let claims = 0
  const { clock, queue, delivery, posts, addOnce } = opened({
    claim: async () => {
      claims++
      return true
    },
  })
  addOnce('a')
  delivery.wake()
  await clock.until(10_000)
  expect([claims, posts.length]).toEqual([1, 4])
  // It is kept, to repeat it if Redis loses it.
  expect([...queue.claims(clock.nowMs())]).toMatchObject([[{ id: 'a', organization: 'acme', token: 'token of a' }]])
})

test('a queue that cannot be written is left alone for a minute', async () => {
  const { clock, queue, delivery, posts, broken, add } = opened({ post: async () => ({ ok: true }) })
  const remove = queue.remove.bind(queue)
  queue.remove = () => {
    throw new Error('disk full')
  }
  add('a')
  delivery.wake()
  await clock.until(59_000)
  expect([posts.length, broken.length]).toEqual([1, 1])
  queue.remove = remove
  await clock.until(61_000)
  expect([posts.length, queue.size]).toEqual([2, 0])
})

test('the end waits for what runs, and begins nothing', async () => {
  const { promise, resolve } = Promise.withResolvers<Attempt>()
  const { clock, queue, delivery, posts, add } = opened({ post: () => promise })
  for (let i = 0; i < 6; i++) add(String(i))
  delivery.wake()
  const closed = delivery.close()
  resolve({ ok: true })
  await closed
  await clock.until(1000)
  expect([posts.length, queue.size]).toEqual([4, 2])
})

test('equal parts give an equal id, and other parts another', () => {
  const parts = ['spend.threshold', 'acme', null, 'day', 1, 0.5] as const
  expect(derivedId(parts)).toBe(derivedId([...parts]))
  expect(derivedId(parts)).not.toBe(derivedId(['spend.threshold', 'acme', 'null', 'day', 1, 0.5]))
})

test('a queue of the version before claims were kept is opened, with what waits in it', () => {
  const dataDir = mkdtempSync(join(root, 'earlier-'))
  const database = new Database(join(dataDir, 'alerts.sqlite'))
  database.run(`
    CREATE TABLE alerts (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, body TEXT NOT NULL,
      created_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
      organization TEXT NOT NULL DEFAULT '', token TEXT, claim_until_ms INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE reported (id TEXT PRIMARY KEY, forget_ms INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO alerts VALUES (1, 'a', 'spend.threshold', '{}', 1, 1, 0, 'acme', 't', 9);
    INSERT INTO reported VALUES ('a', 9);
    PRAGMA user_version = 1`)
  database.close()
  const queue = AlertQueue.open(dataDir)
  expect(queue.next(9, new Set())).toMatchObject([{ id: 'a', claim: { organization: 'acme', token: 't', untilMs: 9 } }])
  queue.claimed('a')
  expect([...queue.claims(0)]).toEqual([[{ id: 'a', organization: 'acme', token: 't', untilMs: 9 }]])
  queue.close()
})
