/** `weir audit` as operators use it: with the embedded ledger and with a real Redis. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Ledger, noCharge } from '../../src/ledger/ledger.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { connectOnce } from '../../src/redis/connect-once.ts'
import { PROGRAM } from '../process/weir.ts'
import { RedisServer } from '../support/redis.ts'
import { use, World } from './world.ts'

const ci = { organization: 'acme', key: 'ci' }
const old = { organization: 'other', key: 'old' }
const TIME = expect.stringMatching(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

/** The fields common to all rows of `use`. */
const common = {
  ...{ request_id: expect.any(String), admitted_at: TIME, ended_at: TIME, provider: 'up', input_tokens: 100 },
  ...{ output_tokens: 10, overage_micro_usd: 0, ended: 'settled', outcome: 'completed', tags: {} },
  ...{ remote: '192.0.2.1', node: 'gateway-1' },
}

for (const kind of ['embedded', 'redis'] as const) {
  describe(kind, () => {
    let redis: RedisServer | undefined
    let world: World
    let ledger: Ledger

    beforeAll(async () => {
      redis = kind === 'redis' ? await RedisServer.start(['--maxmemory-policy', 'noeviction']) : undefined
      world = await World.make(redis?.url)
      ledger = await world.ledger()
      await use(ledger, ci, 'small', { cost: 125, cachedInputTokens: 40 })
      await use(ledger, { ...ci, key: 'made' }, 'large', {
        ...{ cost: 2_000_000, images: 3, estimated: true, tags: 'project=a,team=x' },
      })
      await use(ledger, old, 'large', { cost: 500_000 })
      await world.committed(3)
    })
    afterAll(async () => {
      await ledger.close()
      await world[Symbol.asyncDispose]()
      await redis?.[Symbol.asyncDispose]()
    })

    async function answer(...flags: readonly string[]): Promise<string> {
      const { code, stdout, stderr } = await world.weir('audit', ...flags)
      expect([code, stderr]).toEqual([0, ''])
      return stdout
    }

    /** Sorted by cost, because several may end in the same millisecond. */
    async function rows(...flags: readonly string[]): Promise<readonly Record<string, unknown>[]> {
      const text = await answer('--json', ...flags)
      const lines = text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line))
      return lines.sort((a, b) => a.cost_micro_usd - b.cost_micro_usd)
    }

    test('shows the key, time, model, tokens, cost and outcome of each request', async () => {
      const [first, third, second, ...more] = await rows()
      expect(first).toEqual({
        ...{
          ...common,
          cache_write_tokens: 0,
          service_tier: '',
          organization: 'acme',
          key: 'ci',
          model: 'small',
          cost_micro_usd: 125,
        },
        ...{ cached_input_tokens: 40, images: 0, estimated: false },
      })
      expect(second).toMatchObject({
        key: 'made',
        model: 'large',
        cost_micro_usd: 2_000_000,
        images: 3,
        estimated: true,
        tags: { project: 'a', team: 'x' },
      })
      expect(third).toMatchObject({ organization: 'other', key: 'old', cost_micro_usd: 500_000 })
      expect(more).toEqual([])
    })

    test('filters by organisation, key, request, tag or time', async () => {
      const keysOf = async (...flags: string[]) => (await rows(...flags)).map((row) => row['key'])
      const [first] = await rows('--key', 'ci')
      expect(await keysOf('--org', 'acme')).toEqual(['ci', 'made'])
      expect(await keysOf('--key', 'old')).toEqual(['old'])
      expect(await keysOf('--tag', 'team=x')).toEqual(['made'])
      expect(await keysOf('--tag', 'project=a,team=x')).toEqual(['made'])
      expect(await keysOf('--tag', 'project=x')).toEqual([])
      expect(await keysOf('--request', String(first?.['request_id']))).toEqual(['ci'])
      const ended = String(first?.['ended_at'])
      expect(await keysOf('--org', 'acme', '--since', ended)).toContain('ci')
      expect(await keysOf('--org', 'acme', '--since', '2020-01-01', '--until', ended)).not.toContain('ci')
    })

    test('a table and CSV', async () => {
      const [head = '', line = '', ...others] = (await answer('--key', 'ci')).split('\n')
      expect(head).toMatch(
        /^ended at +request +organization +key +model +provider +ended +outcome +input +output +cost/,
      )
      expect(line).toMatch(
        /^20\S+Z +\S+ +acme +ci +small +up +settled +completed +100 +10 +\$0\.000125 +\$0\.000000 +no +gateway-1$/,
      )
      expect(others).toEqual([''])
      const csv = (await answer('--csv', '--key', 'made')).split('\n')
      expect(csv[0]).toBe(
        'request_id,organization,key,admitted_at,ended_at,model,provider,input_tokens,cached_input_tokens,output_tokens,images,cost_micro_usd,overage_micro_usd,estimated,ended,outcome,tags,remote,cache_write_tokens,node,service_tier',
      )
      expect(csv[1]).toMatch(
        /,acme,made,[^,]+Z,[^,]+Z,large,up,100,0,10,3,2000000,0,true,settled,completed,"project=a,team=x",192\.0\.2\.1,0,gateway-1,$/,
      )
      expect(csv.length).toBe(3)
    })
  })
}

