/**
 * The table of Lua scripts: the keys and arguments of each, in order, and its outcomes. A test compares each file's
 * header with it. Assembles the program that Redis receives: locals with the names of the arguments, shared code, then
 * the script.
 */

import { createHash } from 'node:crypto'
import { limitUnits } from '../../../core/limits.ts'
import clock from '../../../redis/clock.lua' with { type: 'text' }
import { chargeColumns } from '../../audit-columns.ts'
import { CLOCK_SKEW_MS, COUNTERS_MAX, TERMS } from '../../reservation-store.ts'
import { DAYS_KEPT, NODE_DAYS_KEPT } from '../../window.ts'
import account from '../lua/account.lua' with { type: 'text' }
import activity from '../lua/activity.lua' with { type: 'text' }
import cancel from '../lua/cancel.lua' with { type: 'text' }
import counters from '../lua/counters.lua' with { type: 'text' }
import countersAhead from '../lua/counters-ahead.lua' with { type: 'text' }
import drop from '../lua/drop.lua' with { type: 'text' }
import enter from '../lua/enter.lua' with { type: 'text' }
import extend from '../lua/extend.lua' with { type: 'text' }
import figures from '../lua/figures.lua' with { type: 'text' }
import fold from '../lua/fold.lua' with { type: 'text' }
import foldNode from '../lua/fold-node.lua' with { type: 'text' }
import kept from '../lua/kept.lua' with { type: 'text' }
import parts from '../lua/parts.lua' with { type: 'text' }
import reap from '../lua/reap.lua' with { type: 'text' }
import reserve from '../lua/reserve.lua' with { type: 'text' }
import reset from '../lua/reset.lua' with { type: 'text' }
import resetCounters from '../lua/reset-counters.lua' with { type: 'text' }
import restore from '../lua/restore.lua' with { type: 'text' }
import restoreCounter from '../lua/restore-counter.lua' with { type: 'text' }
import settle from '../lua/settle.lua' with { type: 'text' }
import store from '../lua/store.lua' with { type: 'text' }
import sumNode from '../lua/sum-node.lua' with { type: 'text' }
import taken from '../lua/taken.lua' with { type: 'text' }
import windows from '../lua/windows.lua' with { type: 'text' }
import { auditLua, chargeLua, FIGURE_ARGUMENTS, figuresLua } from './audit-lua.ts'
import { furtherUnits, layoutLua } from './record-layout.ts'

/** Every script gets the same keys; those of one organisation are in one slot of a cluster. */
export const scriptKeys = [
  ...['scopes', 'reservations', 'deadlines', 'audit', 'usage', 'nodes', 'crossings', 'counters', 'ends'],
] as const

/** The first arguments of every script about one account. */
const ACCOUNT = ['id', 'witness', 'key', 'organizationLimits', 'keyLimits', 'budgets'] as const

/** Arguments that are texts, and those that are JSON. `witness` is a number, and all others are amounts. */
const TEXTS: readonly string[] = ['id', 'key', 'series', 'into', 'node', 'budgets', 'counter']
const JSON_TEXTS: readonly string[] = [
  ...['organizationLimits', 'keyLimits', 'organizationSpent', 'keySpent', 'shared', 'accounts', 'listed', 'requests'],
  ...['rows', 'crossings', 'names', 'ids', 'spends', 'present', 'begun'],
]

interface Script<Argument extends string, Outcome extends string> {
  readonly lua: string
  readonly arguments: readonly Argument[]
  readonly outcomes: readonly Outcome[]
  /** Whether it receives figures of usage after its own arguments: `used` are their amounts by unit. */
  readonly hasFigures?: boolean | undefined
}

const RESERVE_OUTCOMES = ['granted', 'refused', 'emptied', 'crowded', 'ended'] as const

