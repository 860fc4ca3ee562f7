/** The queues and their delivery, in virtual time: retries, the end after a day, bounds, order, claims, a full disk. */

import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { alertOf, derivedId } from '../../src/alerts/alert.ts'
import { AlertClaims } from '../../src/alerts/alert-claims.ts'
import { AlertDelivery, type DeliveryOptions } from '../../src/alerts/alert-delivery.ts'
import { AlertQueue, type Claim, WEBHOOK_KEY } from '../../src/alerts/alert-queue.ts'
import type { PostResult } from '../../src/alerts/webhook.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-alerts-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
let folders = 0

const START_MS = Date.parse('2026-11-21T12:00:00Z')
const HOUR_MS = 3_600_000
const FAILED: PostResult = { ok: false, reason: 'the webhook answered 500' }

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

interface Given extends Partial<DeliveryOptions> {
  readonly folder?: string
  readonly most?: number
  readonly claim?: (id: string, claim: Claim) => Promise<boolean>
}

function opened(options: Given = {}) {
  const { folder = join(root, String(folders++)), most, claim = async () => true, ...more } = options
  const clock = new VirtualClock()
  const queue = AlertQueue.open(folder, () => ['hook'], most)
  queue.useHooks(['hook'])
  const posts: { readonly atMs: number; readonly id: string; readonly status?: string }[] = []
  const sent: string[] = []
  const failed: object[] = []
  const broken: unknown[] = []
  const post = more.post ?? (async () => FAILED)
  const hookQueue = queue.of('hook')
  const delivery = new AlertDelivery({
    ...{ queue: hookQueue, clock },
    sent: ({ id }) => sent.push(id),
    failed: (alert) => failed.push(alert),
    broken: (error) => broken.push(error),
    ...more,
    post: (body) => {
      const { id, status } = JSON.parse(body)
      posts.push({ atMs: clock.nowMs() - START_MS, id, ...(status === undefined ? {} : { status }) })
      return post(body)
    },
  })
  const won = (id: string) => {
    queue.claimed(id, clock.nowMs())
    delivery.wake()
  }
  const claims = new AlertClaims({
    ...{ queue, clock, claim, won },
    failed: (alert) => failed.push(alert),
    broken: (error) => broken.push(error),
  })
  const wake = () => {
    claims.wake()
    delivery.wake()
  }
  const origin = (id: string) => ({ node: 'n', nowMs: clock.nowMs(), id })
  const add = (id: string) => queue.add(alertOf({ type: 'ledger.up', fields: {} }, origin(id)), clock.nowMs())
  const begin = (id: string, model = 'm') => {
    const fields = { model, reason: 'r', since: '' }
    return queue.begin(alertOf({ type: 'model.down', fields }, origin(id)), clock.nowMs())
  }
  const end = (model = 'm') => queue.end(JSON.stringify(['model.down', model]), clock.nowMs(), `end of ${model}`)
  const addOnce = (id: string, token = `token of ${id}`) => {
    const fields = { organization: 'acme', key: null, window: 'day', limit_usd: 1, spent_usd: 1 } as const
    const alert = alertOf({ type: 'spend.refusing', fields }, origin(id))
    const more = { claim: { organization: 'acme', token }, forgetMs: START_MS + HOUR_MS, ends: true }
    return queue.addOnce(alert, clock.nowMs(), more)
  }
  const endOnce = (token: string) =>
    queue.end(JSON.stringify(['spend.refusing', 'acme', null, 'day']), clock.nowMs(), token)
  return {
    ...{ folder, clock, queue, hookQueue, delivery, claims, wake, posts, sent, failed, broken },
    ...{ add, begin, end, addOnce, endOnce },
  }
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
  expect(failed).toEqual([{ id: 'a', type: 'ledger.up', attempts: posts.length, reason }])
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
  const { promise, resolve } = Promise.withResolvers<PostResult>()
  const post = (body: string) => (JSON.parse(body).id === 'slow' ? promise : Promise.resolve<PostResult>({ ok: true }))
  const { clock, delivery, sent, add } = opened({ post })
  for (const id of ['slow', 'a', 'b', 'c', 'd', 'e']) add(id)
  delivery.wake()
  await clock.until(0)
  expect(sent.toSorted()).toEqual(['a', 'b', 'c', 'd', 'e'])
  resolve({ ok: true })
  await clock.until(0)
  expect(sent).toContain('slow')

  const all = Promise.withResolvers<PostResult>()
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
  const { hookQueue, add } = opened({ most: 3 })
  for (const id of ['a', 'b', 'c']) expect(add(id)).toEqual([])
  expect(add('d').map(({ id }) => id)).toEqual(['a'])
  expect(hookQueue.next(10, new Set()).map(({ id }) => id)).toEqual(['b', 'c', 'd'])
})

