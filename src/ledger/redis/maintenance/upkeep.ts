/**
 * Maintenance in Redis. Once an hour it deletes the figures of keys that were revoked or have expired, folds old usage
 * and looks for budget windows ahead of the clock. Once a minute one of the nodes trims audit trails and measures the
 * size of each organisation, for all. It deletes no organisation's spending and no key that may still be used.
 */

import type { RedisConfig } from '../../../core/redis-config.ts'
import type { KeyRecord } from '../../../keys/key-record.ts'
import { scanKeys } from '../../../keys/redis-key-store.ts'
import { connect, type RedisClient } from '../../../redis/connect.ts'
import { hashPages } from '../../../redis/hash-pages.ts'
import { accessProblem, isPermanent } from '../../../redis/redis-errors.ts'
import { durabilityWarning } from '../../../redis/server-check.ts'
import { dayOf } from '../../window.ts'
import { isAhead } from '../../window-reset.ts'
import { FIELDS_KEY, ORGANIZATIONS_KEY, redisKey, UPKEEP_TURN_KEY } from '../store/redis-keys.ts'
import { RedisStore } from '../store/redis-store.ts'
import { AuditRetention, readEach } from './audit-retention.ts'
import { foldUsage } from './usage-folding.ts'

/** As in `counters.lua`. */
const COUNTER = 'c'
/** With more fields an organisation has more keys than anybody has on purpose: the operator gets a warning. */
export const FIELDS_ALARM = 50_000
/** With fewer fields an organisation is not searched for old keys. */
const FIELDS_SWEPT = 1000
const LOOK_MS = 3_600_000
const TRIM_MS = 60_000
/** Nodes come at different times of the minute. */
const TURN_MS = 55_000
/** The pause after a failed check. */
const RETRY_MS = 5000

/**
 * How many fields an organisation has in Redis: one for each key that was used and not deleted since, and a few more.
 */
export interface Size {
  readonly organization: string
  readonly fields: number
}

export interface UpkeepOptions {
  /** True if a key of the configuration has this id: then the figures are not those of the revoked key alone. */
  readonly isConfigured: (organization: string, key: string) => boolean
  /** Called at each check, and once a minute, with the fields of the largest organisation. */
  readonly measured: (fields: number) => void
  /** Called when an organisation has too many fields; again only after it had fewer. */
  readonly alarmed: (size: Size) => void
  /** Called when an organisation that had too many fields has fewer. */
  readonly calmed: (size: Size) => void
  /**
   * Called when Redis does not permit the check; again only after it did. If Redis does not answer, the ledger reports
   * it instead.
   */
  readonly denied: (why: string) => void
  /** Called when a window of a budget lies ahead of the clock; again only after it did not. */
  readonly ahead: (organization: string) => void
  /** Called when the windows of an organisation lie ahead of the clock no more. */
  readonly timely: (organization: string) => void
  /** Called at the first connection if Redis may lose more than a second of writes when it is killed. */
  readonly undurable: (warning: string) => void
  readonly now?: () => number
  /** How long single requests are kept. */
  readonly keepAuditMs: number
}

export class Upkeep {
  private readonly store: RedisStore
  private readonly alarms = new Set<string>()
  private readonly early = new Set<string>()
  private denial: string | undefined
  /** The day on which old usage was last folded into months. */
  private folded: number | undefined
  private readonly retention: AuditRetention
  private timer: ReturnType<typeof setTimeout> | undefined
  private trimming: ReturnType<typeof setTimeout> | undefined
  private closed = false

  constructor(
    private readonly client: RedisClient,
    private readonly options: UpkeepOptions,
  ) {
    this.store = new RedisStore(client, client)
    this.retention = new AuditRetention(client, options.keepAuditMs)
  }

  /** Checks as soon as Redis answers, and then once an hour. */
  static begin(place: RedisConfig, options: UpkeepOptions): Upkeep {
    const client = connect(place, 'weir-upkeep')
    const upkeep = new Upkeep(client, options)
    client.once('ready', () => {
      upkeep.later(0)
      upkeep.trimLater(0)
      // If Redis does not permit it, the first check calls `denied`.
      upkeep.warn().catch(() => undefined)
    })
    return upkeep
  }

  private async warn(): Promise<void> {
    const warning = await durabilityWarning(this.client)
    if (warning !== undefined) this.options.undurable(warning)
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
    clearTimeout(this.trimming)
    this.client.disconnect()
  }