export const scripts = {
  reserve: script(reserve, ['witness', 'epoch', 'shared', 'accounts', 'requests'], RESERVE_OUTCOMES),
  /** What `reserve` would reply now. */
  preview: script(reserve, ['witness', 'epoch', 'shared', 'accounts', 'requests'], RESERVE_OUTCOMES),
  extend: script(
    extend,
    [...ACCOUNT, 'input', 'output', 'cost', 'wantedTokens', 'wantedCost'],
    ['extended', 'exhausted', 'ended', 'unknown'],
  ),
  settle: script(
    settle,
    ['witness', 'direct', 'epoch', 'node', 'shared', 'accounts', 'requests'],
    ['settled', 'already_settled', 'cancelled', 'emptied', 'unknown'],
  ),
  cancel: script(cancel, [...ACCOUNT, 'turn'], ['cancelled', 'ended']),
  reap: script(reap, [], ['reaped']),
  figures: script(figures, ACCOUNT, ['figures']),
  activity: script(activity, ['listed'], ['activity']),
  taken: script(taken, ['crossings'], ['taken']),
  fold: script(fold, ['day', 'key', 'series', 'month', 'into'], ['folded', 'absent']),
  foldNode: script(foldNode, ['node', 'day', 'key', 'series'], ['folded', 'absent', 'young']),
  sumNode: script(sumNode, ['node', 'rows'], ['summed', 'kept']),
  drop: script(drop, ['key'], ['dropped', 'kept']),
  windows: script(windows, [], ['windows']),
  reset: script(reset, ['witness', 'key', 'organizationSpent', 'keySpent'], ['reset', 'disagree']),
  resetCounters: script(resetCounters, ['witness', 'names', 'spends', 'present', 'begun'], ['reset', 'disagree']),
  countersAhead: script(countersAhead, ['names', 'begun'], ['ahead']),
  enter: script(enter, ['known', 'node', 'ended', 'legacy'], ['entered']),
  restore: script(
    restore,
    ['witness', 'epoch', 'node', 'number', 'last', 'key', 'day', 'series'],
    ['restored', 'emptied'],
    true,
  ),
  restoreCounter: script(
    restoreCounter,
    ['witness', 'epoch', 'node', 'number', 'last', 'counter', 'kept', 'spends', 'present'],
    ['restored', 'emptied'],
  ),
  parts: script(parts, ['node', 'names', 'ids'], ['parts']),
  kept: script(kept, ['names'], ['kept']),
} as const

export type ScriptName = keyof typeof scripts
export type Arguments<Name extends ScriptName> = Readonly<
  Record<(typeof scripts)[Name]['arguments'][number], string | number>
>
export type OutcomeOf<Name extends ScriptName> = (typeof scripts)[Name]['outcomes'][number]

function script<const Argument extends string, const Outcome extends string>(
  lua: string,
  names: readonly Argument[],
  outcomes: readonly Outcome[],
  hasFigures?: boolean,
): Script<Argument, Outcome> {
  return { lua, arguments: names, outcomes, hasFigures }
}

/** All arguments of a script in their order: its own, and figures with the further units whose amounts it needs. */
export function argumentsOf(name: ScriptName): readonly string[] {
  const script: Script<string, string> = scripts[name]
  if (script.hasFigures !== true) return script.arguments
  const own = [...script.arguments, ...FIGURE_ARGUMENTS]
  return [...own, ...furtherUnits.filter((unit) => !own.includes(unit))]
}

/** Declares a local for each argument from a position on. */
function argumentsLua(names: readonly string[], from: number): string {
  if (names.length <= from) return ''
  const own = names.slice(from)
  const values = own.map((name, index) => `${readerOf(name)}(ARGV[${from + index + 1}])`)
  return `local ${own.map(luaName).join(', ')} = ${values.join(', ')}\n`
}

/** The Lua function that reads an argument; '' for a text. */
function readerOf(name: string): string {
  if (TEXTS.includes(name)) return ''
  if (JSON_TEXTS.includes(name)) return 'cjson.decode'
  return name === 'witness' ? 'tonumber' : 'amount'
}