test('once means once until it may be forgotten, also after a restart', async () => {
  const first = opened({ post: async () => ({ ok: true }) })
  expect(first.addOnce('a')).toEqual([])
  expect(first.addOnce('a')).toBeUndefined()
  first.wake()
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
  const { clock, queue, wake, posts, addOnce } = opened({
    post: async () => ({ ok: true }),
    claim: async (_, { token }) => {
      tokens.push(token)
      return answer()
    },
  })
  addOnce('a')
  wake()
  await clock.until(12_000)
  expect([tokens, posts]).toEqual([Array(3).fill('token of a'), []])
  answer = () => false
  await clock.until(20_000)
  expect([posts, queue.size, tokens.length]).toEqual([[], 0, 4])
  answer = () => true
  addOnce('b')
  wake()
  await clock.until(20_000)
  expect(posts.map(({ id }) => id)).toEqual(['b'])
})

test('a claim that was granted is not repeated when the delivery fails', async () => {
  let claims = 0
  const { clock, queue, wake, posts, addOnce } = opened({
    claim: async () => {
      claims++
      return true
    },
  })
  addOnce('a')
  wake()
  await clock.until(10_000)
  expect([claims, posts.length]).toEqual([1, 4])
  // It is kept, to repeat it if Redis loses it.
  expect([...queue.claims(clock.nowMs())]).toMatchObject([[{ id: 'a', organization: 'acme', token: 'token of a' }]])
})

test('a queue that cannot be written is left alone for a minute', async () => {
  let isFull = true
  const { clock, queue, hookQueue, posts, broken, add, delivery } = opened({
    post: async () => ({ ok: true }),
  })
  const { remove } = hookQueue
  hookQueue.remove = (seq) => {
    if (isFull) throw new Error('disk full')
    remove(seq)
  }
  add('a')
  delivery.wake()
  await clock.until(59_000)
  expect([posts.length, broken.length]).toEqual([1, 1])
  isFull = false
  await clock.until(61_000)
  expect([posts.length, queue.size]).toEqual([2, 0])
})

