/** The header of each Lua file says what its row in the table says, and its code what its header says. */

import { describe, expect, test } from 'bun:test'
import { programs, scriptKeys, scripts } from '../../src/ledger/redis/store/scripts.ts'

const ACCOUNT_ARGUMENTS = 5

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

describe.each(Object.entries(scripts))('%s.lua', (_, script) => {
  test('its header names the keys, the arguments in their order, and every outcome', () => {
    expect(words(header(script.lua, 'keys'))).toEqual([...scriptKeys])
    expect(words(header(script.lua, 'arguments'))).toEqual([...script.arguments])
    const outcomes = header(script.lua, 'outcomes').split('\n').slice(1)
    expect(outcomes.map((line) => words(line)[0]?.replace(',', '') ?? '').sort()).toEqual([...script.outcomes].sort())
  })

  test('it answers every outcome, and no other', () => {
    const answers = [...script.lua.matchAll(/\{\s*(?:fits and )?'([a-z_]+)'(?: or '([a-z_]+)')?/g)]
    const said = new Set(answers.flatMap(([, one, other]) => [one, other]).filter((word) => word !== undefined))
    expect([...said].sort()).toEqual([...script.outcomes].sort())
  })

  test('it reads its own arguments, each once, after those of the account', () => {
    const indices = [...script.lua.matchAll(/ARGV\[(\d+)\]/g)].map(([, index]) => Number(index))
    const before = script.arguments[0] === 'id' ? ACCOUNT_ARGUMENTS : 0
    const own = script.arguments.slice(before)
    expect(indices).toEqual(own.map((_, i) => before + 1 + i))
  })
})

test('no script reads a whole key, however much there is in it', () => {
  for (const { lua } of Object.values(programs())) {
    expect(lua).not.toMatch(/HGETALL|HKEYS|HVALS|HSCAN|XRANGE|ZRANGE'|SMEMBERS|KEYS'/)
    for (const range of lua.matchAll(/ZRANGEBYSCORE[^\n]*/g)) expect(range[0]).toContain("'LIMIT', 0, REAPED_MAX")
  }
})

test('no amount is concatenated or shortened on its way', () => {
  for (const { lua } of Object.values(programs())) {
    expect(lua).not.toMatch(/cjson\.encode|tostring\(|%[dsg]'/)
  }
})
