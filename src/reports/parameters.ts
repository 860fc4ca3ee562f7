/**
 * The parameters that a command takes as flags and an operation of the admin API in its query: one table for both, so
 * that they cannot differ. Loads no code, because every command reads it.
 */

import type { Outcome } from '../ledger/audit-columns.ts'

export interface Parameter {
  /** Without the dashes. */
  readonly name: string
  /** What stands for the value in the help: `FILE`, `N`. Absent: a switch; in a query it is `true` or `false`. */
  readonly value?: string
  /** What completion offers as values. */
  readonly choices?: readonly string[]
  readonly about: string
  readonly isRequired?: boolean
  /** As a flag, it may be given several times. */
  readonly isRepeatable?: boolean
  /** As a flag, an empty value is allowed: it removes what was set. */
  readonly mayBeEmpty?: boolean
  /** In a query, the bounds of a whole number. */
  readonly range?: readonly [min: number, max: number]
  /** Another name that a query may use. */
  readonly alias?: string
}

/** What was given of them, by name. A switch is a boolean. */
export type Given = Readonly<Record<string, string | boolean | undefined>>

/** `parameter('org ID', …)` is `--org ID`; without a second word it is a switch. */
export function parameter(form: string, about: string, more: Partial<Parameter> = {}): Parameter {
  const [name = '', value] = form.split(' ')
  return { name, about, ...(value === undefined ? {} : { value }), ...more }
}

export const ORG = parameter('org ID', 'only this organisation', { alias: 'organization' })
export const KEY = parameter('key ID', 'only this key (its id, not the key itself)')

/** `weir budgets`, `GET /api/budgets` */
export const COUNTER_PARAMETERS: readonly Parameter[] = [
  parameter('name NAME', 'only counters of this budget'),
  parameter('value VALUE', 'only counters of this value'),
]

/** `weir usage`, `GET /api/usage` */
export const USAGE_PARAMETERS: readonly Parameter[] = [
  ORG,
  KEY,
  parameter('since DATE', 'from this UTC day on, as 2026-11-01 (default: the first day of this month)'),
  parameter('until DATE', 'before this UTC day (default: tomorrow, or the day after --since)'),
  parameter('by COLUMNS', 'one row for each value of a column, or for several of them: key,model (default: model)', {
    choices: ['model', 'key', 'org', 'provider', 'day', 'hour', 'tier', 'tag:NAME'],
  }),
]

/** How a request may have ended. */
export const OUTCOMES = [
  'completed',
  'caller_left',
  'provider_cut',
  'timed_out',
  'drained',
  'refused',
] as const satisfies readonly Outcome[]

/** `weir audit`, `GET /api/requests` */
export const AUDIT_PARAMETERS: readonly Parameter[] = [
  ORG,
  KEY,
  parameter(
    'request ID',
    'only this request, by the x-request-id of its answer; searches all times unless --since is given',
  ),
  parameter(
    'since TIME',
    'requests that ended at this time or later: a date (2026-11-01, from 00:00 UTC on) or an RFC 3339 time ' +
      '(default: today)',
  ),
  parameter('until TIME', 'requests that ended before this time (default: now)'),
  parameter('model NAME', 'only requests that this public model served'),
  parameter(
    'outcome WORD',
    'only requests that ended so: completed, caller_left, provider_cut, timed_out, drained or refused',
    { choices: OUTCOMES },
  ),
  parameter('tag NAME=VALUE', 'only requests with this tag, or with several: project=a,team=b'),
]

/** `weir explain`, `GET /api/explain` */
export const EXPLAIN_PARAMETERS: readonly Parameter[] = [
  parameter(
    'key ID',
    'id of the key (not the key itself): a key of the configuration, or one that weir keys create made',
    { isRequired: true },
  ),
  parameter('model NAME', 'model as the caller would name it: a public name, an alias or auto', { isRequired: true }),
  parameter('images', 'the request has images'),
  parameter('tools', 'the request has tools'),
  parameter('tokens N', 'the input tokens of the request, as weir estimates them'),
  parameter('output-tokens N', 'the output limit of the request (max_tokens); without it none, as in Chat Completions'),
  parameter('ttl 5m|1h', 'the request asks for prompt caching of that duration', { choices: ['5m', '1h'] }),
  parameter('tier NAME', 'the service tier that the request asks for (service_tier)'),
  parameter('tags NAME=VALUE,…', 'the tags of the request, for budgets; those of the key hold as for a real one'),
  parameter(
    'conversation TEXT',
    'the prompt_cache_key of the request: shows the order of targets with spread: weighted',
  ),
]