test('the end waits for what runs, and begins nothing', async () => {
  const { promise, resolve } = Promise.withResolvers<PostResult>()
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

test('what begins is reported once, and its end with the same id, also after a restart', async () => {
  const first = opened({ post: async () => ({ ok: true }) })
  expect(first.begin('a')).toEqual([])
  expect(first.begin('b')).toBeUndefined()
  first.wake()
  await first.clock.until(0)
  first.queue.close()
  const second = opened({ folder: first.folder, post: async () => ({ ok: true }) })
  expect(second.begin('c')).toBeUndefined()
  expect([...second.queue.active('model.down').values()]).toMatchObject([{ id: 'a', model: 'm', status: 'firing' }])
  expect(second.end('another')).toBeUndefined()
  expect(second.end()).toEqual([])
  expect(second.end()).toBeUndefined()
  second.begin('d')
  second.wake()
  await second.clock.until(0)
  expect([...first.posts, ...second.posts].map(({ id, status }) => `${id} ${status}`)).toEqual([
    'a firing',
    'a resolved',
    'd firing',
  ])
})

test('an end waits for the delivery of its beginning, and delays nothing else', async () => {
  let isUp = false
  const post = async (body: string): Promise<PostResult> =>
    isUp || JSON.parse(body).model !== 'm' ? { ok: true } : FAILED
  const { clock, posts, begin, end, wake } = opened({ post })
  begin('a')
  wake()
  await clock.until(0)
  end()
  begin('b', 'other')
  end('other')
  begin('c')
  wake()
  await clock.until(6500)
  expect(posts.map(({ id, status }) => `${id} ${status}`)).toEqual([
    ...['a firing', 'b firing', 'b resolved', 'a firing', 'a firing'],
  ])
  isUp = true
  await clock.until(7000)
  expect(posts.slice(5).map(({ id, status }) => `${id} ${status}`)).toEqual(['a firing', 'a resolved', 'c firing'])
})

test('of several nodes, the one that reported the beginning reports the end, and another if it is gone', async () => {
  const winners = new Map<string, string>()
  const claim = async (id: string, { token }: Claim) => {
    if (!winners.has(id)) winners.set(id, token)
    return winners.get(id) === token
  }
  const post = async (): Promise<PostResult> => ({ ok: true })
  const [one, two] = [opened({ claim, post }), opened({ claim, post })]
  const both = async (ms: number) => {
    one.wake()
    await one.clock.until(ms)
    two.wake()
    await two.clock.until(ms)
  }
  // The tokens of two nodes differ.
  one.addOnce('a')
  two.addOnce('a', 'token of two')
  await both(0)
  one.endOnce('one')
  two.endOnce('two')
  await both(61_000)
  expect(one.posts.map(({ status }) => status)).toEqual(['firing', 'resolved'])
  expect([two.posts, two.queue.size]).toEqual([[], 0])

  const [gone, other] = [opened({ claim, post }), opened({ claim, post })]
  gone.addOnce('b')
  gone.wake()
  await gone.clock.until(0)
  other.addOnce('b', 'token of other')
  other.wake()
  other.endOnce('other')
  other.wake()
  await other.clock.until(59_000)
  expect(other.posts).toEqual([])
  await other.clock.until(66_000)
  expect(other.posts.map(({ id, status }) => `${id} ${status}`)).toEqual(['b resolved'])
})

test('what waits for a hook goes to the one that takes its place, if that is clear', async () => {
  const folder = join(root, String(folders++))
  let keys = ['one', 'two']
  const queue = AlertQueue.open(folder, () => keys)
  const ids = (hook: string) =>
    queue
      .of(hook)
      .next(9, new Set())
      .map(({ id }) => id)
  const add = (id: string) => queue.add(alertOf({ type: 'test', fields: {} }, { node: 'n', nowMs: 1, id }), 1)
  queue.useHooks(keys)
  add('a')
  keys = ['one', 'three']
  expect(queue.useHooks(keys)).toEqual([])
  expect([ids('one'), ids('two'), ids('three')]).toEqual([['a'], [], ['a']])
  add('b')
  expect(queue.useHooks(['four', 'five']).map(({ id }) => id)).toEqual(['a', 'b', 'a', 'b'])
  expect(queue.size).toBe(0)
})

test('a hook that is down holds up no other', async () => {
  const queue = AlertQueue.open(join(root, String(folders++)), () => ['down', 'up'], 3)
  queue.useHooks(['down', 'up'])
  const clock = new VirtualClock()
  const got: string[] = []
  const deliveryOf = (key: string, post: (body: string) => Promise<PostResult>) =>
    new AlertDelivery({
      ...{ queue: queue.of(key), clock, post },
      ...{ sent: () => {}, failed: () => {}, broken: () => {} },
    })
  const down = deliveryOf('down', () => new Promise(() => {}))
  const up = deliveryOf('up', async (body) => {
    got.push(JSON.parse(body).id)
    return { ok: true }
  })
  for (let i = 0; i < 10; i++) {
    const id = String(i)
    queue.add(alertOf({ type: 'test', fields: {} }, { node: 'n', nowMs: 1, id }), clock.nowMs())
    down.wake()
    up.wake()
    await clock.until(i)
  }
  expect(got).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
  expect(queue.size).toBe(3)
})

/** As the version with one webhook wrote it: one alert that failed, one to claim, one claimed, one delivered. */
test('the file of the version with one webhook is read: what waits, claims and what was reported', () => {
  const dataDir = mkdtempSync(join(root, 'earlier-'))
  copyFileSync('test/fixtures/ledger/earlier/alerts.sqlite', join(dataDir, 'alerts.sqlite'))
  const queue = AlertQueue.open(dataDir, () => [WEBHOOK_KEY])
  expect(queue.useHooks([WEBHOOK_KEY])).toEqual([])
  const waiting = () => queue.of(WEBHOOK_KEY).next(9, new Set())
  const createdMs = Date.parse('2026-11-21T12:00:00Z')
  expect(waiting()).toMatchObject([
    { id: 'alert_claimed', type: 'spend.threshold', createdMs, dueMs: createdMs, tries: 0 },
    { id: 'alert_waiting', type: 'target.open', createdMs, dueMs: createdMs + 4000, tries: 3 },
  ])
  expect(JSON.parse(waiting()[1]?.body ?? '')).toMatchObject({ id: 'alert_waiting', provider: 'up', model: 'm' })
  const [unclaimed] = queue.unclaimed(9)
  expect(unclaimed).toMatchObject({ id: 'alert_unclaimed', organization: 'acme', token: 'token-1' })
  queue.claimed('alert_unclaimed', createdMs)
  expect(waiting().map(({ id }) => id)).toEqual(['alert_claimed', 'alert_unclaimed', 'alert_waiting'])
  const claims = [...queue.claims(0)].flat().map(({ id, token }) => `${id} ${token}`)
  expect(claims).toEqual(['alert_claimed token-2', 'alert_unclaimed token-1'])
  const fields = { organization: 'acme', key: null, window: 'day', limit_usd: 1, spent_usd: 1, share: 0.1 } as const
  const again = alertOf({ type: 'spend.threshold', fields }, { node: 'n', nowMs: 1, id: 'alert_delivered' })
  expect(queue.addOnce(again, 1, { claim: undefined, forgetMs: 2 })).toBeUndefined()
  queue.close()
  // Opened again, nothing is there twice.
  const second = AlertQueue.open(dataDir, () => [WEBHOOK_KEY])
  second.useHooks([WEBHOOK_KEY])
  expect(second.size).toBe(3)
  second.close()
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
  const queue = AlertQueue.open(dataDir, () => [])
  expect(queue.unclaimed(9)).toMatchObject([{ id: 'a', organization: 'acme', token: 't', untilMs: 9 }])
  queue.claimed('a', 1)
  expect([...queue.claims(0)]).toEqual([[{ id: 'a', organization: 'acme', token: 't', untilMs: 9 }]])
  queue.close()
})
