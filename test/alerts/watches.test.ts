/** What is worth an alert: shares of spend limits, targets that do not recover, credentials, keys that expire. */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { alertOf, derivedId } from '../../src/alerts/alert.ts'
import { AlertQueue } from '../../src/alerts/alert-queue.ts'
import { Alerts, type SharedAlerts } from '../../src/alerts/alerts.ts'
import { expiringKeys } from '../../src/alerts/key-expiry.ts'
import { reachedThresholds, refusingLimit } from '../../src/alerts/spend-thresholds.ts'
import { property } from '../support/random.ts'
import { ALERT_SECRET, webhook } from '../support/webhook.ts'

const root = mkdtempSync(join(tmpdir(), 'weir-alerts-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const DAY_MS = 86_400_000
const NOW = Date.parse('2026-11-21T12:00:00Z')
const END = Date.parse('2026-11-22T00:00:00Z')
const ORG = { organization: 'acme', key: null, window: 'day', endMs: END } as const

function sharesOf(spent: number, limit: number, shares: readonly number[]): readonly number[] {
  return reachedThresholds({ ...ORG, spentMicroUsd: spent, limitMicroUsd: limit }, shares, NOW).map(
    ({ occurrence }) => (occurrence.fields as { share: number }).share,
  )
}

test('a share is reached at exactly its amount; a limit of 0 has none', () => {
  expect(sharesOf(499_999, 1_000_000, [0.5, 0.8, 1])).toEqual([])
  expect(sharesOf(500_000, 1_000_000, [0.5, 0.8, 1])).toEqual([0.5])
  expect(sharesOf(2_000_000, 1_000_000, [0.5, 0.8, 1])).toEqual([0.5, 0.8, 1])
  expect(sharesOf(0, 0, [0.5])).toEqual([])
  // In floating-point numbers, 0.07 of a dollar is a little more than 70,000 micro-dollars.
  expect(sharesOf(70_000, 1_000_000, [0.07])).toEqual([0.07])
  // Less than half a micro-dollar: not reached before anything is spent.
  expect(sharesOf(0, 60_000, [0.000001])).toEqual([])
  expect(sharesOf(1, 60_000, [0.000001])).toEqual([0.000001])
})

test('the id has no limit in it, and is kept for two windows more', () => {
  const of = (limitMicroUsd: number, more: object = {}) =>
    reachedThresholds({ ...ORG, spentMicroUsd: 1_000_000, limitMicroUsd, ...more }, [0.5], NOW)[0]
  expect(of(1_000_000)?.parts).toEqual(of(2_000_000)?.parts as never)
  expect(of(1_000_000, { endMs: END + DAY_MS })?.parts).not.toEqual(of(1_000_000)?.parts as never)
  expect(of(1_000_000, { key: 'ci' })?.parts).not.toEqual(of(1_000_000)?.parts as never)
  expect(of(1_000_000)?.forgetMs).toBe(END + 2 * DAY_MS)
  expect(of(1_000_000, { window: 'total', endMs: undefined })?.forgetMs).toBeGreaterThan(NOW + 3000 * DAY_MS)
})

/**
 * The spend of some owners grows in random steps over three days, limits change, and shares are read at random times.
 * The model counts in hundredths of a cent with whole numbers, and knows no ids.
 */
property('random spends: what is queued is what was reached at a reading, each once a window', 40, (random) => {
  const shares = [10, 25, 50, 80, 100].filter(() => random.below(2) === 0)
  const owners = ['a', 'b', 'c'].slice(0, random.between(1, 3))
  const reported: string[] = []
  const queue = AlertQueue.open(join(root, String(random.seed)), () => ['hook'])
  const expected: string[] = []
  for (let day = 0; day < 3; day++) {
    const spent = new Map(owners.map((owner) => [owner, 0]))
    const limits = new Map(owners.map((owner) => [owner, random.between(1, 400)]))
    const counted = new Set<string>()
    for (let step = 0; step < 30; step++) {
      const owner = owners[random.below(owners.length)] ?? 'a'
      spent.set(owner, (spent.get(owner) ?? 0) + random.below(60))
      if (random.below(10) === 0) limits.set(owner, random.between(1, 800))
      if (random.below(3) > 0) continue
      for (const each of owners) {
        const [used = 0, limit = 0] = [spent.get(each), limits.get(each)]
        const found = reachedThresholds(
          {
            ...{ organization: 'acme', key: each, window: 'day', endMs: END + day * DAY_MS },
            ...{ spentMicroUsd: used * 100, limitMicroUsd: limit * 100 },
          },
          shares.map((percent) => percent / 100),
          NOW,
        )
        for (const { parts, occurrence, forgetMs } of found) {
          const alert = alertOf(occurrence, { node: 'n', nowMs: NOW, id: derivedId(parts) })
          if (queue.addOnce(alert, NOW, { claim: undefined, forgetMs }) === undefined) continue
          reported.push(`${day} ${each} ${Math.round(Number(parts.at(-1)) * 100)}`)
        }
        for (const percent of shares) {
          const name = `${day} ${each} ${percent}`
          if (used * 100 < percent * limit || counted.has(name)) continue
          counted.add(name)
          expected.push(name)
        }
      }
    }
  }
  expect(reported).toEqual(expected)
  expect(queue.size).toBe(expected.length)
  queue.close()
})

test('keys are reported in their last seven days', () => {
  const key = (days: number) => ({ id: String(days), organization: 'acme', expiresAtMs: NOW + days * DAY_MS })
  const found = expiringKeys([key(-1), key(0), key(1), key(7), key(8)], NOW)
  expect(found.map(({ parts }) => parts[2] ?? '')).toEqual(['1', '7'])
})

test('installations with the same organisations have alerts of their own, which nodes share', async () => {
  using hook = webhook()
  const named = { key: 'h', label: 'h', format: 'weir', secret: ALERT_SECRET } as const
  const config = { hooks: [{ ...named, url: hook.url, events: ['*'] }], spend: [] }
  const refused = refusingLimit({ ...ORG, spentMicroUsd: 5, limitMicroUsd: 5 }, Date.now())
  const logger = pino({ level: 'silent' })
  const open = (node: string, nodes?: SharedAlerts) =>
    new Alerts({ dataDir: mkdtempSync(join(root, node)), config, node, logger, nodes })
  let agreed: string | undefined
  const winners = new Map<string, string>()
  const shared: SharedAlerts = {
    installation: async (own) => (agreed ??= own),
    claim: async (id, { token }) => {
      winners.set(id, winners.get(id) ?? token)
      return winners.get(id) === token
    },
  }
  const opened = [open('prod'), open('staging'), open('node-1', shared), open('node-2', shared)]
  // Two nodes that have not agreed yet report nothing.
  expect(opened.map((alerts) => alerts.reportOnce(refused))).toEqual([true, true, false, false])
  for (const alerts of opened) while (!alerts.reportOnce(refused)) await Promise.resolve()
  const firing = await hook.until(3)
  expect(new Set(firing.map(({ id }) => id)).size).toBe(3)
  expect(new Set(firing.map(({ installation }) => installation)).size).toBe(3)
  // Whichever node reports the end, it is that of the same alert.
  for (const alerts of opened) alerts.endMissing('spend.refusing', [])
  const ended = await hook.until(3, ({ status }) => status === 'resolved')
  expect(ended.map(({ id }) => id).sort()).toEqual(firing.map(({ id }) => id).sort())
  for (const alerts of opened) await alerts.close()
  expect(hook.received).toHaveLength(6)
})

test('what an earlier version has reported under its id is not reported again', () => {
  const queue = AlertQueue.open(mkdtempSync(join(root, 'earlier-')), () => ['hook'])
  const { parts, occurrence, forgetMs } = refusingLimit({ ...ORG, spentMicroUsd: 5, limitMicroUsd: 5 }, NOW)
  const add = (id: string, formerId?: string) =>
    queue.addOnce(alertOf(occurrence, { node: 'n', nowMs: NOW, id }), NOW, { claim: undefined, forgetMs, formerId })
  expect(add(derivedId(parts))).toEqual([])
  expect(add(derivedId(parts, queue.installation), derivedId(parts))).toBeUndefined()
  expect(add(derivedId([...parts, 'other'], queue.installation), derivedId([...parts, 'other']))).toEqual([])
  queue.close()
})