test('redis: a request that expired and was settled late has one row, with its settlement', async () => {
  await using redis = await RedisServer.start()
  await using world = await World.make(redis.url)
  const client = await connectOnce({ kind: 'single', url: redis.url })
  // The test controls its clock.
  await client.set('now', Date.now())
  const store = new RedisStore(client, client, Date.now, "local now = tonumber(redis.call('GET', 'now'))\n")
  const account = { ...ci, organizationLimits: {}, keyLimits: {} }
  const amounts = { inputTokens: 5, outputTokens: 5, costMicroUsd: 70 }
  await client.sadd('weir:organizations', 'acme')
  for (const id of ['late', 'lost'])
    await store.reserve(account, { id, estimate: amounts, floorMicroUsd: 30, model: 'small' })
  await client.incrby('now', 40_000)
  expect(await store.reap('acme')).toBe(2)
  await store.settle({ id: 'late', account, admittedMs: 0 }, { ...noCharge('completed'), ...amounts, model: 'm' })
  client.disconnect()
  const { stdout } = await world.weir('audit', '--csv')
  const lines = stdout.split('\n').slice(1, -1)
  expect(lines.map((line) => line.split(',').filter((_, i) => [0, 5, 11, 14, 15].includes(i)))).toEqual([
    ['lost', 'small', '30', 'lost', ''],
    ['late', 'm', '70', 'late', 'completed'],
  ])
})

test('more rows than one page are complete, and a reader that stops early ends it without an error', async () => {
  await using world = await World.make()
  const ledger = await world.ledger()
  for (let i = 0; i < 2500; i++) await use(ledger, ci, 'small', { cost: i })
  await ledger.close()
  const { stdout } = await world.weir('audit', '--json', '--limit', '0')
  const costs = stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line).cost_micro_usd)
  expect(costs.sort((a, b) => a - b)).toEqual(Array.from({ length: 2500 }, (_, i) => i))
  const last = await world.weir('audit', '--json')
  expect(last.stdout.split('\n').slice(0, -1)).toEqual(stdout.split('\n').slice(-101, -1))
  expect(last.stderr).toBe('weir: the last 100 of 2500 lines; --limit 0 prints all\n')
  const few = await world.weir('audit', '--csv', '--limit', '3')
  expect(few.stdout.trimEnd().split('\n')).toHaveLength(4)
  const left = await world.shell('"$@" audit --json --limit 0 | head -n 1; exit $PIPESTATUS')
  expect([left.code, left.stdout.split('\n').length, left.stderr]).toEqual([0, 2, ''])
})

test('--model and --outcome select rows', async () => {
  await using world = await World.make()
  const ledger = await world.ledger()
  for (const model of ['small', 'large', 'small']) await use(ledger, ci, model, { cost: 1 })
  await ledger.close()
  const count = async (...args: readonly string[]) => {
    const { code, stdout } = await world.weir('audit', '--json', ...args)
    return [code, stdout.split('\n').length - 1]
  }
  expect(await count('--model', 'small')).toEqual([0, 2])
  expect(await count('--model', 'none')).toEqual([0, 0])
  expect(await count('--outcome', 'completed', '--model', 'large')).toEqual([0, 1])
  expect(await count('--outcome', 'drained')).toEqual([0, 0])
})

