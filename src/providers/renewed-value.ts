/** Values that expire, such as access tokens: fetched when first needed, and again before they expire. */

import type { Endpoint } from '../core/endpoint.ts'
import { messageOf } from '../core/error-message.ts'
import { ProviderError } from '../core/provider-error.ts'

/** What was fetched, and until when it holds in Unix milliseconds; undefined: for good. */
export interface Expiring<T> {
  readonly value: T
  readonly expiresAtMs: number | undefined
}

/** It is fetched again this long before it expires, or in the last half of a shorter life. */
const AHEAD_MS = 300_000
/** After a failed attempt to replace a value that still holds. */
const RETRY_MS = 10_000
/** The services that give tokens run on the same machine or network, and answer in milliseconds. */
const FETCH_MS_MAX = 10_000

export class RenewedValue<T> {
  private value: T | undefined
  /** Unix milliseconds. */
  private refreshMs = 0
  private expiresMs = 0
  private fetching: Promise<T> | undefined

  constructor(
    private readonly fetch: () => Promise<Expiring<T>>,
    private readonly now: () => number = Date.now,
    private readonly fetchMsMax: number = FETCH_MS_MAX,
  ) {}

  /**
   * The value. While one holds, no caller waits: it is replaced in the background. Concurrent callers share one fetch.
   * Rejects with what the fetch throws if no value holds.
   */
  get(): T | Promise<T> {
    const now = this.now()
    const { value } = this
    if (value === undefined || now >= this.expiresMs) return this.fetched()
    if (now >= this.refreshMs && this.fetching === undefined) {
      this.refreshMs = now + RETRY_MS
      this.fetched().catch(ignoreUntilExpiry)
    }
    return value
  }

  private fetched(): Promise<T> {
    this.fetching ??= this.fetchInTime().finally(() => {
      this.fetching = undefined
    })
    return this.fetching
  }

  private async fetchInTime(): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => reject(new Error(`no answer within ${this.fetchMsMax} ms`)), this.fetchMsMax)
    try {
      const { value, expiresAtMs = Number.POSITIVE_INFINITY } = await Promise.race([this.fetch(), late])
      const now = this.now()
      this.value = value
      this.expiresMs = expiresAtMs
      this.refreshMs = expiresAtMs - Math.min(AHEAD_MS, (expiresAtMs - now) / 2)
      return value
    } finally {
      clearTimeout(timer)
    }
  }
}

/** The value still holds, and the next request fetches again. Once it has expired, a failure is the request's. */
function ignoreUntilExpiry(): void {}

/** What this machine, or the key of a service account, proves an identity with: one for each endpoint. */
export class MachineIdentity<T> {
  /** A reload makes new endpoints; the values of the old ones end with them. */
  private readonly known = new WeakMap<Endpoint, RenewedValue<T>>()

  /** `what` names the value in errors: `access token`; `source` follows it. */
  constructor(
    private readonly what: string,
    private readonly source: string = 'from this machine',
  ) {}

  /** Throws `ProviderError` `credential` if none can be fetched. */
  async of(endpoint: Endpoint, fetch: () => Promise<Expiring<T>>): Promise<T> {
    const renewed = this.known.getOrInsertComputed(endpoint, () => new RenewedValue(fetch))
    try {
      return await renewed.get()
    } catch (cause) {
      throw new ProviderError('credential', `no ${this.what} ${this.source}: ${messageOf(cause)}`, { cause })
    }
  }
}
