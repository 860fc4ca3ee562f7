/** The organizations of the chaos run, their keys, and the limits under test. */

import type { JsonObject } from '../../src/core/json.ts'
import { tagsByName } from '../../src/core/tags.ts'
import type { CounterAccount } from '../../src/ledger/ledger.ts'
import { ALERT_SECRET } from './alert-receiver.ts'
import { PROJECTS } from './callers.ts'
import { PRICE } from './provider.ts'

export interface Organization {
  readonly organization: string
  readonly keys: readonly (readonly [id: string, key: string])[]
}

/** The key that must reach its spend limit. */
export const TIGHT = 'acme/tight'
/** Its limit in micro-dollars per second of the run: less than its requests cost. */
const TIGHT_A_SECOND = 6000

/** One organization with three keys: without limits, with a small budget, and with few concurrent requests. */
export const acme: readonly Organization[] = [
  {
    organization: 'acme',
    keys: ['free', 'tight', 'narrow'].map((id): readonly [string, string] => [id, `chaos-${id}-0123456789`]),
  },
]

/** Enough organizations that each master of a cluster has some. */
export const many: readonly Organization[] = Array.from({ length: 9 }, (_, i) => ({
  organization: `one-${i}`,
  keys: [[`key-${i}`, `chaos-tenant-${i}-0123456789`]],
}))

/** Dollars of each spend limit of an organization. */
const LIMIT_USD = 1000

/** Shares of the limits that are reported, in parts per million: from 1,000 micro-dollars on, and those of `TIGHT`. */
export const SHARES_PPM: readonly number[] = [
  ...[1, 2, 4, 6, 8, 10, 15, 20, 30, 50, 80, 120, 200, 300, 500, 900],
  ...[100_000, 400_000, 700_000, 1_000_000],
]

/** A budget of everything, one of each project and one of each key, with limits that are never reached. */
const BUDGETS: readonly JsonObject[] = [
  { name: 'all' },
  { name: 'project', per: 'tag:project' },
  { name: 'key', per: 'key' },
].map((budget) => ({ ...budget, limits: { spend: { total: 1e9 }, requests_per_minute: 1_000_000 } }))

/** The counters of an organization's budgets. */
export function countersOf({ keys }: Organization): readonly CounterAccount[] {
  const named = (name: string, values: readonly string[]) => values.map((value) => ({ name, value, limits: {} }))
  const ofKeys = keys.map(([id]) => id)
  return [...named('all', ['']), ...named('project', PROJECTS.filter(Boolean)), ...named('key', ofKeys)]
}

/**
 * How figures name a counter; organizations and keys have other names.
 */
export function counterFigure(organization: string, { name, value }: Pick<CounterAccount, 'name' | 'value'>): string {
  return `${organization}|${name}|${value}`
}

/** What decides where a charge counts. */
interface Charged {
  readonly organization: string
  readonly key: string
  readonly tags: string
}

/** Whether figures under a name count a charge. */
export function countsCharge(who: string, { organization, key, tags }: Charged): boolean {
  const own = [
    { name: 'all', value: '' },
    { name: 'key', value: key },
  ]
  const { project = '' } = tagsByName(tags)
  if (project !== '') own.push({ name: 'project', value: project })
  const counters = own.map((counter) => counterFigure(organization, counter))
  return [organization, `${organization}/${key}`, ...counters].includes(who)
}

/** The spend limits of an organization or key (`organization/key`) in micro-dollars, by the names of the windows. */
export function limitsMicroUsd(owner: string, seconds: number): Readonly<Record<string, number>> {
  if (owner.includes('|')) return {}
  if (owner === TIGHT) return { total: tightMicroUsd(seconds) }
  const limit = LIMIT_USD * 1_000_000
  return owner.includes('/') ? {} : { day: limit, month: limit, total: limit }
}

export function tightMicroUsd(seconds: number): number {
  return Math.max(15_000, TIGHT_A_SECOND * seconds)
}

/** The configuration file without addresses and directories. */
export function configOf(
  organizations: readonly Organization[],
  providerUrl: string,
  alertsUrl: string,
  seconds: number,
  more: JsonObject,
): JsonObject {
  const limits: Readonly<Record<string, JsonObject>> = {
    tight: { spend: { total: tightMicroUsd(seconds) / 1e6 } },
    narrow: { concurrent_requests: 3, requests_per_minute: 100_000, tokens_per_minute: 10_000_000 },
  }
  return {
    tags: ['project'],
    alerts: { webhook: alertsUrl, secret: ALERT_SECRET, spend: SHARES_PPM.map((ppm) => ppm / 1_000_000) },
    compaction: { keys: [Buffer.alloc(32, 1).toString('base64')] },
    providers: { up: { dialect: 'openai', base_url: providerUrl, api_key: 'x' } },
    models: [{ name: 'm', targets: [{ provider: 'up', model: 'up' }], price: PRICE, max_output_tokens: 64 }],
    organizations: organizations.map(({ organization, keys }) => ({
      id: organization,
      limits: { spend: { day: LIMIT_USD, month: LIMIT_USD, total: LIMIT_USD } },
      timezone: 'Asia/Kathmandu',
      budgets: [...BUDGETS],
      keys: keys.map(([id, key]) => ({ id, key, limits: limits[id] ?? {} })),
    })),
    ...more,
  }
}
