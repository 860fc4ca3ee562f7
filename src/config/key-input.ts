/**
 * Checks the description of an API key that a command or the admin API sends: an object with the names of the
 * configuration. The bounds and the messages are those of the configuration.
 */

import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { configuredLimits, type Limits } from '../core/limits.ts'
import type { KeyDescription, OrganizationDescription } from '../core/organization-config.ts'
import { TAGS_MAX } from '../core/tags.ts'
import { limitsOf } from './build-limits.ts'
import { type Completed, identifier, object, optional, text } from './field-types.ts'
import { didYouMean } from './problems.ts'
import { problemsOf } from './schema-errors.ts'
import { key, limits, organization } from './schema-organizations.ts'
import { spendProblems } from './spend-limits.ts'
import { instant } from './timestamps.ts'

const schema = object({
  organization: identifier('The organisation of the key'),
  id: identifier('The name of the key in logs and reports'),
  models: optional(Type.Array(key.properties.models.items, { maxItems: 1000 })),
  limits: optional(limits),
  expires_at: optional(text('When the key expires')),
  tags: key.properties.tags,
  fixed_tags: key.properties.fixed_tags,
  priority: key.properties.priority,
  max_wait_ms: key.properties.max_wait_ms,
})

/**
 * Reads the description of a new key. `tags`: the names that the configuration allows. Times may also be durations from
 * `nowMs` on. Throws `KeyProblem`, as all of this file does.
 */
export function readKey(input: unknown, tags: readonly string[], nowMs: number): KeyDescription {
  const checked = checkedInput(schema, input, 'the description of a key')
  checkSpend(checked['limits'])
  checkTags(checked, 'tags', tags)
  checkTags(checked, 'fixed_tags', tags)
  const value = described(checked, nowMs)
  if (value.expiresAtMs === undefined && checked['expires_at'] !== undefined)
    throw invalid(`expires_at: ${MOMENT_WORDS}`)
  return value
}

/** The input, if the schema accepts it. `what` begins a sentence. */
export function checkedInput(expected: TSchema, input: unknown, what: string): JsonObject {
  if (!isObject(input)) throw invalid(`${what} must be an object`)
  const problems = problemsOf(expected, input)
  if (problems.length > 0) throw invalid(problems.join('; '))
  return input
}

export function invalid(problem: string): KeyProblem {
  return new KeyProblem('invalid', problem)
}

/**
 * Applies a change to a key: fields that are absent stay, and `null` removes a field, also within `limits`, `spend`,
 * `tags` and `fixed_tags`.
 */
export function patchKey(
  before: KeyDescription,
  patch: unknown,
  tags: readonly string[],
  nowMs: number,
): KeyDescription {
  // Tags that were set under an earlier configuration may stay.
  const allowed = [...tags, ...Object.keys({ ...before.tags, ...before.fixedTags })]
  return readKey(patched(before, keyInput(before), patch, { what: 'key', schema }), allowed, nowMs)
}

const organizationSchema = object({
  id: identifier('The name of the organisation in logs and reports'),
  models: optional(Type.Array(key.properties.models.items, { maxItems: 1000 })),
  limits: optional(limits),
  weight: organization.properties.weight,
  disabled: optional(Type.Boolean()),
})

/** Reads the description of a new organisation. */
export function readOrganization(input: unknown): OrganizationDescription {
  const checked = checkedInput(organizationSchema, input, 'the description of an organisation')
  checkSpend(checked['limits'])
  // TypeBox does not type what it fills in.
  const completed = Value.Default(organizationSchema, Value.Clone(checked)) as Completed<typeof organizationSchema>
  const { id, models, limits: own, weight, disabled = false } = completed
  return { id, models, limits: given(own), weight, disabled }
}

/** Applies a change to an organisation, as `patchKey` does to a key. */
export function patchOrganization(before: OrganizationDescription, patch: unknown): OrganizationDescription {
  const { id, models, limits: own, weight, disabled } = before
  const input = {
    ...{ id, disabled },
    ...(weight === undefined ? {} : { weight }),
    ...(models === undefined ? {} : { models: [...models] }),
    ...(own === undefined ? {} : { limits: configuredLimits(own) }),
  }
  return readOrganization(patched(before, input, patch, { what: 'organisation', schema: organizationSchema }))
}

/** The description after a change of what has no other name. Spend limits that have lost their last amount are gone. */
function patched(
  { limits: own }: { readonly limits?: Limits | undefined },
  input: JsonObject,
  patch: unknown,
  { what, schema: { properties } }: { readonly what: string; readonly schema: TObject },
): unknown {
  if (!isObject(patch)) throw invalid(`the change of ${what === 'key' ? 'a' : 'an'} ${what} must be an object`)
  const known = Object.keys(properties)
  const unknown = Object.keys(patch).find((field) => !known.includes(field))
  if (unknown !== undefined)
    throw invalid(`${unknown}: unknown key${didYouMean(unknown, known) || `; known here: ${known.join(', ')}`}`)
  const fixed = ['organization', 'id'].find((field) => (patch[field] ?? input[field]) !== input[field])
  if (fixed !== undefined) throw invalid(`${fixed}: cannot be changed; create another ${what}`)
  const result = mergePatch(input, patch)
  const isWithdrawn = own?.spend !== undefined || !isSpendGiven(patch)
  return isObject(result) && isWithdrawn ? withoutEmpty(result) : result
}

