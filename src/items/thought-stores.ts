/** Where the thoughts of models are kept: on this machine, or in Redis for all gateways. */

import type { Config } from '../config/config.ts'
import { isArray } from '../core/json.ts'
import type { RedisConfig, ReservationPipeline } from '../core/redis-config.ts'
import type { MarksQuestion, ThoughtStore } from '../core/thoughts.ts'
import type { ItemChannel } from './item-store.ts'
import { redisOf } from './item-stores.ts'
import { LocalItemStore } from './local-item-store.ts'
import type { RedisItems } from './redis-items.ts'
import type { Sealer } from './sealer.ts'

/** Before the ids of thoughts among the items of a machine, and before the keys of a look-up, each on a line. */
const PREFIX = 'thought:'
/** What the thoughts of all organisations take in the memory of a machine; more only if one may have more. */
const MACHINE_BYTES_MAX = 256 * 1024 * 1024

/**
 * About what one look-up finds at most, of the last keys: more than any model reads, and a request must not fill the
 * memory of a machine with what its organisation has.
 */
const LOOKUP_CHARS_MAX = 8 * 1024 * 1024

/** Equal for two configurations that can share one store. */
export function thoughtStorePlace(config: Config): string {
  return JSON.stringify([config.continuity, redisOf(config)])
}

/**
 * Undefined if the configuration keeps none. `sealer` and `peers` as for items (`item-stores.ts`); `pipeline`: that
 * of the ledger.
 */
export function openThoughtStore(
  config: Config,
  sealer: Sealer,
  peers: ItemChannel,
  pipeline: ReservationPipeline | undefined,
): ThoughtStore | undefined {
  const { continuity, responses } = config
  if (continuity === undefined || continuity.keepSeconds === 0) return undefined
  const redis = redisOf(config)
  if (redis === undefined) return new PeerThoughts(peers)
  return new SealedThoughts(sealer, loadRedis(redis, continuity, responses.redis === undefined ? pipeline : undefined))
}

/** Where a machine keeps the thoughts of its workers' answers; undefined if it keeps none. */
export function openMachineThoughts(config: Config): LocalItemStore | undefined {
  const { continuity } = config
  if (redisOf(config) !== undefined || continuity === undefined || continuity.keepSeconds === 0) return undefined
  const { keepSeconds: ttlSeconds, organizationBytes: organizationBytesMax } = continuity
  const bytesMax = Math.max(MACHINE_BYTES_MAX, organizationBytesMax)
  return new LocalItemStore({ ttlSeconds, bytesMax, organizationBytesMax })
}

/** Whether an id, or what is looked up, is that of thoughts. */
export function isOfThoughts(id: string): boolean {
  return id.startsWith(PREFIX)
}

/** The answer to a look-up of several keys: a list in JSON. */
export function recalledThoughts(items: LocalItemStore, organization: string, lookup: string): string {
  let left = LOOKUP_CHARS_MAX
  const ids = lookup.split('\n').reverse()
  const found = ids.map((id) => {
    const text = left > 0 ? items.getText(organization, id) : undefined
    left -= text?.length ?? 0
    return text ?? null
  })
  return JSON.stringify(found.reverse())
}

/** For how long nodes are not asked for their marks again: over many requests, a question costs nothing. */
const MARKS_MS = 20
/** For how long no further look-up is sent with such a question: of a long history it takes half a millisecond. */
const EARLY_LOOKUP_MS = 250

/** In the memory of the process that outlives the workers of a machine. */
class PeerThoughts implements ThoughtStore {
  constructor(private readonly channel: ItemChannel) {}

  async get(organization: string, keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    try {
      const lookup = keys.map((key) => PREFIX + key).join('\n')
      const json = await this.channel.get(organization, lookup)
      const texts: unknown = json === undefined ? [] : JSON.parse(json)
      return isArray(texts) ? texts.map((text) => (typeof text === 'string' ? text : undefined)) : []
    } catch {
      // The other process does not answer in time: the model does without its earlier thoughts.
      return []
    }
  }

  put(organization: string, key: string, text: string): void {
    this.channel.put(organization, [{ id: PREFIX + key, json: text }], true)
  }
}

/** In Redis, encrypted before they leave the process. */
class SealedThoughts implements ThoughtStore {
  private asking: MarksQuestion | undefined
  private askedMs = Number.NEGATIVE_INFINITY
  /** When a look-up went out with a question. */
  private lookedUpMs = Number.NEGATIVE_INFINITY

  constructor(
    private readonly sealer: Sealer,
    private readonly items: Promise<RedisItems>,
  ) {}

  async get(organization: string, keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    try {
      const sealed = await (await this.items).getAll(organization, keys)
      return sealed.map((bytes) => bytes && this.sealer.open('thought', organization, bytes))
    } catch {
      // Redis does not answer: the model does without its earlier thoughts.
      return []
    }
  }

  put(organization: string, key: string, text: string): void {
    const bytes = this.sealer.seal('thought', organization, text)
    void this.items.then((redis) => redis.put(organization, [{ id: key, bytes }]))
  }

  mark(mark: number): void {
    void this.items.then((redis) => redis.addMark(mark))
  }

  marks(learn: (mark: number) => void): MarksQuestion | undefined {
    if (this.asking !== undefined) return this.asking
    const nowMs = performance.now()
    if (nowMs - this.askedMs < MARKS_MS) return undefined
    this.askedMs = nowMs
    const areNew = this.items.then((redis) => redis.hasNewMarks()).catch(() => false)
    this.asking = { isFirst: true, areNew }
    void this.learn(areNew, learn)
    if (nowMs - this.lookedUpMs < EARLY_LOOKUP_MS) return this.asking
    this.lookedUpMs = nowMs
    return { isFirst: false, areNew }
  }

  /** The question is open until new marks are learned: a request that begins before that looks its thoughts up. */
  private async learn(areNew: Promise<boolean>, learn: (mark: number) => void): Promise<void> {
    try {
      if (await areNew) for (const mark of await (await this.items).readMarks()) learn(mark)
    } catch {
      // The next question finds them.
    } finally {
      this.asking = undefined
    }
  }

  close(): void {
    void this.items.then((redis) => redis.close())
  }
}

/** The Redis client is loaded only if a configuration needs it. */
async function loadRedis(
  redis: RedisConfig,
  { keepSeconds: ttlSeconds, organizationBytes: ownerBytesMax }: NonNullable<Config['continuity']>,
  pipeline: ReservationPipeline | undefined,
): Promise<RedisItems> {
  const { RedisItems } = await import('./redis-items.ts')
  return new RedisItems(redis, { ttlSeconds, ownerBytesMax, name: 'thoughts', pipeline })
}
