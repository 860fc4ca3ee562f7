/**
 * Every event that weir logs, save the line of a request: its name, level and message. The name is stable, so that
 * alerts can match `event`; the message is for people. `docs/logs.md` has a row for each, with what it means.
 */

import type { Logger } from 'pino'

type Level = 'info' | 'warn' | 'error' | 'fatal'

type LogEvent = readonly [level: Level, message: string]

export const LOG_EVENTS = {
  'server.ready': ['info', 'ready'],
  'server.draining': ['info', 'draining'],
  'server.killing_workers': ['error', 'workers did not end in time; killing them'],
  'server.stopped': ['info', 'stopped'],
  'config.reloaded': ['info', 'configuration reloaded'],
  'config.rejected': ['error', 'configuration rejected'],
  'compaction.own_key': ['warn', 'no shared key for compacted conversations'],
  'control.unavailable': ['warn', 'no control socket'],
  'admin.token_rejected': ['warn', 'admin token rejected'],
  'worker.started': ['info', 'worker started'],
  'worker.died': ['error', 'worker died'],
  'worker.start_failed': ['error', 'worker cannot start'],
  'worker.stuck': ['error', 'worker does not answer'],
  'ledger.owner_died': ['error', 'process of the ledger died'],
  'ledger.owner_restarted': ['info', 'process of the ledger restarted'],
  'ledger.owner_failed': ['error', 'process cannot own the ledger'],
  'ledger.owner_kept': ['error', 'process of the ledger not replaced'],
  'ledger.owner_stuck': ['error', 'process of the ledger does not answer'],
  'workers.replaced': ['info', 'workers replaced'],
  'workers.replace_failed': ['error', 'workers not replaced'],
  'systemd.unreachable': ['warn', 'service manager not notified'],
  'supervisor.gone': ['error', 'the supervisor is gone'],
  'process.crashed': ['fatal', 'crashed'],
  'requests.cut': ['warn', 'running requests were cut'],
  'requests.omitted': ['warn', 'requests without a valid key not logged'],
  'socket.closed': ['info', 'socket closed'],
  'internal.error': ['error', 'internal error'],
  'admin.internal_error': ['error', 'internal error of the admin port'],
  'target.open': ['warn', 'circuit breaker opened'],
  'target.closed': ['info', 'circuit breaker closed'],
  'model.down': ['error', 'no target of the model can answer'],
  'model.up': ['info', 'model is no longer down'],
  'target.form_learned': ['info', 'target rejected a field; requests are written without or with it from now on'],
  'target.form_forgotten': ['info', 'what was learned of a target is forgotten'],
  'provider.credential_rejected': ['error', 'provider rejected our credential'],
  'provider.credit_exhausted': ['error', 'account at the provider has no credit'],
  'provider.models_unread': ['info', 'list of models of the provider cannot be read'],
  'price.tier_unknown': ['warn', 'answer names a service tier without a price; charging the base price'],
  'provider.usage_implausible': ['error', 'provider reported implausible usage; charging our own count'],
  'compatibility.fields_ignored': ['info', 'callers of a key send fields that have no effect by the specification'],
  'compaction.truncated': ['warn', 'compaction summary hit the output limit'],
  'ledger.down': ['error', 'ledger down'],
  'ledger.degraded': ['warn', 'ledger degraded'],
  'ledger.disk_full': ['warn', 'disk of the ledger full'],
  'ledger.up': ['info', 'ledger recovered'],
  'ledger.clock_stepped': ['warn', 'system time stepped'],
  'ledger.undurable': ['warn', 'ledger not durable'],
  'ledger.window_ahead': ['error', 'budget window ahead'],
  'ledger.window_recovered': ['info', 'budget window right again'],
  'ledger.budget_passed': ['warn', 'budget passed by what this node gave back to Redis'],
  'ledger.many_fields': ['warn', 'very many keys of an organisation in Redis'],
  'ledger.fields_recovered': ['info', 'fewer keys of an organisation in Redis'],
  'ledger.fields_unknown': ['warn', 'cannot count the keys of organisations in Redis'],
  'descriptors.low': ['warn', 'file descriptors nearly used up'],
  'descriptors.recovered': ['info', 'file descriptors free again'],
  'descriptors.exhausted': ['error', 'no file descriptor left'],
  'disk.low': ['warn', 'disk nearly full'],
  'disk.recovered': ['info', 'disk has space again'],
  'key.created': ['info', 'API key created'],
  'key.updated': ['info', 'API key changed'],
  'key.rotated': ['info', 'API key rotated'],
  'key.revoked': ['warn', 'API key revoked'],
  'organization.created': ['info', 'organisation created'],
  'organization.updated': ['info', 'organisation changed'],
  'budget.raised': ['info', 'budget raised'],
  'budget.raise_ended': ['info', 'raise of a budget ended'],
  'budget.reset': ['info', 'budget reset'],
  'organization.disabled': ['warn', 'organisation disabled'],
  'key.revocation_in_force': ['warn', 'API key of the configuration is revoked by command'],
  'audit.incomplete': ['error', 'changes of a reload are not in the admin audit'],
  'keys.prune_failed': ['warn', 'expired API keys could not be deleted'],
  'tags.limited': ['warn', 'too many combinations of tags'],
  'traces.dropping': ['warn', 'trace spans dropped'],
  'traces.recovered': ['info', 'trace spans delivered again'],
  'alert.sent': ['info', 'alert delivered'],
  'alert.failed': ['error', 'alert not delivered'],
  'alert.queue_failed': ['error', 'alerts cannot be kept'],
  'log.dropped': ['warn', 'log lines dropped'],
} as const satisfies Readonly<Record<string, LogEvent>>

export type LogEventName = keyof typeof LOG_EVENTS

/** Logs an event with its fields, at the level of the table unless the caller knows better. */
export function logEvent(
  logger: Pick<Logger, Level>,
  event: LogEventName,
  fields: Readonly<Record<string, unknown>> = {},
  otherLevel?: Level,
): void {
  const [level, message] = LOG_EVENTS[event]
  logger[otherLevel ?? level]({ event, ...fields }, message)
}
