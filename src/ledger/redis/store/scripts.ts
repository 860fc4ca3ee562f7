/**
 * The table of Lua scripts: which keys and arguments each takes, in order, and what it replies. A test compares each
 * file's header with it. A script reads its arguments by their names, which are written in front of it.
 */

import { createHash } from 'node:crypto'
import { limitUnits } from '../../../core/limits.ts'
import clock from '../../../redis/clock.lua' with { type: 'text' }
import { CLOCK_SKEW_MS, TERMS } from '../../reservation-store.ts'
import { DAYS_KEPT } from '../../window.ts'
import enter from '../epochs/enter.lua' with { type: 'text' }
import restore from '../epochs/restore.lua' with { type: 'text' }
import drop from '../maintenance/drop.lua' with { type: 'text' }
import fold from '../maintenance/fold.lua' with { type: 'text' }
import foldNode from '../maintenance/fold-node.lua' with { type: 'text' }
import reset from '../maintenance/reset.lua' with { type: 'text' }
import windows from '../maintenance/windows.lua' with { type: 'text' }
import account from './account.lua' with { type: 'text' }
import { auditLua, type Reported, reportedArguments, reportedLua, textArguments } from './audit-lua.ts'
import cancel from './cancel.lua' with { type: 'text' }
import extend from './extend.lua' with { type: 'text' }
import figures from './figures.lua' with { type: 'text' }
import reap from './reap.lua' with { type: 'text' }
import { furtherUnits, layoutLua } from './record-layout.ts'
import reserve from './reserve.lua' with { type: 'text' }
import settle from './settle.lua' with { type: 'text' }
import store from './store.lua' with { type: 'text' }

/** The same six for every script; all of one organisation lie in one slot of a cluster. */
export const scriptKeys = ['scopes', 'reservations', 'deadlines', 'audit', 'usage', 'nodes'] as const

/** What every verb about an account begins with. */
const ACCOUNT = ['id', 'witness', 'key', 'organizationLimits', 'keyLimits'] as const

/** How a script reads an argument; all others are amounts. */
const READERS: Readonly<Record<string, string>> = {
  id: '',
  key: '',
  model: '',
  node: '',
  witness: 'tonumber',
  organizationLimits: 'cjson.decode',
  keyLimits: 'cjson.decode',
  organizationSpent: 'cjson.decode',
  keySpent: 'cjson.decode',
  ...Object.fromEntries(textArguments.map((name) => [name, ''])),
}

interface Script<Argument extends string, Outcome extends string> {
  readonly lua: string
  readonly arguments: readonly Argument[]
  readonly outcomes: readonly Outcome[]
  /** What the script calls the amounts of the request by unit, if it needs them; they are made from its arguments. */
  readonly amounts?: 'demand' | 'used' | undefined
  /** What it is sent beside its own arguments. */
  readonly reported?: Reported | undefined
}

export const scripts = {
  reserve: script(
    reserve,
    [...ACCOUNT, 'model', 'input', 'output', 'cost', 'floorCost', 'epoch'],
    ['granted', 'refused', 'emptied', 'ended'],
    'demand',
  ),
  extend: script(
    extend,
    [...ACCOUNT, 'input', 'output', 'cost', 'wantedTokens', 'wantedCost'],
    ['extended', 'exhausted', 'ended', 'unknown'],
  ),
  settle: script(
    settle,
    [...ACCOUNT, 'admitted', 'direct', 'epoch', 'node'],
    ['settled', 'already_settled', 'cancelled', 'emptied', 'unknown'],
    'used',
    'charge',
  ),
  cancel: script(cancel, ACCOUNT, ['cancelled', 'ended']),
  reap: script(reap, [], ['reaped']),
  figures: script(figures, ACCOUNT, ['figures']),
  fold: script(fold, ['day', 'month', 'key', 'model'], ['folded', 'absent']),
  foldNode: script(foldNode, ['node', 'day', 'key', 'model'], ['folded', 'absent', 'young']),
  drop: script(drop, ['key'], ['dropped', 'kept']),
  windows: script(windows, [], ['windows']),
  reset: script(reset, ['witness', 'key', 'organizationSpent', 'keySpent'], ['reset', 'disagree']),
  enter: script(enter, ['known', 'node', 'ended', 'legacy'], ['entered']),
  restore: script(
    restore,
    ['epoch', 'witness', 'node', 'number', 'last', 'key', 'day', 'model'],
    ['restored', 'emptied'],
    'used',
    'figures',
  ),
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
  amounts?: 'demand' | 'used',
  reported?: Reported,
): Script<Argument, Outcome> {
  return { lua, arguments: names, outcomes, amounts, reported }
}

/**
 * All arguments of a script in their order: its own, what is reported, and the further units that it needs an amount
 * of.
 */