/** An argument `wantedCost` is `wanted_cost` in a script. */
export function luaName(argument: string): string {
  return argument.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The Lua table of amounts by unit; units that `values` lacks are locals of their names. */
function amountsTable(values: Readonly<Record<string, string>>): string {
  return `{ ${limitUnits.map((unit) => values[unit] ?? unit).join(', ')} }`
}

/** Amounts by unit of figures. */
const USED = { requests: 'requests', tokens: 'sum(input, output)', micro_usd: 'cost' }

/** What stands before the charge in the list of a request of `settle`: id, account, time of admission, series. */
const BEFORE_CHARGE = 4

/** Reads one of the requests that `settle` receives. */
function settlementLua(): string {
  const afterCharge = BEFORE_CHARGE + chargeColumns.length + 1
  const tokens = 'sum(charge.input, charge.output)'
  const used = { requests: '1', tokens, micro_usd: 'charge.cost', ...furtherAmounts(afterCharge) }
  return `local function read_request(values, accounts)
  local charge = ${chargeLua(BEFORE_CHARGE + 1)}
  local used = ${amountsTable(used)}
  return {
    id = values[1], account = accounts[values[2]], admitted = amount(values[3]), series = values[4],
    charge = charge, used = used, windows = values[${afterCharge + furtherUnits.length}],
  }
end
`
}

/** What the list of a request of `reserve` has, before the amounts of further units; its turn follows, unless 0. */
const RESERVED_VALUES = 7

/** Reads one of the requests that `reserve` receives. */
function reservationLua(): string {
  const demand = {
    requests: '1',
    tokens: 'sum(input, output)',
    micro_usd: 'cost',
    ...furtherAmounts(RESERVED_VALUES + 1),
  }
  return `local function read_request(values, accounts)
  local input, output, cost = amount(values[4]), amount(values[5]), amount(values[6])
  local demand = ${amountsTable(demand)}
  return {
    id = values[1], account = accounts[values[2]], series = values[3],
    input = input, cost = cost, floor_cost = amount(values[7]), demand = demand,
    turn = values[${RESERVED_VALUES + furtherUnits.length + 1}] or 0,
  }
end
`
}

/** The Lua expressions of further units, whose amounts are in `values` from the place `first` on. */
function furtherAmounts(first: number): Readonly<Record<string, string>> {
  return Object.fromEntries(furtherUnits.map((unit, i) => [unit, `amount(values[${first + i}])`]))
}

/** The function that reads a request of a script about many. */
const REQUESTS: Readonly<Partial<Record<ScriptName, () => string>>> = {
  reserve: reservationLua,
  preview: reservationLua,
  settle: settlementLua,
}

/** The version in every stored record; a script rejects a record with another version. */
export const RECORD_VERSION = 1
/** The version in the record of a node that has sums, which earlier versions of weir must not compare. */
export const SUMS_VERSION = 2

const CONSTANTS = Object.entries({
  VERSION: RECORD_VERSION,
  AMOUNT_MAX: Number.MAX_SAFE_INTEGER,
  LEASE_MS: TERMS.leaseMs,
  ENDED_MS: TERMS.endedMs,
  LOST_MS: TERMS.lostMs,
  CLOCK_SKEW_MS,
  COUNTERS_MAX,
  DAYS_KEPT,
  NODE_DAYS_KEPT,
  SUMS_VERSION,
})
  .map(([name, value]) => `local ${name} = ${value}\n`)
  .join('')

/** A line that declares numbers or texts: `local DAY, MONTH = 1, 2`. */
const CONSTANT_LINE =
  /^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ((?:-?[\d.]+|'[^']*')(?:, (?:-?[\d.]+|'[^']*'))*)$/gm

