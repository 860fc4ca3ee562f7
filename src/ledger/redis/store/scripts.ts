/** The table of Lua scripts: which keys and arguments each takes, in order, and what it answers. A test holds each file's header to it. */

import { createHash } from 'node:crypto'
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
import cancel from './cancel.lua' with { type: 'text' }
import extend from './extend.lua' with { type: 'text' }
import figures from './figures.lua' with { type: 'text' }
import reap from './reap.lua' with { type: 'text' }
import reserve from './reserve.lua' with { type: 'text' }
import settle from './settle.lua' with { type: 'text' }
import book from './store.lua' with { type: 'text' }

/** The same six for every script; all of one organisation lie in one slot of a cluster. */
export const scriptKeys = ['scopes', 'reservations', 'deadlines', 'audit', 'usage', 'nodes'] as const

/** What every verb about an account begins with. */
const ACCOUNT = ['id', 'witness', 'key', 'organizationLimits', 'keyLimits'] as const

interface Script<Argument extends string, Outcome extends string> {
  readonly lua: string
  readonly arguments: readonly Argument[]
  readonly outcomes: readonly Outcome[]
}

export const scripts = {
  reserve: script(
    reserve,
    [...ACCOUNT, 'model', 'input', 'output', 'cost', 'floor', 'life'],
    ['granted', 'refused', 'emptied', 'ended'],
  ),
  extend: script(
    extend,
    [...ACCOUNT, 'input', 'output', 'cost', 'wantedTokens', 'wantedCost'],
    ['extended', 'exhausted', 'ended', 'unknown'],
  ),
  settle: script(
    settle,
    [
      ...ACCOUNT,
      ...([
        'input',
        'output',
        'cost',
        'cached',
        'images',
        'estimated',
        'counted',
        'model',
        'provider',
        'outcome',
      ] as const),
      ...(['admitted', 'direct', 'life', 'node'] as const),
    ],
    ['settled', 'already_settled', 'cancelled', 'emptied', 'unknown'],
  ),
  cancel: script(cancel, ACCOUNT, ['cancelled', 'ended']),
  reap: script(reap, [], ['reaped']),
  figures: script(figures, ACCOUNT, ['figures']),
  fold: script(fold, ['day', 'month', 'key', 'model'], ['folded', 'absent']),
  foldNode: script(foldNode, ['node', 'day', 'key', 'model'], ['folded', 'absent', 'young']),
  drop: script(drop, ['key'], ['dropped', 'kept']),
  windows: script(windows, [], ['windows']),
  reset: script(reset, ['witness', 'key', 'day', 'month', 'keyDay', 'keyMonth'], ['reset', 'disagree']),
  enter: script(enter, ['known', 'node', 'ended', 'legacy'], ['entered']),
  restore: script(
    restore,
    [
      ...(['life', 'witness', 'node', 'number', 'last', 'key', 'day', 'model'] as const),
      ...(['requests', 'estimated', 'input', 'cached', 'output', 'images', 'cost'] as const),
    ],
    ['restored', 'emptied'],
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
): Script<Argument, Outcome> {
  return { lua, arguments: names, outcomes }
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

/** A whole script as Redis gets it. */
export interface Program {
  readonly lua: string
  readonly sha1: string
}

/**
 * The program of each script. `clockLua` sets `now`; only tests pass another than Redis' own clock. `allow-oom` lets what frees or
 * records run where Redis is full; what begins something is refused there.
 */
export function programs(clockLua: string = clock): Readonly<Record<ScriptName, Program>> {
  const program = (name: ScriptName): Program => {
    const begin = name === 'reserve' ? '#!lua\n' : '#!lua flags=allow-oom\n'
    const needsAccount = scripts[name].arguments[0] === ACCOUNT[0]
    const lua = begin + CONSTANTS + clockLua + (needsAccount ? account : '') + book + scripts[name].lua
    return { lua, sha1: createHash('sha1').update(lua).digest('hex') }
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