/** Limits as the gateway has them; undefined if there are none. */
function given(own: Completed<typeof schema>['limits']): Limits | undefined {
  return own === undefined || Object.keys(own).length === 0 ? undefined : limitsOf(own)
}

const MOMENT_WORDS =
  'must be a duration (90s, 10m, 24h, 7d), a date (2030-01-31) or an RFC 3339 time (2030-01-31T12:00:00Z)'

/** Unix milliseconds of a duration from now, of a date or of an RFC 3339 time; undefined for anything else. */
export function moment(words: string, nowMs: number): number | undefined {
  const ms = durationMs(words)
  return ms === undefined ? instant(words) : nowMs + ms
}

const UNITS_MS: Readonly<Record<string, number>> = { d: DAY_MS, h: HOUR_MS, m: 60_000, s: 1000 }

/** Milliseconds of a grace: a duration, or `0` for none; undefined for anything else. */
export function graceMs(words: string): number | undefined {
  return words === '0' ? 0 : durationMs(words)
}

/** Milliseconds of `90s`, `10m`, `24h` or `7d`; undefined for anything else. */
function durationMs(words: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,5})([dhms])$/.exec(words) ?? []
  return count === undefined ? undefined : Number(count) * (UNITS_MS[unit] ?? 0)
}

/** Beyond the schema. `limits`: those that their owner may have. */
export function checkSpend(own: unknown, limits?: Parameters<typeof spendProblems>[1]): void {
  if (!isObject(own) || !isObject(own['spend'])) return
  const [first] = spendProblems(own['spend'], limits)
  if (first !== undefined)
    throw invalid(`limits.spend${first.key === undefined ? '' : `.${first.key}`}: ${first.words}`)
}

function checkTags(input: JsonObject, field: string, allowed: readonly string[]): void {
  const given = input[field]
  if (!isObject(given)) return
  const names = Object.keys(given)
  if (names.length > TAGS_MAX) throw invalid(`${field}: has ${names.length} tags; a key may have ${TAGS_MAX}`)
  const wrong = names.find((name) => !allowed.includes(name))
  if (wrong === undefined) return
  const known =
    allowed.length === 0 ? 'the configuration has no tags' : `the configuration has ${[...new Set(allowed)].join(', ')}`
  throw invalid(`${field}.${wrong}: is not in tags of the configuration${didYouMean(wrong, allowed) || `; ${known}`}`)
}

/** Expects input that the schema accepts. */
function described(input: JsonObject, nowMs: number): KeyDescription {
  // TypeBox does not type what it fills in.
  const completed = Value.Default(schema, Value.Clone(input)) as Completed<typeof schema>
  const { organization: owner, id, models, limits: own, expires_at: expiry, tags, fixed_tags: fixedTags } = completed
  return {
    organization: owner,
    id,
    models,
    limits: given(own),
    expiresAtMs: expiry === undefined ? undefined : moment(expiry, nowMs),
    tags: filled(tags),
    fixedTags: filled(fixedTags),
    priority: completed.priority,
    maxWaitMs: completed.max_wait_ms,
  }
}

function filled(tags: KeyDescription['tags']): KeyDescription['tags'] {
  return tags === undefined || Object.keys(tags).length === 0 ? undefined : tags
}

/** A key in the form of the input. */
export function keyInput({
  organization: owner,
  id,
  models,
  limits: own,
  expiresAtMs,
  ...more
}: KeyDescription): JsonObject {
  const { tags, fixedTags, priority, maxWaitMs } = more
  return {
    organization: owner,
    id,
    ...(models === undefined ? {} : { models: [...models] }),
    ...(own === undefined ? {} : { limits: configuredLimits(own) }),
    ...(expiresAtMs === undefined ? {} : { expires_at: new Date(expiresAtMs).toISOString() }),
    ...(tags === undefined ? {} : { tags }),
    ...(fixedTags === undefined ? {} : { fixed_tags: fixedTags }),
    ...(priority === undefined ? {} : { priority }),
    ...(maxWaitMs === undefined ? {} : { max_wait_ms: maxWaitMs }),
  }
}

/** JSON Merge Patch (RFC 7396). */
function mergePatch(before: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const result = new Map(isObject(before) ? Object.entries(before) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null || value === undefined) result.delete(name)
    else result.set(name, mergePatch(result.get(name), value))
  }
  return Object.fromEntries(result)
}

/** Spend limits have amounts and these, which mean nothing without an amount. */
const WITHOUT_AMOUNT: readonly string[] = ['strict', 'on_exhausted']

/** Whether a change sets anything of the spend limits, rather than to remove it. */
function isSpendGiven({ limits: own }: JsonObject): boolean {
  if (!isObject(own) || !isObject(own['spend'])) return false
  return Object.values(own['spend']).some((value) => value !== null)
}

/** Without spend limits that have lost their last amount. A name that is wrong stays, to be reported. */
function withoutEmpty(input: JsonObject): JsonObject {
  const { limits: own, ...rest } = input
  if (!isObject(own) || !isObject(own['spend'])) return input
  const { spend, ...counts } = own
  const isEmpty = Object.keys(spend).every((name) => WITHOUT_AMOUNT.includes(name))
  return isEmpty ? { ...rest, limits: counts } : input
}
