/** `weir usage`, and the remaining limits of `weir explain`, with the embedded ledger and with a real Redis. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { dayOf, dayText } from '../../src/ledger/window.ts'
import { RedisServer } from '../support/redis.ts'
import { closedPort } from '../support/upstream.ts'
import { use, World } from './world.ts'

const ci = { organization: 'acme', key: 'ci' }
const made = { organization: 'acme', key: 'made' }
const old = { organization: 'other', key: 'old' }

const small = {
  ...{ requests: 2, estimated_requests: 1, input_tokens: 200, cached_input_tokens: 40, output_tokens: 20 },
  ...{ images: 0, cost_micro_usd: 1_000_125 },
}
const large = {
  ...{ requests: 2, estimated_requests: 0, input_tokens: 200, cached_input_tokens: 0, output_tokens: 20 },
  ...{ images: 3, cost_micro_usd: 2_500_000 },
}
const total = {
  ...{ requests: 4, estimated_requests: 1, input_tokens: 400, cached_input_tokens: 40, output_tokens: 40 },
  ...{ images: 3, cost_micro_usd: 3_500_125 },
}

async function fill(ledger: Ledger): Promise<void> {
  await use(ledger, ci, 'small', { cost: 125, cachedInputTokens: 40, provider: 'backup' })
  await use(ledger, made, 'small', { cost: 1_000_000, estimated: true, tags: 'project=a,team=x' })
  await use(ledger, made, 'large', { cost: 2_000_000, images: 3, tags: 'project=b' })
  await use(ledger, old, 'large', { cost: 500_000 })
}

for (const kind of ['embedded', 'redis'] as const) {
  describe(kind, () => {
    let redis: RedisServer | undefined
    let world: World
    let ledger: Ledger
    let today: string
    let since: string

    beforeAll(async () => {
      redis = kind === 'redis' ? await RedisServer.start(['--maxmemory-policy', 'noeviction']) : undefined
      world = await World.make(redis?.url)
      ledger = await world.ledger()
      today = dayText(dayOf(Date.now()))
      since = `${today.slice(0, 8)}01`
      await fill(ledger)
      await world.committed(total.requests)
    })
    afterAll(async () => {
      await ledger.close()
      await world[Symbol.asyncDispose]()
      await redis?.[Symbol.asyncDispose]()
    })

    /** The ledger stays open, as a gateway's would. */
    async function answer(...flags: readonly string[]) {
      const { code, stdout } = await world.weir('usage', ...flags)
      expect(code).toBe(0)
      return stdout
    }

    test('by model, while the ledger is in use: the figures and their total', async () => {
      const { until, ...rest } = JSON.parse(await answer('--json'))
      expect(rest).toEqual({
        since,
        by: 'model',
        rows: [
          { model: 'large', ...large },
          { model: 'small', ...small },
        ],
        total,
      })
      expect(Date.parse(until)).toBeGreaterThan(Date.parse(today))
    })

    test('by key, org and day: the same total in other rows', async () => {
      for (const [by, column, names] of [
        ['key', 'key', ['ci', 'made', 'old']],
        ['org', 'organization', ['acme', 'other']],
        ['day', 'day', [today]],
      ] as const) {
        const report = JSON.parse(await answer('--json', '--by', by))
        expect(report.by).toBe(by)
        expect(report.rows.map((row: Readonly<Record<string, unknown>>) => row[column])).toEqual(names)
        expect(report.total).toEqual(total)
      }
    })

    test('of one organisation, of one key, of other days', async () => {
      const of = async (...flags: string[]) => JSON.parse(await answer('--json', ...flags)).total.cost_micro_usd
      expect(await of('--org', 'acme')).toBe(3_000_125)
      expect(await of('--key', 'made')).toBe(3_000_000)
      expect(await of('--org', 'other', '--key', 'made')).toBe(0)
      expect(await of('--since', '2020-01-01', '--until', today)).toBe(0)
      expect(await of('--since', today)).toBe(3_500_125)
    })

    test('by several columns', async () => {
      const report = JSON.parse(await answer('--json', '--by', 'org,model'))
      expect(report.by).toBe('org,model')
      const rows = report.rows.map((row: Record<string, unknown>) => [
        row['organization'],
        row['model'],
        row['requests'],
      ])
      expect(rows).toEqual([
        ['acme', 'large', 1],
        ['acme', 'small', 2],
        ['other', 'large', 1],
      ])
      expect(report.total).toEqual(total)
      expect((await answer('--csv', '--by', 'day,key')).split('\n')[0]).toStartWith('day,key,requests,')
      expect((await answer('--by', 'key,model')).split('\n').at(-2)).toMatch(/^total +4 +1 /)
    })

    test('by provider, hour and tag: the same total in other rows', async () => {
      const costs = async (by: string) => {
        const report = JSON.parse(await answer('--json', '--by', by))
        expect([report.by, report.total]).toEqual([by, total])
        return report.rows.map((row: Record<string, unknown>) => [
          ...by.split(',').map((column) => row[column]),
          row['cost_micro_usd'],
        ])
      }
      expect(await costs('provider')).toEqual([
        ['backup', 125],
        ['up', 3_500_000],
      ])
      // The value is empty for requests without the tag.
      expect(await costs('tag:project')).toEqual([
        ['', 500_125],
        ['a', 1_000_000],
        ['b', 2_000_000],
      ])
      expect(await costs('tag:team,provider,model')).toEqual([
        ['', 'backup', 'small', 125],
        ['', 'up', 'large', 2_500_000],
        ['x', 'up', 'small', 1_000_000],
      ])
      for (const [hour] of await costs('hour')) {
        expect(hour).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:00:00Z$/)
        expect(Math.abs(Date.parse(String(hour)) - Date.now())).toBeLessThan(2 * 3_600_000)
      }
      expect((await answer('--csv', '--by', 'tag:project,hour')).split('\n')[0]).toStartWith(
        'tag:project,hour,requests',
      )
      expect((await answer('--by', 'tag:project')).split('\n')[1]).toMatch(/^ +2 +0 /)
    })

    test('a table and CSV', async () => {
      expect(await answer()).toBe(
        `model  requests  estimated  input  cached  output  images       cost
large         2          0    200       0      20       3  $2.500000
small         2          1    200      40      20       0  $1.000125
total         4          1    400      40      40       3  $3.500125
`,
      )
      expect(await answer('--csv', '--by', 'org')).toBe(
        `organization,requests,estimated_requests,input_tokens,cached_input_tokens,output_tokens,images,cost_micro_usd
acme,3,1,300,40,30,3,3000125
other,1,0,100,0,10,0,500000
`,
      )
    })

    test('explain shows what is left of each limit of the organisation and of the key', async () => {
      const { code, stdout } = await world.weir('explain', '--key', 'ci', '--model', 'small')
      expect(code).toBe(0)
      const shown = stdout.replace(/\d+ left\)/, 'N left)').replace(/renews \d{4}-\d\d-\d\d\)/, 'renews DAY)')
      expect(shown).toContain(
        'limits of organisation "acme": 60 requests a minute (N left), ' + '$5.00 a day ($1.999875 left, renews DAY)\n',
      )
      expect(stdout).toContain('limits of key "ci": $1.00 in total ($0.999875 left)\n')
    })
  })
}