export function argumentsOf(name: ScriptName): readonly string[] {
  const script: Script<string, string> = scripts[name]
  const own = [...script.arguments, ...(script.reported === undefined ? [] : reportedArguments[script.reported])]
  const further = script.amounts === undefined ? [] : furtherUnits.filter((unit) => !own.includes(unit))
  return [...own, ...further]
}

/** Names for arguments from one position to another, as they were sent. */
function argumentsLua(names: readonly string[], from: number): string {
  if (names.length <= from) return ''
  const own = names.slice(from)
  const values = own.map((name, index) => `${READERS[name] ?? 'amount'}(ARGV[${from + index + 1}])`)
  return `local ${own.map(luaName).join(', ')} = ${values.join(', ')}\n`
}

/** `wantedCost` is `wanted_cost` in a script. */
export function luaName(argument: string): string {
  return argument.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Amounts by unit, from the arguments of a script. */
function amountsLua(amounts: string | undefined, names: readonly string[]): string {
  if (amounts === undefined) return ''
  const values: Readonly<Record<string, string>> = {
    requests: names.includes('requests') ? 'requests' : '1',
    tokens: 'sum(input, output)',
    micro_usd: 'cost',
  }
  return `local ${amounts} = { ${limitUnits.map((unit) => values[unit] ?? unit).join(', ')} }\n`
}

/** Records and scopes carry it; a script that meets another refuses it rather than guess. */
export const RECORD_VERSION = 1

const CONSTANTS = Object.entries({
  VERSION: RECORD_VERSION,
  AMOUNT_MAX: Number.MAX_SAFE_INTEGER,
  LEASE_MS: TERMS.leaseMs,
  ENDED_MS: TERMS.endedMs,
  LOST_MS: TERMS.lostMs,
  CLOCK_SKEW_MS,
  DAYS_KEPT,
})
  .map(([name, value]) => `local ${name} = ${value}\n`)
  .join('')

/** A line that names numbers or texts: `local DAY, MONTH = 1, 2`. */
const CONSTANT_LINE =
  /^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ((?:-?[\d.]+|'[^']*')(?:, (?:-?[\d.]+|'[^']*'))*)$/gm

/**
 * The same script with the value of each constant in place of its name, and without comments. Redis runs the whole text
 * at each call, and each function that uses a local pays for it when it is made: with 60 names 7 of 20 µs.
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

/**
 * The same script without functions that it does not call: making one that is not called takes Redis 0.1 µs or more.
 */
function withoutUnused(lua: string): string {
  const functions = /^local function (\w+)\((?:[^\n]*\bend$|[^\n]*\n(?:[^\n]*\n)*?end$)\n*/gm
  for (let [before, code] = ['', lua]; ; ) {
    before = code
    code = before.replace(functions, (text, name: string) => {
      const uses = before.split(new RegExp(`\\b${name}\\b`)).length - 1
      return uses > text.split(new RegExp(`\\b${name}\\b`)).length - 1 ? text : ''
    })
    if (code === before) return code.replace(/\n{2,}/g, '\n')
  }
}

/** A whole script as Redis gets it. */
export interface Program {
  readonly lua: string
  readonly sha1: string
  /** Names of its arguments, in their order. */
  readonly arguments: readonly string[]
}

/**
 * The program of each script. `clockLua` sets `now`; only tests pass another than Redis' own clock. `allow-oom` lets
 * what frees or records run where Redis is full; what begins something is refused there.
 */
export function programs(clockLua: string = clock): Readonly<Record<ScriptName, Program>> {
  const layout = `${layoutLua()}\n${auditLua()}`
  const program = (name: ScriptName): Program => {
    const begin = name === 'reserve' ? '#!lua\n' : '#!lua flags=allow-oom\n'
    const names = argumentsOf(name)
    const needsAccount = names[0] === ACCOUNT[0]
    const first = needsAccount ? argumentsLua(names.slice(0, ACCOUNT.length), 0) + account : ''
    const { amounts, reported }: Script<string, string> = scripts[name]
    const own =
      argumentsLua(names, needsAccount ? ACCOUNT.length : 0) +
      amountsLua(amounts, names) +
      (reported === undefined ? '' : reportedLua(reported))
    const parts = [CONSTANTS, layout, clockLua, first, store, own, scripts[name].lua]
    const lua = begin + withoutUnused(withoutConstants(parts.join('\n')))
    return { lua, sha1: createHash('sha1').update(lua).digest('hex'), arguments: names }
  }
  return {
    reserve: program('reserve'),
    extend: program('extend'),
    settle: program('settle'),
    cancel: program('cancel'),
    reap: program('reap'),
    figures: program('figures'),
    drop: program('drop'),
    fold: program('fold'),
    foldNode: program('foldNode'),
    windows: program('windows'),
    reset: program('reset'),
    enter: program('enter'),
    restore: program('restore'),
  }
}