/**
 * Replaces the name of each constant by its value, and removes comments. Redis runs the whole text at each call, and
 * creating a function takes longer for each local that it uses: with 60 names this took 7 of 20 µs.
 */
function withoutConstants(lua: string): string {
  const values = new Map<string, string>()
  const code = lua.replace(/^\s*--[^\n]*$/gm, '').replace(CONSTANT_LINE, (_, names: string, literals: string) => {
    const each = literals.split(', ')
    for (const [i, name] of names.split(', ').entries()) values.set(name, each[i] ?? 'nil')
    return ''
  })
  return code.replace(/'[^'\n]*'|(?<![.\w])[A-Z][A-Z0-9_]*\b/g, (word) => values.get(word) ?? word)
}

const FUNCTION = /^local function (\w+)\((?:[^\n]*\bend$|[^\n]*\n(?:[^\n]*\n)*?end$)\n*/gm

/**
 * Removes functions that the script does not call: Redis takes at least 0.1 µs at each call to create one.
 */
function withoutUnused(lua: string): string {
  const uses = countsOfWords(lua)
  const kept = new Map([...lua.matchAll(FUNCTION)].map(([text, name = '']) => [name, countsOfWords(text)]))
  for (let before = 0; before !== kept.size; ) {
    before = kept.size
    for (const [name, own] of kept) {
      if ((uses.get(name) ?? 0) > (own.get(name) ?? 0)) continue
      kept.delete(name)
      for (const [word, times] of own) uses.set(word, (uses.get(word) ?? 0) - times)
    }
  }
  return lua.replace(FUNCTION, (text, name: string) => (kept.has(name) ? text : '')).replace(/\n{2,}/g, '\n')
}

function countsOfWords(text: string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const [word] of text.matchAll(/\w+/g)) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}

/** A complete script as sent to Redis. */
interface Program {
  readonly lua: string
  readonly sha1: string
  /** Names of its arguments, in their order. */
  readonly arguments: readonly string[]
}

/**
 * The programs of the scripts with one clock, each assembled when it is first used, which takes 3 ms. Every script
 * except `reserve` and `preview` has the flag `allow-oom`: a Redis that is out of memory rejects new reservations but
 * still releases and records.
 */
export class Programs {
  private readonly layout = `${layoutLua()}\n${auditLua()}`
  private readonly assembled: Partial<Record<ScriptName, Program>> = {}

  constructor(private readonly clockLua: string) {}

  of(name: ScriptName): Program {
    const program = this.assembled[name] ?? this.assemble(name)
    this.assembled[name] = program
    return program
  }

  private assemble(name: ScriptName): Program {
    const begin = scripts[name].lua === reserve ? '#!lua\n' : '#!lua flags=allow-oom\n'
    const names = argumentsOf(name)
    const needsAccount = names[0] === ACCOUNT[0]
    const early = needsAccount ? ACCOUNT.length : names[0] === 'witness' ? 1 : 0
    const first = argumentsLua(names.slice(0, early), 0) + (needsAccount ? account : '')
    const { hasFigures }: Script<string, string> = scripts[name]
    const own =
      argumentsLua(names, early) +
      (hasFigures === true ? `local used = ${amountsTable(USED)}\n${figuresLua()}` : '') +
      (REQUESTS[name]?.() ?? '')
    const saves = `local SAVES = ${name === 'preview' ? 0 : 1}\n`
    const texts = [CONSTANTS, saves, this.layout, this.clockLua, first, store, counters, own, scripts[name].lua]
    const lua = begin + withoutUnused(withoutConstants(texts.join('\n')))
    return { lua, sha1: createHash('sha1').update(lua).digest('hex'), arguments: names }
  }
}

const programsByClock = new Map<string, Programs>()

/** The programs of this process. `clockLua` sets `now`; only tests replace Redis' own clock. */
export function programs(clockLua: string = clock): Programs {
  return programsByClock.getOrInsertComputed(clockLua, () => new Programs(clockLua))
}