test('nothing was used yet: an empty table; of an organisation that does not exist with a remark', async () => {
  await using world = await World.make()
  const empty =
    'model  requests  estimated  input  cached  output  images       cost\n' +
    'total         0          0      0       0       0       0  $0.000000\n'
  expect(await world.weir('usage')).toEqual({ code: 0, stderr: '', stdout: empty })
  const { code, stderr } = await world.weir('usage', '--org', 'acne')
  expect([code, stderr]).toEqual([0, 'weir: the configuration has no organisation "acne" (did you mean "acme"?)\n'])
})

test('a tag that the configuration does not have is pointed out, with a similar one', async () => {
  await using world = await World.make()
  const hint = 'weir: tag "projct" is not in tags of the configuration (did you mean "project"?)\n'
  for (const words of [
    ['usage', '--by', 'model,tag:projct'],
    ['audit', '--tag', 'projct=a'],
    ['audit', '--tag', 'projct=a', '--json'],
  ])
    expect(await world.weir(...words)).toMatchObject({ code: 0, stderr: hint })
  const { stderr } = await world.weir('usage', '--by', 'tag:zzzzz,tag:team')
  expect(stderr).toBe('weir: tag "zzzzz" is not in tags of the configuration; it has project, team\n')
})

test('from a day to come: nothing yet, which is no mistake; nor is it for the audit', async () => {
  await using world = await World.make()
  const date = (days: number) => dayText(dayOf(Date.now()) + days)
  for (const days of [1, 2, 30, 400]) {
    const { code, stderr, stdout } = await world.weir('usage', '--since', date(days), '--json')
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({
      since: date(days),
      until: date(days + 1),
      rows: [],
      total: { requests: 0 },
    })
    expect(await world.weir('audit', '--since', date(days), '--json')).toEqual({ code: 0, stderr: '', stdout: '' })
  }
  expect((await world.weir('usage', '--since', date(2), '--until', date(1))).code).toBe(2)
})

test('a ledger that cannot be read: one line, 1; explain explains all the same', async () => {
  await using damaged = await World.make()
  await (await damaged.ledger()).close()
  await writeFile(join(damaged.dataDir, 'ledger.sqlite'), 'x'.repeat(9000))
  await using away = await World.make(`redis://127.0.0.1:${await closedPort()}/0`)
  for (const world of [damaged, away]) {
    // Each waits for Redis for 5 s.
    const [{ code, stdout, stderr }, explained] = await Promise.all([
      world.weir('usage'),
      world.weir('explain', '--key', 'ci', '--model', 'small'),
    ])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^weir: [^\n]*(?:ledger\.sqlite is damaged|Redis does not answer)[^\n]*\n$/)
    expect([explained.code, explained.stderr]).toEqual([0, stderr])
    expect(explained.stdout).toContain('"acme": 60 requests a minute, $5.00 a day\n')
    expect(explained.stdout).toEndWith(
      'what is left of the limits is unknown, and they were not checked: the ledger cannot be read\n',
    )
  }
})

test.each([
  '--by colour',
  '--by model,colour',
  '--by model,model',
  '--by constructor',
  '--by tag',
  '--by tag:',
  '--by tag:two,tag:t=o',
  '--since 2026-02-30',
  '--since 9999-12-31',
  '--since 2026-11-01T00:00:00Z',
  '--since 2026-11-02 --until 2026-11-02',
  '--json --csv',
  'more',
])('wrong usage: one line, 2: %s', async (line) => {
  await using world = await World.make()
  const { code, stdout, stderr } = await world.weir('usage', ...line.split(' '))
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^weir: [^\n]+ \(see --help\)\n$/)
})
