/**
 * Every event that weir logs, save the line of a request: its name, level, message and meaning. The name is stable,
 * so that alerts can match `event`; the message is for people. The page about logs in the documentation is checked
 * against this table.
 */

import type { Logger } from 'pino'

type Level = 'info' | 'warn' | 'error' | 'fatal'

interface LogEvent {
  readonly level: Level
  readonly message: string
  /** For the operator: when weir logs this, and its fields. */
  readonly meaning: string
}

export const LOG_EVENTS = {
  'server.ready': {
    level: 'info',
    message: 'ready',
    meaning:
      'All workers accept requests. `version` is that of the program, `address` and `admin` are the addresses, ' +
      '`workers` their number, `ms` the time since the start.',
  },
  'server.draining': {
    level: 'info',
    message: 'draining',
    meaning:
      'SIGTERM or SIGINT (`signal`) arrived: weir accepts no new connections, and running requests may finish ' +
      'within `drain_seconds`.',
  },
  'server.killing_workers': {
    level: 'error',
    message: 'workers did not end in time; killing them',
    meaning: 'Workers still ran 10 s after `drain_seconds`. Their unsettled reservations expire later.',
  },
  'server.stopped': { level: 'info', message: 'stopped', meaning: 'All workers have ended, and so does weir.' },
  'config.reloaded': {
    level: 'info',
    message: 'configuration reloaded',
    meaning:
      'All workers use the new configuration from the next request on. `changes` lists what differs, as `weir ' +
      'reload` prints it; `source` is what asked for it: `config` (a signal), `cli` or `api`, and `actor` who, ' +
      'as in the admin audit.',
  },
  'config.rejected': {
    level: 'error',
    message: 'configuration rejected',
    meaning:
      'A reload failed and the old configuration stays in force. `problems` lists every reason with its path; ' +
      '`source` and `actor` as above.',
  },
  'compaction.own_key': {
    level: 'warn',
    message: 'no shared key for compacted conversations',
    meaning:
      'At the start: the ledger is in Redis, and the configuration has no `compaction.keys`, so no other node can go ' +
      'on with the conversations that this one compacts. Set the same keys on all nodes; with one node alone, copy ' +
      'the key from `data_dir/compaction.key`, so that its earlier conversations go on.',
  },
  'control.unavailable': {
    level: 'warn',
    message: 'no control socket',
    meaning:
      'The control socket in `data_dir` could not be opened (`problem`). weir serves requests; `weir reload` ' +
      'and other commands cannot ask it.',
  },
  'admin.token_rejected': {
    level: 'warn',
    message: 'admin token rejected',
    meaning:
      'The address `remote` presented a wrong token to the admin port. Logged at most once a minute; `requests` is ' +
      'the number of such requests since the last line.',
  },
  'worker.started': {
    level: 'info',
    message: 'worker started',
    meaning:
      'A worker process (`worker`, `pid`) accepts requests: at the start of weir, after `worker.died`, and for ' +
      'SIGUSR2.',
  },
  'worker.died': {
    level: 'error',
    message: 'worker died',
    meaning:
      'A worker process ended unexpectedly, or could not be started (`how`: its exit code, signal, or the reason). ' +
      'weir starts another in `restart_in_ms` milliseconds.',
  },
  'worker.start_failed': {
    level: 'error',
    message: 'worker cannot start',
    meaning: 'A worker that replaces another cannot start (`reason`). weir retries.',
  },
  'worker.stuck': {
    level: 'error',
    message: 'worker does not answer',
    meaning: 'The event loop of a worker stood still for `silent_ms` milliseconds. weir kills and replaces the worker.',
  },
  'ledger.owner_died': {
    level: 'error',
    message: 'process of the ledger died',
    meaning:
      'The process that owns the embedded ledger for several workers ended unexpectedly (`how`: its exit code or ' +
      'signal). weir starts another in `restart_in_ms` milliseconds; requests wait for it, at most 2 s.',
  },
  'ledger.owner_restarted': {
    level: 'info',
    message: 'process of the ledger restarted',
    meaning:
      'The end of `ledger.owner_died` and `ledger.owner_failed`: a new process (`pid`) owns the ledger, `ms` ' +
      'milliseconds after the one before ended. What waited for it goes on.',
  },
  'ledger.owner_failed': {
    level: 'error',
    message: 'process cannot own the ledger',
    meaning:
      'A process that is to own the embedded ledger cannot open it (`reason`). weir retries. If the program file was ' +
      'replaced by one that speaks another protocol, this is logged once, and weir has to be restarted.',
  },
  'ledger.owner_kept': {
    level: 'error',
    message: 'process of the ledger not replaced',
    meaning: 'SIGUSR2: the process that owns the embedded ledger stays as it is (`reason`).',
  },
  'ledger.owner_stuck': {
    level: 'error',
    message: 'process of the ledger does not answer',
    meaning:
      'The event loop of the process that owns the embedded ledger stood still for `silent_ms` milliseconds. weir ' +
      'kills and replaces it.',
  },
  'workers.replaced': {
    level: 'info',
    message: 'workers replaced',
    meaning:
      'SIGUSR2: every worker was replaced by one started from the program file as it is now. `version` is that of ' +
      'the file, `workers` their number, `ms` how long it took. The old ones finish what they run.',
  },
  'workers.replace_failed': {
    level: 'error',
    message: 'workers not replaced',
    meaning:
      'SIGUSR2: a new worker could not take over (`worker`, `reason`): the old one and those after it stay. Without ' +
      '`worker`, none was started, because another user may write to the program file or its folder (`reason`).',
  },
  'systemd.unreachable': {
    level: 'warn',
    message: 'service manager not notified',
    meaning:
      'The socket of `NOTIFY_SOCKET` does not take the state of the service (`problem`). Logged once. systemd may ' +
      'consider the service as not started.',
  },
  'supervisor.gone': {
    level: 'error',
    message: 'the supervisor is gone',
    meaning:
      'The supervisor ended without stopping this worker, which therefore drains. `cut` is true if it also ends ' +
      'running requests at once.',
  },
  'process.crashed': {
    level: 'fatal',
    message: 'crashed',
    meaning: 'A bug in weir ended a process. `error` is the class of the error, `at` its stack. A worker is replaced.',
  },
  'requests.cut': {
    level: 'warn',
    message: 'running requests were cut',
    meaning: 'A worker ended requests that still ran after `drain_seconds`, or after a second signal.',
  },
  'requests.omitted': {
    level: 'warn',
    message: 'requests without a valid key not logged',
    meaning:
      'One address (`remote`) sent more than 20 requests without a valid key within a second; `requests` of them ' +
      'have no line of their own.',
  },
  'socket.closed': {
    level: 'info',
    message: 'socket closed',
    meaning:
      'A WebSocket of a caller has ended after so many `turns`, whose lines have its id (`socket`), too. `reason`: ' +
      '`caller` closed it, was `lost` without closing it, answered no ping (`silent`), read nothing (`stalled`) or ' +
      'sent a frame that is `too_large`; `key_refused`; it was open for as long as it may (`expired`); or the worker ' +
      'ends (`restart`). `code` is that of the protocol, 1006 without one.',
  },
  'internal.error': {
    level: 'error',
    message: 'internal error',
    meaning: 'A bug in weir failed the request `request_id`. `error` is the class of the error, `at` its stack.',
  },
  'admin.internal_error': {
    level: 'error',
    message: 'internal error of the admin port',
    meaning:
      'A bug in weir failed a request to the admin port (`path`); streams of events end with it. `error` is the ' +
      'class of the error, `at` its stack.',
  },
  'target.open': {
    level: 'warn',
    message: 'circuit breaker opened',
    meaning:
      'weir skips the target (`provider`, `model`) for `rest_ms` milliseconds because of failures. `reason` is the ' +
      'last one, `status` its HTTP status; `cause` is why the provider could not be reached, as in `attempts` of a ' +
      'request. `asked` is true if the provider asked for this pause.',
  },
  'target.closed': {
    level: 'info',
    message: 'circuit breaker closed',
    meaning: 'A skipped target (`provider`, `model`) answered again and takes requests as before.',
  },
  'model.down': {
    level: 'error',
    message: 'no target of the model can answer',
    meaning:
      'None of the targets of `model` can answer: each rests, or is to be probed, after failures. `problem` names ' +
      'them and how they fail, `since` is when the last of them began to. Logged once until `model.up`.',
  },
  'model.up': {
    level: 'info',
    message: 'model is no longer down',
    meaning:
      'The end of `model.down`, which lasted from `since`: one of its targets answers again, or its entry in the ' +
      'configuration was changed.',
  },
  'target.form_learned': {
    level: 'info',
    message: 'target rejected a field; requests are written without or with it from now on',
    meaning:
      'A target (`provider`, `model`) rejected a request with the error `seen`, and accepted it once weir had ' +
      'left out or added `field`. `kept`: `for ten minutes` at first, `for good` (until the entry of the target ' +
      'changes, or `weir targets forget`) after three such requests or those of two organizations. ' +
      'Without `stream_options` a target may report no usage, and weir charges its own count.',
  },
  'target.form_forgotten': {
    level: 'info',
    message: 'what was learned of a target is forgotten',
    meaning:
      '`weir targets forget` or the admin API (`source`, `actor`) made weir forget what `target.form_learned` ' +
      'reported of a target (`provider`, `model`): requests have, or lack, `fields` again as before.',
  },
  'provider.credential_rejected': {
    level: 'error',
    message: 'provider rejected our credential',
    meaning:
      'Check the `api_key`, or the other credentials, of `provider`. `why`: with `credentials: default`, the reason ' +
      'why this machine has none. Logged once each time the target is skipped.',
  },
  'provider.credit_exhausted': {
    level: 'error',
    message: 'account at the provider has no credit',
    meaning:
      'The account of `provider` has no credit left, or has reached its spend limit there: buy credit or raise the ' +
      'limit. `provider_code` and `provider_message` are the provider’s own words. The target (`model`) is skipped ' +
      'for a minute. Logged once each time it is skipped.',
  },
  'provider.models_unread': {
    level: 'info',
    message: 'list of models of the provider cannot be read',
    meaning:
      '`GET /v1/models` lists the models of a pattern as `provider` does, and its list cannot ' +
      'be read (`reason`, `status`). Requests for them are served all the same. The list before counts for an hour. ' +
      'Each worker logs it once until the list is read.',
  },
  'price.tier_unknown': {
    level: 'warn',
    message: 'answer names a service tier without a price; charging the base price',
    meaning:
      'An answer of `model` from `provider` was served by the tier `tier`, which `price.tiers` of the model does not ' +
      'have. It is charged at the base price: add the tier, or an alias. Logged at most once an hour for each model.',
  },
  'provider.usage_implausible': {
    level: 'error',
    message: 'provider reported implausible usage; charging our own count',
    meaning: 'The token counts in the answer of a target (`provider`, `model`) cannot be right for this request.',
  },
  'compaction.truncated': {
    level: 'warn',
    message: 'compaction summary hit the output limit',
    meaning:
      'The caller of `request_id` continues with an incomplete summary of its conversation. Raise ' +
      '`max_output_tokens` of the model.',
  },
  'ledger.down': {
    level: 'error',
    message: 'ledger down',
    meaning:
      'The ledger does not answer (`problem`), and requests fail with 503. A warning under `ledger_unreachable: ' +
      'allow`: requests are served, and `pending` settlements wait in the outbox.',
  },
  'ledger.degraded': {
    level: 'warn',
    message: 'ledger degraded',
    meaning: 'The ledger serves requests, but something needs attention (`problem`).',
  },
  'ledger.disk_full': {
    level: 'warn',
    message: 'disk of the ledger full',
    meaning:
      'The disk of `data_dir` is full (`problem`). Requests are served, and what they change is kept in memory until ' +
      'there is space; too much of it is `ledger.down`.',
  },
  'ledger.up': {
    level: 'info',
    message: 'ledger recovered',
    meaning: 'The end of `ledger.down`, `ledger.degraded` or `ledger.disk_full`.',
  },
  'ledger.clock_stepped': {
    level: 'warn',
    message: 'system time stepped',
    meaning:
      'The system time changed by more than a minute (`seconds`, negative if it went back) under the embedded ' +
      'ledger, which follows within 15 s. Reservations and rate limits go on as if it had not. Days and months of ' +
      'budgets follow forwards only: one that began too early is `ledger.degraded`.',
  },
  'ledger.undurable': {
    level: 'warn',
    message: 'ledger not durable',
    meaning: 'The settings of Redis can lose data after a crash (`warning`).',
  },
  'ledger.window_ahead': {
    level: 'error',
    message: 'budget window ahead',
    meaning:
      'The budgets of `organization` belong to a later day than today, because a clock was wrong. `advice` names ' +
      'the command.',
  },
  'ledger.window_recovered': {
    level: 'info',
    message: 'budget window right again',
    meaning: 'The end of `ledger.window_ahead`: the budgets of `organization` belong to today. Noticed once an hour.',
  },
  'ledger.budget_passed': {
    level: 'warn',
    message: 'budget passed by what this node gave back to Redis',
    meaning:
      'Redis had lost data, this node has given its part back (`given_back_micro_usd` of it in this budget), and now ' +
      'the spend (`spent_micro_usd`) is above the budget `limit` (`day`, `month` or `total`; `limit_micro_usd`) of ' +
      '`organization`, or of its `key`, by `passed_micro_usd`: while the node was down or cut off, the others did ' +
      'not know what it had spent. Millionths of a US dollar. Once for each budget and return.',
  },
  'ledger.many_fields': {
    level: 'warn',
    message: 'very many keys of an organisation in Redis',
    meaning: '`organization` has `fields` fields in Redis, about one for each key. `advice` names the commands.',
  },
  'ledger.fields_recovered': {
    level: 'info',
    message: 'fewer keys of an organisation in Redis',
    meaning: 'The end of `ledger.many_fields`: `organization` has `fields` fields. Noticed once an hour.',
  },
  'ledger.fields_unknown': {
    level: 'warn',
    message: 'cannot count the keys of organisations in Redis',
    meaning: 'Redis denies a command (`why`), so weir cannot report organisations with too many keys.',
  },
  'descriptors.low': {
    level: 'warn',
    message: 'file descriptors nearly used up',
    meaning:
      'Four fifths of the file descriptors that a worker (`worker`) may open are in use (`open` of `limit`), so it ' +
      'rejects new requests with 503 `overloaded`. Raise `LimitNOFILE` of the service, or `ulimit -n`. Logged at ' +
      'most once a minute.',
  },
  'descriptors.recovered': {
    level: 'info',
    message: 'file descriptors free again',
    meaning:
      'The end of `descriptors.low`: for a minute the worker (`worker`) has had enough of them (`open`, `limit`).',
  },
  'descriptors.exhausted': {
    level: 'error',
    message: 'no file descriptor left',
    meaning:
      'A worker (`worker`) could not open a connection to a provider, because the process has as many descriptors as ' +
      'it may have (`code` is `EMFILE`, `limit` their number) or the whole system has (`ENFILE`: raise ' +
      '`fs.file-max`). Logged at most once a minute.',
  },
  'disk.low': {
    level: 'warn',
    message: 'disk nearly full',
    meaning:
      'Less than 10 % of the disk of `data_dir` is free (`free_bytes`, `free_percent`). On a full disk the ledger ' +
      'rejects requests.',
  },
  'disk.recovered': {
    level: 'info',
    message: 'disk has space again',
    meaning: 'The end of `disk.low`: more than 12 % is free.',
  },
  'key.created': {
    level: 'info',
    message: 'API key created',
    meaning:
      'A key (`target` is its id) was created: by `weir keys` (`source` is `cli`), by the admin API (`api`) or by a ' +
      'reload (`config`); `actor` is who did. `details` lists what was set. Every node logs the changes by commands ' +
      'and by the admin API once.',
  },
  'key.updated': {
    level: 'info',
    message: 'API key changed',
    meaning: 'Limits, models, tags or the expiry of a key changed; `source`, `actor`, `target` and `details` as above.',
  },
  'key.rotated': {
    level: 'info',
    message: 'API key rotated',
    meaning: 'A key has a new secret. `details.old_secret_until` is the end of the grace, if it has one.',
  },
  'key.revoked': {
    level: 'warn',
    message: 'API key revoked',
    meaning:
      'A key is rejected from now on. A key of the configuration stays revoked until the configuration drops it or ' +
      'sets `disabled: true`.',
  },
  'organization.created': {
    level: 'info',
    message: 'organisation created',
    meaning:
      'An organisation (`target` is its id) was created by `weir organizations` or by the admin API; `source` and ' +
      '`details` as above.',
  },
  'organization.updated': {
    level: 'info',
    message: 'organisation changed',
    meaning: 'Models or limits of such an organisation changed, or it was enabled again.',
  },
  'organization.disabled': {
    level: 'warn',
    message: 'organisation disabled',
    meaning: 'The keys of such an organisation are rejected from now on.',
  },
  'key.revocation_in_force': {
    level: 'warn',
    message: 'API key of the configuration is revoked by command',
    meaning:
      'At the start, after a reload and once an hour: the configuration has the key `key` of `organization`, which ' +
      '`weir keys revoke` or the admin API revoked at `since`. It is rejected until the ' +
      'configuration drops it or sets `disabled: true`.',
  },
  'audit.incomplete': {
    level: 'error',
    message: 'changes of a reload are not in the admin audit',
    meaning:
      'The store of the admin audit cannot be written (`why`), so `entries` changes of a reload are only in the log.',
  },
  'keys.prune_failed': {
    level: 'warn',
    message: 'expired API keys could not be deleted',
    meaning: 'Records of expired or revoked API keys stay in the store (`why`). weir retries.',
  },
  'tags.limited': {
    level: 'warn',
    message: 'too many combinations of tags',
    meaning:
      'An organisation (`organization`) used more combinations of tags on this UTC day than this worker keeps sums ' +
      'for (`limit`). Requests with further ones count under `(other)` in `weir usage`. Once for each day.',
  },
  'traces.dropping': {
    level: 'warn',
    message: 'trace spans dropped',
    meaning:
      'A worker drops spans, because of `reason`: `collector` does not take them, or not fast enough. Requests are ' +
      'served as before. Logged once until `traces.recovered`; `weir_trace_spans_dropped_total` counts the spans.',
  },
  'traces.recovered': {
    level: 'info',
    message: 'trace spans delivered again',
    meaning: 'The end of `traces.dropping`: `collector` takes all spans again; `dropped` of them are lost.',
  },
  'alert.sent': {
    level: 'info',
    message: 'alert delivered',
    meaning:
      'A hook of `alerts` took an alert: `alert` is its id, `type` its type, `status` whether it begins (`firing`) ' +
      'or ended (`resolved`), `hook` the place of the hook in the configuration, `attempts` how often it was posted.',
  },
  'alert.failed': {
    level: 'error',
    message: 'alert not delivered',
    meaning:
      'An alert (`alert`, `type`, `hook`) is given up because of `reason`: it was not delivered within a day, or the ' +
      'queue was full.',
  },
  'alert.queue_failed': {
    level: 'error',
    message: 'alerts cannot be kept',
    meaning:
      'The queue of alerts in `data_dir` cannot be used because of `reason`. An alert that can end is posted once, ' +
      'from memory; what is reported once, such as a threshold, is looked for again later. Logged at most once a ' +
      'minute.',
  },
  'log.dropped': {
    level: 'warn',
    message: 'log lines dropped',
    meaning: 'The reader of the log was too slow, or the disk was full: `dropped` lines are lost.',
  },
} as const satisfies Readonly<Record<string, LogEvent>>

export type LogEventName = keyof typeof LOG_EVENTS

/** Logs an event with its fields, at the level of the table unless the caller knows better. */
export function logEvent(
  logger: Pick<Logger, Level>,
  event: LogEventName,
  fields: Readonly<Record<string, unknown>> = {},
  level: Level = LOG_EVENTS[event].level,
): void {
  logger[level]({ event, ...fields }, LOG_EVENTS[event].message)
}
