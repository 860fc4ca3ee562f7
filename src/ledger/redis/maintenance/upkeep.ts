/**
 * Keeps an eye on how much Redis holds of each organisation, and lets go of what belongs to keys that were revoked or have expired. Money
 * is none of its business: what an organisation has spent stays, and so does every key that may still be used.
 */

import type { RedisConfig } from '../../../core/redis-config.ts'
import type { KeyRecord } from '../../../keys/key-record.ts'
import { scanKeys } from '../../../keys/redis-key-store.ts'
import { connect, type RedisClient } from '../../../redis/connect.ts'
import { accessProblem, isPermanent } from '../../../redis/redis-errors.ts'
import { durabilityWarning } from '../../../redis/server-check.ts'
import { dayOf } from '../../window.ts'
import { isAhead } from '../../window-reset.ts'
import { ORGANIZATIONS_KEY, RedisStore, redisKey } from '../store/redis-store.ts'
import { AuditRetention } from './audit-retention.ts'
import { foldUsage } from './usage-folding.ts'

type Client = RedisClient

/** More fields than this are more keys than anybody has on purpose: worth a word to the operator. */
export const FIELDS_ALARM = 50_000
/** Fewer are not worth looking through the keys for. */
const FIELDS_SWEPT = 1000
const LOOK_MS = 3_600_000
const TRIM_MS = 60_000
/** After a look that failed. */
const RETRY_MS = 5000

/** How many fields an organisation has in Redis: one for each key that was ever used and not let go of, and a few more. */
export interface Size {
  readonly organization: string
  readonly fields: number
}

export interface UpkeepOptions {
  /** Whether a key of the configuration has this id: then its figures are not those of the key that was revoked alone. */
  readonly isConfigured: (organization: string, key: string) => boolean
  /** Every organisation's size, at each look. */
  readonly looked: (sizes: readonly Size[]) => void
  /** An organisation has come to have too many: once, until it was below again. */
  readonly alarmed: (size: Size) => void
  /** Redis does not let it look: once, until it does again. Where Redis is away the ledger says so, and this does not. */
  readonly denied: (why: string) => void
  /** A day or month of its budgets began too early: once, until it does no more. */
  readonly ahead: (organization: string) => void
  /** Redis may lose more than a second if it is killed: at the first connection. */
  readonly undurable: (warning: string) => void
  readonly now?: () => number
  /** How long single requests are kept. */
  readonly keepAuditMs: number
}

export class Upkeep {
  private readonly book: RedisStore
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
    private readonly client: Client,
    private readonly options: UpkeepOptions,
  ) {
    this.book = new RedisStore(client, client)
    this.retention = new AuditRetention(client, options.keepAuditMs)
  }

  /** Looks as soon as Redis is there, and then once an hour. */
  static begin(place: RedisConfig, options: UpkeepOptions): Upkeep {
    const client = connect(place, 'weir-upkeep')
    const upkeep = new Upkeep(client, options)
    client.once('ready', () => {
      upkeep.later(0)
      upkeep.trimLater(0)
      // If it may not ask, `denied` is told so.
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

  /** Counts, lets go of what may go where there is much, and raises the alarm over what is left. Throws where Redis cannot be asked. */
  async look(): Promise<void> {
    const organizations = (await this.client.smembers(ORGANIZATIONS_KEY)).sort()
    let sizes = await this.sizes(organizations)
    if (sizes.some(({ fields }) => fields >= FIELDS_SWEPT)) {
      await this.sweep(new Set(sizes.filter(({ fields }) => fields >= FIELDS_SWEPT).map((size) => size.organization)))
      sizes = await this.sizes(organizations)
    }
    const today = dayOf((this.options.now ?? Date.now)())
    // Nothing more comes about within a day.
    if (today !== this.folded) await foldUsage(this.client, this.book, today)
    this.folded = today
    this.options.looked(sizes)
    for (const size of sizes) this.judge(size)
    for (const { organization } of sizes) {
      await this.judgeWindows(organization).catch((error) => {
        // As with its size.
        if (!isPermanent(error)) throw error
      })
    }
  }

  private async judgeWindows(organization: string): Promise<void> {
    const windows = await this.book.windows(organization)
    const isNow = !isAhead(windows, (this.options.now ?? Date.now)())
    if (isNow) this.early.delete(organization)
    else if (!this.early.has(organization)) {
      this.early.add(organization)
      this.options.ahead(organization)
    }
  }

  private judge(size: Size): void {
    const { organization, fields } = size
    if (fields < FIELDS_ALARM) this.alarms.delete(organization)
    else if (!this.alarms.has(organization)) {
      this.alarms.add(organization)
      this.options.alarmed(size)
    }
  }

  private async sizes(organizations: readonly string[]): Promise<readonly Size[]> {
    const sizes: Size[] = []
    for (const organization of organizations) {
      try {
        sizes.push({ organization, fields: await this.client.hlen(redisKey(organization, 'scopes')) })
      } catch (error) {
        // Its requests are told of what else is under its keys; the others are looked at all the same.
        if (!isPermanent(error)) throw error
      }
    }
    return sizes
  }

  /** Most keys that are over have been let go of long ago: of a page of them those are asked about alone that are still there. */
  private async sweep(organizations: ReadonlySet<string>): Promise<void> {
    for await (const records of scanKeys(this.client)) {
      for (const organization of organizations) {
        const ids = records.filter((one) => one.organization === organization && this.isOver(one)).map(({ id }) => id)
        if (ids.length === 0) continue
        const there = await this.client.hmget(redisKey(organization, 'scopes'), ...ids.map(scopeField))
        for (const [i, id] of ids.entries()) if (there[i] != null) await this.book.drop(organization, id)
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
      // Where Redis is away the next look is soon.
      if (!this.closed) this.later(error === undefined || denial !== undefined ? LOOK_MS : RETRY_MS)
    }, ms)
    this.timer.unref()
  }

  /** Never at the same time as the one before. */
  private trimLater(ms: number): void {
    this.trimming = setTimeout(async () => {
      // Of a Redis that is away the ledger tells.
      await this.retention.trim((this.options.now ?? Date.now)()).catch((error: unknown) => this.deny(error))
      if (!this.closed) this.trimLater(TRIM_MS)
    }, ms)
    this.trimming.unref()
  }

  /** Tells what Redis does not allow, once until it does again. */
  private deny(error: unknown): string | undefined {
    const denial = accessProblem(error)?.message
    if (denial !== undefined && denial !== this.denial) this.options.denied(denial)
    this.denial = denial
    return denial
  }
}

/** As in `store.lua`. */
function scopeField(key: string): string {
  return `k${key}`
}
