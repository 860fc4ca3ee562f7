/** The log lines of changes of API keys and organisations, which are entries of the admin audit, too. */

import type { Logger } from 'pino'
import { LOG_EVENTS, type LogEventName, logEvent } from './log-events.ts'

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
  if (isKeyEvent(action)) logEvent(logger, action, { source, actor, target, details })
}

/** False for an action of another version of weir. */
function isKeyEvent(action: string): action is LogEventName {
  return /^(?:key|organization|budget)\./.test(action) && Object.hasOwn(LOG_EVENTS, action)
}
