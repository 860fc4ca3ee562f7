/** The log lines of changes of API keys and organisations, which are entries of the admin audit, too. */

import type { Logger } from 'pino'
import { type LogEventName, logEvent } from './log-events.ts'

const KEY_EVENTS = [
  'key.created',
  'key.updated',
  'key.rotated',
  'key.revoked',
  'organization.created',
  'organization.updated',
  'organization.disabled',
  'budget.raised',
  'budget.raise_ended',
  'budget.reset',
] as const satisfies readonly LogEventName[]

interface KeyChange {
  readonly action: string
  readonly source: string
  /** Undefined if a gateway of a version without it made the change. */
  readonly actor?: string | undefined
  readonly target: string
  readonly details: object
}

/** Logs an entry of the admin audit if it is about a key, an organisation or a budget. */
export function logKeyChange(logger: Pick<Logger, 'info' | 'warn' | 'error' | 'fatal'>, change: KeyChange): void {
  const { action, source, actor, target, details } = change
  const event = KEY_EVENTS.find((name) => name === action)
  if (event !== undefined) logEvent(logger, event, { source, actor, target, details })
}