  /**
   * One check: measures, deletes old keys of large organisations, folds usage, and reports what is left. Throws if
   * Redis does not answer.
   */
  async look(): Promise<void> {
    const organizations = (await this.client.smembers(ORGANIZATIONS_KEY)).sort()
    let sizes = await this.sizes(organizations)
    if (sizes.some(({ fields }) => fields >= FIELDS_SWEPT)) {
      await this.sweep(new Set(sizes.filter(({ fields }) => fields >= FIELDS_SWEPT).map((size) => size.organization)))
      sizes = await this.sizes(organizations)
    }
    const today = dayOf((this.options.now ?? Date.now)())
    // Once a day is enough: usage is folded by day.
    if (today !== this.folded) await foldUsage(this.client, this.store, today)
    this.folded = today
    this.options.measured(largestOf(sizes))
    for (const size of sizes) this.judge(size)
    for (const { organization } of sizes) {
      await this.judgeWindows(organization).catch((error) => {
        // As for its size.
        if (!isPermanent(error)) throw error
      })
    }
  }

  /** What is done once a minute, by one of the nodes; the others read what it measured. */
  async trim(): Promise<void> {
    const { client } = this
    if ((await client.set(UPKEEP_TURN_KEY, '1', 'PX', TURN_MS, 'NX')) === 'OK') {
      await this.retention.trim((this.options.now ?? Date.now)())
      // At the first check a new Redis has no organisation, and the next one is an hour later.
      const fields = largestOf(await this.sizes(await client.smembers(ORGANIZATIONS_KEY)))
      await client.set(FIELDS_KEY, fields, 'PX', 3 * TRIM_MS)
    }
    const fields = await client.get(FIELDS_KEY)
    if (fields !== null) this.options.measured(Number(fields))
  }

  private async judgeWindows(organization: string): Promise<void> {
    const nowMs = (this.options.now ?? Date.now)()
    const isEarly = isAhead(await this.store.windows(organization), nowMs)
    if (!isEarly && !(await this.hasCounterAhead(organization, nowMs))) {
      if (this.early.delete(organization)) this.options.timely(organization)
    } else if (!this.early.has(organization)) {
      this.early.add(organization)
      this.options.ahead(organization)
    }
  }

  /** Whether a window of a budget's counter lies ahead. A page of the hash has about as many as a script may read. */
  private async hasCounterAhead(organization: string, nowMs: number): Promise<boolean> {
    for await (const page of hashPages(this.client, redisKey(organization, 'counters'), `${COUNTER}*`)) {
      const names = page.map(([field]) => field.slice(COUNTER.length))
      if (names.length > 0 && (await this.store.countersAhead(organization, names, nowMs)) > 0) return true
    }
    return false
  }

  private judge(size: Size): void {
    const { organization, fields } = size
    if (fields < FIELDS_ALARM) {
      if (this.alarms.delete(organization)) this.options.calmed(size)
    } else if (!this.alarms.has(organization)) {
      this.alarms.add(organization)
      this.options.alarmed(size)
    }
  }

  private async sizes(organizations: readonly string[]): Promise<readonly Size[]> {
    return readEach(organizations, async (organization) => {
      return { organization, fields: await this.client.hlen(redisKey(organization, 'scopes')) }
    })
  }

  /** Most keys that have ended were deleted long ago, so each page is first checked for those that Redis still has. */
  private async sweep(organizations: ReadonlySet<string>): Promise<void> {
    for await (const records of scanKeys(this.client)) {
      for (const organization of organizations) {
        const ids = records.filter((one) => one.organization === organization && this.isOver(one)).map(({ id }) => id)
        if (ids.length === 0) continue
        const there = await this.client.hmget(redisKey(organization, 'scopes'), ...ids.map(scopeField))
        for (const [i, id] of ids.entries()) if (there[i] != null) await this.store.drop(organization, id)
      }
    }
  }

  private isOver({ id, organization, revokedMs, expiresAtMs }: KeyRecord): boolean {
    const now = (this.options.now ?? Date.now)()
    const isOver = revokedMs !== undefined || (expiresAtMs !== undefined && expiresAtMs <= now)
    return isOver && !this.options.isConfigured(organization, id)
  }

  private later(ms: number): void {
    this.timer = setTimeout(async () => {
      const error = await this.look().then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      const denial = this.deny(error)
      // If Redis does not answer, the next check is soon.
      if (!this.closed) this.later(error === undefined || denial !== undefined ? LOOK_MS : RETRY_MS)
    }, ms)
    this.timer.unref()
  }

  /** The next trim begins after the one before has ended. */
  private trimLater(ms: number): void {
    this.trimming = setTimeout(async () => {
      // If Redis does not answer, the ledger reports it.
      await this.trim().catch((error: unknown) => this.deny(error))
      if (!this.closed) this.trimLater(TRIM_MS)
    }, ms)
    this.trimming.unref()
  }

  /** Reports what Redis does not permit; again only after it did. */
  private deny(error: unknown): string | undefined {
    const denial = accessProblem(error)?.message
    if (denial !== undefined && denial !== this.denial) this.options.denied(denial)
    this.denial = denial
    return denial
  }
}

function largestOf(sizes: readonly Size[]): number {
  return sizes.reduce((most, { fields }) => Math.max(most, fields), 0)
}

/** As in `store.lua`. */
function scopeField(key: string): string {
  return `k${key}`
}
