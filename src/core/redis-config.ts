/** The connection settings of a Redis. Plain data; it may hold a password and must never be logged. */

/**
 * One server, a cluster, or the sentinels of a master. Addresses are `redis://` or `rediss://` URLs, with or without a
 * password.
 */
export type RedisConfig = RedisAddresses & {
  /** For `rediss://` addresses, sentinels included. */
  readonly tls?: RedisTlsConfig | undefined
  /** The longest wait for a reply, in time that the event loop of this process runs; absent = `REDIS_TIMEOUT_MS`. */
  readonly timeoutMs?: number | undefined
}

/** The default. weir treats a slower command as failed; Redis may still execute it, which every script allows for. */
export const REDIS_TIMEOUT_MS = 250

/** Sends commands together with the reservations of the same moment: on one connection, in one write. */
export interface ReservationPipeline {
  /** The reply, its strings as bytes. Rejects if Redis does not answer. */
  ask(words: readonly (string | number)[]): Promise<unknown>
}

type RedisAddresses =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'cluster'; readonly nodes: readonly string[] }
  | { readonly kind: 'sentinel'; readonly sentinels: readonly string[]; readonly name: string }

/** All of it PEM. */
export interface RedisTlsConfig {
  /** The CA certificates to trust; absent = those of the system. */
  readonly ca?: string | undefined
  /** The client certificate; set together with `key`, or not at all. */
  readonly certificate?: string | undefined
  readonly key?: string | undefined
}
