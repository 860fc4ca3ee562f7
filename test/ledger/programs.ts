/** The servers that the tests run against: Redis or a program that replaces it, and Valkey if this machine has it. */

/** `WEIR_REDIS_SERVER` names another program, such as `valkey-server`, for every test that starts a Redis. */
export const REDIS = process.env['WEIR_REDIS_SERVER'] ?? 'redis-server'

/** The ledger's suites also run against Valkey if it is on PATH or named by `WEIR_VALKEY_SERVER`. */
export const VALKEY = process.env['WEIR_VALKEY_SERVER'] ?? Bun.which('valkey-server') ?? undefined
