/** The header of each Lua file agrees with its row in the table, its code with its header, and its names with the layout of the records. */

import { describe, expect, test } from 'bun:test'
import { layoutLua, reservationFields, scopeFields } from '../../src/ledger/redis/store/record-layout.ts'
import { argumentsOf, luaName, programs, scriptKeys, scripts } from '../../src/ledger/redis/store/scripts.ts'

/** The words after a header's name, over its continuation lines. */
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

/** The code of a script, without its comments. */
function code(lua: string): string {
  return lua.replace(/--[^\n]*/g, '')
}

const names = ['reserve', 'extend', 'settle', 'cancel', 'reap', 'figures', 'fold', 'foldNode', 'drop'] as const
const otherNames = ['windows', 'reset', 'enter', 'restore'] as const

test('the table has no other scripts', () => {
  expect(Object.keys(scripts).sort()).toEqual([...names, ...otherNames].sort())
})

describe.each([...names, ...otherNames])('%s.lua', (name) => {
  const script = scripts[name]

  test('its header names the keys, the arguments in their order, and every outcome', () => {
    expect(words(header(script.lua, 'keys'))).toEqual([...scriptKeys])
    expect(words(header(script.lua, 'arguments'))).toEqual([...script.arguments])
    const outcomes = header(script.lua, 'outcomes')
      .split('\n')
      .filter((line) => /^ \S/.test(line))
    expect(outcomes.map((line) => words(line)[0]?.replace(',', '') ?? '').sort()).toEqual([...script.outcomes].sort())
  })

  test('it answers every outcome, and no other', () => {
    const answers = [...script.lua.matchAll(/\{\s*(?:[a-z_ ]+ and )?'([a-z_]+)'(?: or '([a-z_]+)')?/g)]
    const said = new Set(answers.flatMap(([, one, other]) => [one, other]).filter((word) => word !== undefined))
    expect([...said].sort()).toEqual([...script.outcomes].sort())
  })

  test('it reads its arguments by their names, each of its own at least once', () => {
    expect(script.lua).not.toContain('ARGV')
    const own = script.arguments[0] === 'id' ? script.arguments.slice(5) : script.arguments
    for (const argument of own) {
      const isRead = new RegExp(`\\b${luaName(argument)}\\b`).test(code(script.lua))
      // Money and tokens may be read as amounts by unit.
      if (script.amounts === undefined || !/^(input|output|cost)$/.test(argument))
        expect([argument, isRead]).toEqual([argument, true])
    }
    if (script.amounts !== undefined) expect(code(script.lua)).toContain(`${script.amounts}[`)
  })

  test('what is sent are its arguments, in the order in which they are named', () => {
    const { lua } = programs()[name]
    for (const [index, argument] of argumentsOf(name).entries()) {
      const line = lua.split('\n').find((one) => one.startsWith('local ') && one.includes(`ARGV[${index + 1}])`)) ?? ''
      const [left = '', right = ''] = line.replace('local ', '').split(' = ')
      expect(left.split(', ')[right.split(', ').findIndex((value) => value.includes(`ARGV[${index + 1}]`))]).toBe(
        luaName(argument),
      )
    }
  })

  test('it has no position of a stored figure or of a limit as a number', () => {
    expect(code(script.lua)).not.toMatch(/\b(?:scope|scopes\[[12s]\]|reservation|limits\[[12s]\])\[\d+\]/)
  })
})

describe('the layout of the records', () => {
  // What stored data has, and gateways of other versions read. Fields are only ever added at the end.
  test('a scope has its first eighteen fields where they always were', () => {
    expect(scopeFields.slice(0, 18)).toEqual([
      ...['version', 'at', 'requests', 'tokens', 'live', 'day', 'day_spent', 'day_held'],
      ...['month', 'month_spent', 'month_held', 'total', 'total_spent', 'total_held'],
      ...['requests_drained', 'tokens_drained', 'requests_idled', 'tokens_idled'],
    ])
  })

  test('a reservation has its first twenty-three fields where they always were', () => {
    expect(reservationFields.slice(0, 23)).toEqual([
      ...['version', 'state', 'due', 'admitted', 'key', 'model', 'input', 'accounted', 'reserved'],
      ...['posted_input', 'posted_output', 'posted', 'floor'],
      ...['organization_day', 'organization_month', 'organization_total', 'key_day', 'key_month', 'key_total'],
      ...['organization_requests_idled', 'organization_tokens_idled', 'key_requests_idled', 'key_tokens_idled'],
    ])
  })

  test('the names of the scripts stand for those places', () => {
    const lua = layoutLua()
    for (const line of [
      'local AT, LIVE = 2, 5',
      'local STATE, DUE, ADMITTED, KEY, MODEL, INPUT, ACCOUNTED, RESERVED, POSTED_INPUT, POSTED_OUTPUT, POSTED, FLOOR = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13',
    ])
      expect(lua).toContain(line)
    expect(lua).toMatch(/USED, DRAINED = \{ 3, 4\b[^}]*\}, \{ 15, 16\b/)
    expect(lua).toMatch(/IDLED, IDLED_BEFORE = \{ 17, 18\b[^}]*\}, \{ \{ 20, 21\b[^}]*\}, \{ 22, 23\b/)
    expect(lua).toMatch(/WINDOW, ADMISSION = \{ 6, 9, 12\b[^}]*\}, \{ \{ 14, 15, 16\b[^}]*\}, \{ 17, 18, 19\b/)
    expect(lua).toMatch(/SPENT, HELD = \{ 7, 10, 13\b[^}]*\}, \{ 8, 11, 14\b/)
  })
})

test('no script reads a whole key, however much there is in it', () => {
  for (const { lua } of Object.values(programs())) {
    expect(lua).not.toMatch(/HGETALL|HKEYS|HVALS|HSCAN|XRANGE|ZRANGE'|SMEMBERS|KEYS'/)
    for (const range of lua.matchAll(/ZRANGEBYSCORE[^\n]*/g)) expect(range[0]).toContain("'LIMIT', 0, 1000)")
  }
})

test('no amount is concatenated or shortened on its way', () => {
  for (const { lua } of Object.values(programs())) {
    expect(lua).not.toMatch(/cjson\.encode|tostring\(|%[dsg]'/)
  }
})

test('what is sent keeps the clock, the keys and the script itself, whatever functions it leaves out', () => {
  for (const { lua } of Object.values(programs())) {
    expect(lua).toContain('local now = ')
    expect(lua).toContain('local SCOPES, RESERVATIONS')
    expect(lua).toMatch(/\nreturn [^\n]+\n*$/)
    for (const [, name = ''] of lua.matchAll(/^local function (\w+)/gm))
      expect(lua.split(new RegExp(`\\b${name}\\b`)).length).toBeGreaterThan(2)
  }
})
