/** What must hold after `scripts/soak --budgets`: counters are the sums of their requests, and shares are reported. */

import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { tagsByName } from '../../src/core/tags.ts'
import { type CounterAccount, counterOf } from '../../src/ledger/ledger.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { AccountUsage, ScopeUsage } from '../../src/ledger/reservation-store.ts'
import type { AlertReceiver } from '../chaos/alert-receiver.ts'
import { outboxRows } from '../chaos/checks.ts'
import type { Gateway } from '../chaos/gateway.ts'
import { pendingIn, sumOf, trailOf } from '../chaos/ledger-audit.ts'
import type { Report } from '../chaos/report.ts'
import type { SentinelSet } from '../chaos/sentinels.ts'

/** Leases and the reaper's interval, and time for a busy machine. */
const WAIT_MS_MAX = 150_000
/** For alerts of the last requests to arrive. */
const ALERTS_MS_MAX = 60_000
/** Counters that one call to Redis reads. */
const READ_AT_ONCE = 100

/** The nodes and their Redis, the organizations that were called, and the places whose limit was raised. */
interface Called {
  readonly nodes: readonly Gateway[]
  readonly redis: SentinelSet
  readonly called: ReadonlySet<string>
  readonly raised: ReadonlySet<string>
}

/** As alerts and counters are named. */
export function placeOf(organization: string, name: string, value: unknown): string {
  return [organization, name, value].filter(Boolean).join(' ')
}

/** Resolves to the shares of limits that no raise has moved and that are reached, each with its place. */
export async function checkCounters(
  report: Report,
  { nodes, redis, called, raised }: Called,
  limitMicroUsd: number,
  shares: readonly number[],
): Promise<readonly string[]> {
  const client = redis.client()
  const store = new RedisStore(client, client)
  const outboxes = nodes.map((node) => join(node.dataDir, OUTBOX_FILE))
  const organizations = [...called].sort()
  const read = async (organization: string, budgets: readonly CounterAccount[]) =>
    await store.figures({ organization, organizationLimits: {}, key: '', keyLimits: {}, budgets })
  await waitUntil(async () => {
    for (const organization of organizations) if ((await read(organization, [])).organization.live > 0) return false
    return sumOf(outboxes, (path) => pendingIn(path, OUTBOX_SCHEMA)) === 0
  })
  const rows = outboxRows(outboxes)
  const logged = new Set(rows.map(({ id }) => id))
  const trail = await trailOf(
    client,
    organizations.map((organization) => ({ organization, keys: [] })),
  )
  // Those of requests whose node was killed: no log has them.
  const lost = [...trail].flatMap(([id, charges]) => {
    const last = charges.at(-1)
    return logged.has(id) || last === undefined || last.kind === 'restored' ? [] : [last]
  })
  const sums = new Map<string, number>()
  const add = (place: string, cost: number) => sums.set(place, (sums.get(place) ?? 0) + cost)
  for (const { organization, tags, costMicroUsd } of [...rows, ...lost]) {
    const { person, session } = tagsByName(tags)
    add(placeOf(organization, 'all', ''), costMicroUsd)
    if (person !== undefined) add(placeOf(organization, 'person', person), costMicroUsd)
    if (session !== undefined) add(placeOf(organization, 'session', session), costMicroUsd)
  }
  const [wrong, reached]: [string[], string[]] = [[], []]
  let [counters, held] = [0, 0]
  for (const organization of organizations) {
    for (const { name, value, usage } of await countersIn(client, organization, read)) {
      const place = placeOf(organization, name, value)
      const sum = sums.get(place) ?? 0
      sums.delete(place)
      counters += 1
      held += usage.live + usage.total.held
      if (usage.total.spent !== sum) wrong.push(`${place}: spent ${usage.total.spent}, its requests ${sum}`)
      // A counter whose day has ended has other shares to reach.
      if (name !== 'person' || raised.has(place) || usage.day.spent !== sum) continue
      for (const share of shares) if (sum >= share * limitMicroUsd) reached.push(`${place} ${share}`)
    }
  }
  for (const [place, sum] of sums) if (sum > 0) wrong.push(`${place}: no counter, its requests ${sum}`)
  client.disconnect()
  const places = `of ${organizations.length} organizations`
  const requests = `${rows.length} requests in logs and ${lost.length} of killed nodes, ${places}`
  report.check(
    `${requests}: ${counters} counters, ${wrong.length} of them not the sum of theirs`,
    counters > 0 && wrong.length === 0,
    wrong,
  )
  report.check(`nothing is held at the end: ${held} = 0`, held === 0)
  return reached
}

/** All counters that Redis has of an organization. */
async function countersIn(
  client: Redis,
  organization: string,
  read: (organization: string, budgets: readonly CounterAccount[]) => Promise<AccountUsage>,
): Promise<readonly (CounterAccount & { readonly usage: ScopeUsage })[]> {
  const fields = await client.hkeys(redisKey(organization, 'counters'))
  const budgets = fields.flatMap((field) =>
    field.startsWith('c') ? [{ ...counterOf(field.slice(1)), limits: {} }] : [],
  )
  const pages = Array.from({ length: Math.ceil(budgets.length / READ_AT_ONCE) }, (_, page) =>
    budgets.slice(page * READ_AT_ONCE, (page + 1) * READ_AT_ONCE),
  )
  const found = await Promise.all(
    pages.map(async (some) => {
      const { budgets: usages = [] } = await read(organization, some)
      return usages.flatMap(({ usage }, i) => (some[i] === undefined ? [] : [{ ...some[i], usage }]))
    }),
  )
  return found.flat()
}

/** An alert that is sent again has the same id. */
export async function checkAlerts(
  report: Report,
  { accepted }: AlertReceiver,
  reached: readonly string[],
): Promise<void> {
  const placesOf = () =>
    accepted.map(({ alert: { organization, name, value, share } }) =>
      [placeOf(String(organization), String(name), value), share].join(' '),
    )
  await waitUntil(async () => {
    const reported = new Set(placesOf())
    return reached.every((place) => reported.has(place))
  }, ALERTS_MS_MAX)
  const reported = new Set(placesOf())
  const missing = reached.filter((place) => !reported.has(place))
  report.check(
    `${reached.length} shares of limits that no raise has moved are reached; not reported: ${missing.length}`,
    missing.length === 0,
    missing,
  )
  const ids = new Map<string, Set<string>>()
  for (const { alert } of accepted) {
    const { organization, name, value, window, share, limit, id } = alert
    const place = [organization, name, value, window, share, limit].join(' ')
    ids.set(place, (ids.get(place) ?? new Set()).add(String(id)))
  }
  const several = [...ids].filter(([, own]) => own.size > 1).map(([place, own]) => `${place}: ${[...own].join(' ')}`)
  report.check(
    `${ids.size} shares of limits were reported, ${accepted.length} times; with several ids: ${several.length}`,
    ids.size > 0 && several.length === 0,
    several,
  )
}

async function waitUntil(holds: () => Promise<boolean>, ms = WAIT_MS_MAX): Promise<void> {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs && !(await holds().catch(() => false))) await Bun.sleep(1000)
}