test('--follow prints what is added, each line once', async () => {
  await using world = await World.make()
  const ledger = await world.ledger()
  await use(ledger, ci, 'small', { cost: 1 })
  await world.committed(1)
  const child = Bun.spawn([...PROGRAM, 'audit', '--json', '--follow'], {
    cwd: world.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const costs: number[] = []
  let text = ''
  for await (const part of child.stdout) {
    text += new TextDecoder().decode(part)
    const lines = text.split('\n').slice(0, -1)
    while (costs.length < lines.length) {
      costs.push(JSON.parse(lines[costs.length] ?? '').cost_micro_usd)
      await use(ledger, ci, 'small', { cost: costs.length + 1 })
    }
    if (costs.length >= 3) break
  }
  expect(costs).toEqual([1, 2, 3])
  child.kill('SIGKILL')
  await child.exited
  await ledger.close()
})

test('--follow prints what is added while its reader is slow to take the first lines', async () => {
  await using world = await World.make()
  const ledger = await world.ledger()
  const before = 400
  for (let i = 1; i <= before; i++) await use(ledger, ci, 'small', { cost: i })
  await world.committed(before)
  // The first lines are more than a pipe holds, so the command still writes them after the first one is read here.
  const slow = '{ read -r line; echo "$line"; read -r go <&3; cat; }'
  const command = `exec "$@" audit --json --follow --limit 0 > >(${slow}) 3<&-`
  const child = Bun.spawn(['bash', '-c', command, 'bash', ...PROGRAM], {
    cwd: world.folder,
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  const costs: number[] = []
  const go = child.stdio[3]
  if (typeof go !== 'number') throw new Error('the shell has no pipe to read from')
  for await (const line of linesOf(child.stdout)) {
    costs.push(JSON.parse(line).cost_micro_usd)
    if (costs.length === 1) {
      await use(ledger, ci, 'small', { cost: before + 1 })
      await world.committed(before + 1)
      await Bun.write(Bun.file(go), 'go\n')
    }
    if (costs.length > before) break
  }
  expect(costs).toEqual(Array.from({ length: before + 1 }, (_, i) => i + 1))
  child.kill('SIGKILL')
  await child.exited
  await ledger.close()
})

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const part of stream) {
    const lines = (text + decoder.decode(part, { stream: true })).split('\n')
    text = lines.pop() ?? ''
    yield* lines
  }
}

test.each([
  '--limit some',
  '--outcome lost',
  '--since yesterday',
  '--since 2026-11-02 --until 2026-11-02',
  '--json --csv',
  'more',
])('wrong usage: one line, 2: %s', async (line) => {
  await using world = await World.make()
  const { code, stdout, stderr } = await world.weir('audit', ...line.split(' '))
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^weir: [^\n]+ \(see --help\)\n$/)
})

test('--admin prints the changes of keys, and none of the secrets', async () => {
  await using world = await World.make()
  const token = (await world.weir('keys', 'create', '--org', 'acme', '--id', 'bot', '--spend-day', '5')).stdout.trim()
  await world.weir('keys', 'update', '--id', 'bot', '--requests-per-minute', '60')
  await world.weir('keys', 'revoke', '--id', 'ci')
  const table = await world.weir('audit', '--admin')
  expect(table).toMatchObject({ code: 0, stderr: '' })
  const user = `uid:${process.getuid?.()} (${(await Bun.$`id -un`.text()).trim()})`
  expect(table.stdout).toMatch(
    /^time +source +actor +action +target +details\n(?:\S+Z +cli +uid:\S+ \(\S+\) +key\.\w+ +\w+ +\{.*\}\n){3}$/,
  )
  expect(table.stdout).not.toContain(token.slice(13))
  const rows = (await world.weir('audit', '--admin', '--json', '--limit', '2')).stdout.trim().split('\n')
  expect(rows.map((row) => JSON.parse(row))).toMatchObject([
    {
      source: 'cli',
      actor: user,
      action: 'key.updated',
      target: 'bot',
      details: { limits: { requests_per_minute: 60 } },
    },
    { source: 'cli', action: 'key.revoked', target: 'ci', details: { organization: 'acme' } },
  ])
  const csv = await world.weir('audit', '--admin', '--csv', '--until', '2020-01-01')
  expect(csv.stdout).toBe('time,source,actor,action,target,details\n')
  const wrong = await world.weir('audit', '--admin', '--model', 'x')
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--model is about requests')])
})
