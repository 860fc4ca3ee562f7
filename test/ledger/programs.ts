/** Which servers the tests run against: Redis, or another program that takes its place, and Valkey beside it where this machine has it. */

/** `WEIR_REDIS_SERVER` names another program for every test that starts a Redis, such as `valkey-server`. */
export const REDIS = process.env['WEIR_REDIS_SERVER'] ?? 'redis-server'

/** The suites of the ledger run against it as well: where it is on PATH, or named by `WEIR_VALKEY_SERVER`. */
export const VALKEY = process.env['WEIR_VALKEY_SERVER'] ?? Bun.which('valkey-server') ?? undefined
