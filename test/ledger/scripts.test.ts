/**
 * Each Lua file's header agrees with its row in the table, its code with its header, and its names with the layout of
 * the records.
 */

import { describe, expect, test } from 'bun:test'
import { layoutLua, reservationFields, scopeFields } from '../../src/ledger/redis/store/record-layout.ts'
import { argumentsOf, luaName, programs, scriptKeys, scripts } from '../../src/ledger/redis/store/scripts.ts'

/** The words after a header's name, including continuation lines. */
function header(lua: string, name: string): string {
  const comment = lua.split('\n').filter((line) => line.startsWith('--'))
  const start = comment.findIndex((line) => line.startsWith(`-- ${name}:`))
  const lines = comment.slice(start)
  const end = lines.findIndex((line, i) => i > 0 && !line.startsWith('--   '))
  return lines
    .slice(0, end < 0 ? undefined : end)
    .map((line) => line.replace(`-- ${name}:`, '').replace('--  ', ''))
    .join('\n')
}

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}

/** A script's code without its comments. */
function code(lua: string): string {
  return lua.replace(/--[^\n]*/g, '')
}

const names = [
  ...(['reserve', 'preview', 'extend', 'settle', 'cancel', 'reap', 'figures', 'fold', 'foldNode', 'sumNode'] as const),
  ...([
    'drop',
    'activity',
    'taken',
    'windows',
    'reset',
    'resetCounters',
    'countersAhead',
    'enter',
    'restore',
    'restoreCounter',
    'parts',
    'kept',
  ] as const),
]

test('the table lists exactly these scripts', () => {
  expect(Object.keys(scripts).sort()).toEqual([...names].sort())
})

describe.each(names)('%s.lua', (name) => {
  const script = scripts[name]

  test('its header names the keys, the arguments in order, and every outcome', () => {
    expect(words(header(script.lua, 'keys'))).toEqual([...scriptKeys])
    expect(words(header(script.lua, 'arguments'))).toEqual([...script.arguments])
    const outcomes = header(script.lua, 'outcomes')
      .split('\n')
      .filter((line) => /^ \S/.test(line))
    expect(outcomes.map((line) => words(line)[0]?.replace(',', '') ?? '').sort()).toEqual([...script.outcomes].sort())
  })

  test('it returns every outcome, and no other', () => {
    const answers = [...script.lua.matchAll(/\{\s*(?:[a-z_ ]+ and )?'([a-z_]+)'(?: or '([a-z_]+)')?/g)]
    const returned = new Set(answers.flatMap(([, one, other]) => [one, other]).filter((word) => word !== undefined))
    expect([...returned].sort()).toEqual([...script.outcomes].sort())
  })

  test('it reads its arguments by name, each of its own at least once', () => {
    expect(script.lua).not.toContain('ARGV')
    const own = script.arguments[0] === 'id' ? script.arguments.slice(6) : script.arguments
    for (const argument of own) {
      const name = SHARED[argument] ?? luaName(argument)
      const isRead = new RegExp(`\\b${name}\\b`).test(code(script.lua))
      expect([argument, isRead]).toEqual([argument, true])
    }
    if (script.hasFigures === true) expect(code(script.lua)).toContain('used[')
  })

  test('the arguments are sent in the order of their names', () => {
    const { lua } = programs().of(name)
    for (const [index, argument] of argumentsOf(name).entries()) {
      const line = lua.split('\n').find((one) => one.startsWith('local ') && one.includes(`ARGV[${index + 1}])`)) ?? ''
      const [left = '', right = ''] = line.replace('local ', '').split(' = ')
      expect(left.split(', ')[right.split(', ').findIndex((value) => value.includes(`ARGV[${index + 1}]`))]).toBe(
        luaName(argument),
      )
    }
  })

  test('it uses no number for the position of a stored figure or a limit', () => {
    expect(code(script.lua)).not.toMatch(/\b(?:scope|scopes\[[12s]\]|reservation|limits\[[12s]\])\[\d+\]/)
  })
})

/** Arguments that functions which all scripts share read. */
const SHARED: Readonly<Record<string, string>> = { witness: '(?:is_trusted|advance|open_accounts)' }

describe('the layout of the records', () => {
  // Stored data has this layout, and gateways of other versions read it. Fields are only ever added at the end.
  test('the first eighteen fields of a scope keep their positions', () => {
    expect(scopeFields.slice(0, 18)).toEqual([
      ...['version', 'at', 'requests', 'tokens', 'live', 'day', 'day_spent', 'day_held'],
      ...['month', 'month_spent', 'month_held', 'total', 'total_spent', 'total_held'],
      ...['requests_drained', 'tokens_drained', 'requests_idled', 'tokens_idled'],
    ])
  })

  test('the first twenty-three fields of a reservation keep their positions', () => {
    expect(reservationFields.slice(0, 23)).toEqual([
      ...['version', 'state', 'due', 'admitted', 'key', 'series', 'input', 'accounted', 'reserved'],
      ...['posted_input', 'posted_output', 'posted', 'floor'],
      ...['organization_day', 'organization_month', 'organization_total', 'key_day', 'key_month', 'key_total'],
      ...['organization_requests_idled', 'organization_tokens_idled', 'key_requests_idled', 'key_tokens_idled'],
    ])
  })

  test('the names in the scripts refer to those positions', () => {
    const lua = layoutLua()
    for (const line of [
      'local AT, LIVE = 2, 5',
      'local STATE, DUE, ADMITTED, KEY, SERIES, INPUT, ACCOUNTED, RESERVED, ' +
        'POSTED_INPUT, POSTED_OUTPUT, POSTED, FLOOR = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13',
    ])
      expect(lua).toContain(line)
    expect(lua).toMatch(/USED, DRAINED = \{ 3, 4\b[^}]*\}, \{ 15, 16\b/)
    expect(lua).toMatch(/IDLED, IDLED_BEFORE = \{ 17, 18\b[^}]*\}, \{ \{ 20, 21\b[^}]*\}, \{ 22, 23\b/)
    expect(lua).toMatch(/WINDOW = \{ 6, 9, 12\b/)
    expect(lua).toMatch(/ADMISSION = \{ \{ 14, 15, 16\b[^}]*\}, \{ 17, 18, 19\b/)
    expect(lua).toMatch(/SPENT, HELD = \{ 7, 10, 13\b[^}]*\}, \{ 8, 11, 14\b/)
  })
})

test('no script reads a whole key, however large it is', () => {
  for (const name of names) {
    const { lua } = programs().of(name)
    expect(lua).not.toMatch(/HGETALL|HKEYS|HVALS|HSCAN|XRANGE|ZRANGE'|SMEMBERS|KEYS'/)
    for (const range of lua.matchAll(/ZRANGEBYSCORE[^\n]*/g)) expect(range[0]).toContain("'LIMIT', 0, 1000)")
  }
})

test('no amount is concatenated or truncated on its way', () => {
  for (const name of names) {
    const { lua } = programs().of(name)
    expect(lua).not.toMatch(/cjson\.encode|tostring\(|%[dsg]'/)
  }
})

test('the sent script keeps the clock, the keys and its own code; only unused functions are left out', () => {
  for (const name of names) {
    const { lua } = programs().of(name)
    expect(lua).toContain('local now = ')
    expect(lua).toContain('local SCOPES, RESERVATIONS')
    expect(lua).toMatch(/\nreturn [^\n]+\n*$/)
    for (const [, called = ''] of lua.matchAll(/^local function (\w+)/gm))
      expect(lua.split(new RegExp(`\\b${called}\\b`)).length).toBeGreaterThan(2)
  }
})
