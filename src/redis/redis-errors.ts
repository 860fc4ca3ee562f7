/** What an error of Redis means: which errors an operator must fix, and which a retry may fix. Owns no connection. */

import { messageOf } from '../core/error-message.ts'
import { tlsProblem } from './tls.ts'

/** A server that weir cannot use until an operator changes something. `message` is one whole line for the operator. */
export class RedisUnfitError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RedisUnfitError'
  }
}

/** Message of the error of a command whose reply did not come in time. */
export const TIMED_OUT = 'Command timed out'

/**
 * An error of credentials, permissions or certificates, in words for the operator: no retry helps. Undefined for any
 * other error.
 */
export function accessProblem(error: unknown): RedisUnfitError | undefined {
  if (!(error instanceof Error)) return undefined
  // The client of a cluster reports the last error of a node beside its own message.
  const { message } = 'lastNodeError' in error && error.lastNodeError instanceof Error ? error.lastNodeError : error
  if (message.startsWith('NOAUTH')) {
    return new RedisUnfitError(
      'Redis requires a password, and the address in the configuration has none (NOAUTH). ' +
        'Write redis://:PASSWORD@HOST.',
      error,
    )
  }
  if (/^WRONGPASS|invalid password|without any password/.test(message)) {
    return new RedisUnfitError(
      'Redis rejected the user name or the password in the address of the configuration (WRONGPASS).',
      error,
    )
  }
  if (/^NOPERM|user executing the script can't run/.test(message)) {
    return new RedisUnfitError(`Redis does not permit a command that weir needs: ${message}.`, error)
  }
  if (/^ERR (?:invalid )?DB index/.test(message)) {
    return new RedisUnfitError(
      'Redis does not have the database that the address in the configuration names (DB index is out of range). ' +
        'Name another, or raise `databases` in its configuration.',
      error,
    )
  }
  const untrusted = tlsProblem('lastNodeError' in error ? error.lastNodeError : error)
  return untrusted === undefined ? undefined : new RedisUnfitError(untrusted, error)
}

const WRITE_PROBLEMS: ReadonlyMap<string, string> = new Map([
  ['OOM', 'Redis is full (maxmemory) and rejects reservations. Give it more memory.'],
  ['MISCONF', 'Redis cannot save its data and rejects writes (MISCONF). See its own log for the cause.'],
  ['NOREPLICAS', 'Redis has fewer replicas than min-replicas-to-write and rejects writes (NOREPLICAS).'],
  ['READONLY', 'Redis is a replica and rejects writes (READONLY).'],
])

/** Why a server that answers rejects writes, in words for the operator. Undefined for any other error. */
export function writeProblem(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  return WRITE_PROBLEMS.get(/^[A-Z]+/.exec(error.message)?.[0] ?? '')
}

/** True if no reply came in time: the server may still execute the command. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === TIMED_OUT
}

/** An error of a command for the operator: not in the words of the client, which speak of its own options. */
export function commandProblem(error: unknown): string {
  const message = messageOf(error)
  if (isTimeout(error)) return 'Redis does not answer in time'
  const isOfClient = /enableOfflineQueue|Connection is closed|maxRetriesPerRequest/.test(message)
  return accessProblem(error)?.message ?? (isOfClient ? 'Redis is not reached' : message)
}

/** True if the command cannot have reached the server, so nothing has to be undone. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable")
}

/** True if the server will reject the command again: other data under our keys, or records of another version. */
export function isPermanent(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(WRONGTYPE|VERSION|AMOUNT)\b|user_script.*(WRONGTYPE|VERSION|AMOUNT)/.test(error.message)
  )
}

/** True for a condition that ends within moments: a long script, a server that is loading, a slot that is moving. */
export function isTransient(error: unknown): boolean {
  return error instanceof Error && /^(BUSY|LOADING|TRYAGAIN|MASTERDOWN|CLUSTERDOWN)\b/.test(error.message)
}
