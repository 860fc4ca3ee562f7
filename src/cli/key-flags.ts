/** The flags of `weir keys create` and `weir keys update` as a description of a key with the configuration's names. */

import { IDENTIFIER, IDENTIFIER_WORDS, MODEL_NAME } from '../config/field-types.ts'
import { moment } from '../config/key-input.ts'
import { quoted } from '../config/problems.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { type Limit, limitTable } from '../core/limits.ts'
import type { Flags } from './command.ts'

/** Wrong usage. `message` names the flag. */
class FlagProblem extends Error {}

/** The description that the flags give, or what is wrong with them. A flag with an empty value becomes null. */
export function descriptionOf(flags: Flags, nowMs: number): JsonObject | string {
  return orProblem(() => ({
    ...field('models', flags['models'], globs),
    ...limits(flags),
    ...field('expires_at', flags['expires'], (words) => expiry(words, nowMs)),
    ...field('tags', flags['tags'], (words) => tags('tags', words)),
    ...field('fixed_tags', flags['fixed-tags'], (words) => tags('fixed-tags', words)),
    ...field('priority', flags['priority'], (words) => words),
    ...field('max_wait_ms', flags['max-wait-ms'], (words) => count('max-wait-ms', words)),
    ...field('weight', flags['weight'], (words) => count('weight', words)),
  }))
}

/** The limits that the flags give, or what is wrong with them; undefined if there are none. */
export function limitFlags(flags: Flags): JsonObject | string | undefined {
  return orProblem(() => {
    const { limits: given } = limits(flags)
    return isObject(given) ? given : undefined
  })
}

function orProblem<T>(read: () => T): T | string {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof FlagProblem)) throw error
    return error.message
  }
}

/** What is wrong with the id of a new key; undefined if it can be used. */
export function idProblem(id: string): string | undefined {
  return new RegExp(IDENTIFIER).test(id) ? undefined : `--id ${IDENTIFIER_WORDS}`
}

/** The name of the flag of a limit: `requests-per-minute`, `spend-day`. */
function limitFlag(limit: Limit): string {
  return limit.unit === 'micro_usd' ? `spend-${limit.key}` : limit.key.replaceAll('_', '-')
}

/** Undefined without the flag, null for an empty value. */
function readValue(given: Flags[string], read: (words: string) => JsonValue): JsonValue | undefined {
  if (typeof given !== 'string') return undefined
  return given === '' ? null : read(given)
}

function field(name: string, given: Flags[string], read: (words: string) => JsonValue): JsonObject {
  const value = readValue(given, read)
  return value === undefined ? {} : { [name]: value }
}

function limits(flags: Flags): JsonObject {
  const of = (isMoney: boolean) =>
    limitTable
      .filter(({ unit }) => (unit === 'micro_usd') === isMoney)
      .map((limit) => field(limit.key, flags[limitFlag(limit)], (words) => amount(limit, words)))
      .flatMap((one) => Object.entries(one))
  const [counts, spend] = [Object.fromEntries(of(false)), Object.fromEntries(of(true))]
  const all = { ...counts, ...(Object.keys(spend).length === 0 ? {} : { spend }) }
  return Object.keys(all).length === 0 ? {} : { limits: all }
}

function amount(limit: Limit, words: string): number {
  const isMoney = limit.unit === 'micro_usd'
  if ((isMoney ? /^\d{1,10}(?:\.\d{1,6})?$/ : /^[1-9]\d{0,9}$/).test(words)) return Number(words)
  const form = isMoney ? 'US dollars, like 5 or 0.50' : 'a whole number from 1 on'
  throw new FlagProblem(`--${limitFlag(limit)} must be ${form}, not ${quoted(words)}`)
}

function count(flag: string, words: string): number {
  if (/^\d{1,10}$/.test(words)) return Number(words)
  throw new FlagProblem(`--${flag} must be a whole number, not ${quoted(words)}`)
}

function globs(words: string): JsonValue {
  const all = words.split(',').map((glob) => glob.trim())
  const wrong = all.find((glob) => !new RegExp(MODEL_NAME).test(glob))
  if (wrong === undefined) return all
  throw new FlagProblem(`--models must be names or globs separated by commas, not ${quoted(wrong)}`)
}

/** `team=a,project=b`; an empty value removes that tag. */
function tags(flag: string, words: string): JsonValue {
  const pairs = words.split(',').map((pair) => {
    const [, name, value] = /^\s*([^=\s]+)\s*=\s*(\S*)\s*$/.exec(pair) ?? []
    if (name === undefined || value === undefined)
      throw new FlagProblem(`--${flag} must be NAME=VALUE pairs separated by commas, not ${quoted(words)}`)
    return [name, value === '' ? null : value] as const
  })
  const names = pairs.map(([name]) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) throw new FlagProblem(`--${flag} has ${quoted(twice)} twice`)
  return Object.fromEntries(pairs)
}

function expiry(words: string, nowMs: number): string {
  const at = moment(words, nowMs)
  if (at === undefined) {
    throw new FlagProblem(
      `--expires must be like 90d, 12h or 30m, a date (2027-01-31) or an RFC 3339 time, not ${quoted(words)}`,
    )
  }
  if (at <= nowMs) throw new FlagProblem(`--expires must be in the future, not ${words}`)
  return words
}
