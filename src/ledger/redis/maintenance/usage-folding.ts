/**
 * Folds old usage in Redis: hours into days, and days into months, so that one field has what thirty had. What nodes
 * served that are not connected any more becomes one field for each node: where a data_dir does not outlive a release,
 * every release leaves such a node.
 */

import { batchesOf, mapInBatches } from '../../../core/batches.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { hashPages } from '../../../redis/hash-pages.ts'
import { isPermanent } from '../../../redis/redis-errors.ts'
import type { UsagePlace } from '../../usage-log.ts'
import { seriesOfDay } from '../../usage-series.ts'
import { foldedDay, HOUR_DAYS_KEPT, NODE_DAYS_KEPT } from '../../window.ts'
import { ORGANIZATIONS_KEY, redisKey, SEEN_KEY } from '../store/redis-keys.ts'
import type { RedisStore } from '../store/redis-store.ts'

const ABREAST = 32
/** Places of absent nodes that are gathered, so that those of one node are few calls; about 10 MB. */
const GATHERED_MAX = 50_000
/** A call takes about a millisecond of Redis. */
const SUMMED_A_CALL = 200

type PlaceOfNode = Omit<UsagePlace, 'organization'> & { readonly node: string }

interface Folding {
  readonly client: RedisClient
  readonly store: RedisStore
  readonly today: number
  /** The nodes that were not connected for longer than figures of a node are kept by day. */
  readonly absent: ReadonlySet<string>
}

export async function foldUsage(client: RedisClient, store: RedisStore, today: number): Promise<void> {
  const folding = { client, store, today, absent: await absentNodes(client, today) }
  for (const organization of await client.smembers(ORGANIZATIONS_KEY)) {
    try {
      await foldOrganization(folding, organization)
      await foldNodes(folding, organization)
    } catch (error) {
      // A problem with the keys of one organisation must not stop the others.
      if (!isPermanent(error)) throw error
    }
  }
}

async function absentNodes(client: RedisClient, today: number): Promise<ReadonlySet<string>> {
  const absent = new Set<string>()
  for await (const seen of hashPages(client, SEEN_KEY)) {
    for (const [node, day] of seen) if (Number(day) < today - NODE_DAYS_KEPT) absent.add(node)
  }
  return absent
}

async function foldOrganization({ client, store, today }: Folding, organization: string): Promise<void> {
  for await (const page of hashPages(client, redisKey(organization, 'usage'))) {
    const old = page.flatMap(([field]) => {
      const [day = '', key, series] = field.split('\0')
      if (key === undefined || series === undefined) return []
      const month = foldedDay(Number(day), today)
      const into = Number(day) < today - HOUR_DAYS_KEPT ? seriesOfDay(series) : series
      if (month === Number(day) && into === series) return []
      return [() => store.fold(organization, { day: Number(day), key, series, month, into })]
    })
    await mapInBatches(old, ABREAST, (fold) => fold())
  }
}

/** The same for the figures of each node, which have no hours. */
async function foldNodes({ client, store, today, absent }: Folding, organization: string): Promise<void> {
  const gathered: PlaceOfNode[] = []
  for await (const page of hashPages(client, redisKey(organization, 'nodes'))) {
    const figures = page.flatMap(([field]) => {
      const [node = '', day = '', key, series] = field.split('\0')
      return key === undefined || series === undefined ? [] : [{ node, day: Number(day), key, series }]
    })
    const months = figures.filter(({ node, day }) => !absent.has(node) && foldedDay(day, today) !== day)
    await mapInBatches(months, ABREAST, (one) => store.foldOfNode(organization, one))
    gathered.push(...figures.filter(({ node }) => absent.has(node)))
    if (gathered.length >= GATHERED_MAX) await sumUp(store, organization, gathered.splice(0))
  }
  await sumUp(store, organization, gathered)
}

async function sumUp(store: RedisStore, organization: string, places: readonly PlaceOfNode[]): Promise<void> {
  const calls = [...Map.groupBy(places, ({ node }) => node)].flatMap(([node, all]) => {
    return Array.from(batchesOf(all, SUMMED_A_CALL), (rows) => ({ node, rows }))
  })
  await mapInBatches(calls, ABREAST, ({ node, rows }) => store.sumOfNode(organization, node, rows))
}
