/** Everything that users meet is documented: configuration keys, commands and flags, errors, log events, metrics. */

import { describe, expect, test } from 'bun:test'
import { systemSeries } from '../../src/admin/system-series.ts'
import { COMMANDS } from '../../src/cli/command-table.ts'
import { schema } from '../../src/config/schema-file.ts'
import { CALLER_ERRORS } from '../../src/core/caller-error.ts'
import { isArray, isObject } from '../../src/core/json.ts'
import { LOG_EVENTS } from '../../src/logging/log-events.ts'
import { counterFamilies, counterNames, histogramFamilies, histogramNames } from '../../src/metrics/families.ts'
import { pageOf } from './pages.ts'

/** The cells of every table row of a page, without backticks. */
function rowsOf(path: string): readonly (readonly string[])[] {
  const lines = pageOf(path).prose.split('\n')
  return lines
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.replaceAll('`', '').trim()),
    )
}

/** The names of all keys of a JSON Schema, at any depth. */
function keysOf(node: unknown): ReadonlySet<string> {
  const keys = new Set<string>()
  const visit = (value: unknown): void => {
    if (isArray(value)) for (const each of value) visit(each)
    if (!isObject(value)) return
    const { properties } = value
    if (isObject(properties)) for (const name of Object.keys(properties)) keys.add(name)
    for (const each of Object.values(value)) visit(each)
  }
  visit(node)
  return keys
}

/** Failures that have the code and the row of another one. */
const SHARING: ReadonlySet<string> = new Set(['exceeds_limit', 'upstream_rejected', 'upstream_too_large'])

test('every key of the configuration is on its page', () => {
  const keys = keysOf(JSON.parse(JSON.stringify(schema)))
  expect(keys.size).toBeGreaterThan(60)
  const { text } = pageOf('docs/configuration.md')
  expect([...keys].filter((key) => !new RegExp(`(?<![\\w])${key}(?![\\w])`).test(text))).toEqual([])
})

describe('commands', () => {
  const sections = new Map(
    pageOf('docs/commands.md')
      .text.split(/^## /m)
      .slice(1)
      .map((section) => [section.split('\n')[0] ?? '', section]),
  )
  const sectionOf = (command: string) => {
    const heading = [...sections.keys()].find(
      (each) => each === `weir ${command}` || each.startsWith(`weir ${command} `),
    )
    return heading === undefined ? undefined : sections.get(heading)
  }

  test('every command has a section, with all its flags', () => {
    const undocumented = COMMANDS.flatMap(({ name, flags }) => {
      const section = sectionOf(name) ?? sectionOf(name.split(' ')[0] ?? '')
      if (section === undefined || !section.includes(`weir ${name}`)) return [name]
      // The top of the page describes this one.
      const own = flags.filter((flag) => flag.name !== 'config')
      return own.filter((flag) => !section.includes(`--${flag.name}`)).map((flag) => `${name} --${flag.name}`)
    })
    expect(COMMANDS.length).toBeGreaterThan(10)
    expect(undocumented).toEqual([])
  })
})

describe('errors', () => {
  const rows = rowsOf('docs/errors.md').filter(([, status = '']) => /^\d{3}$/.test(status))

  test('every failure has its row', () => {
    const missing = Object.entries(CALLER_ERRORS).flatMap(([name, { code, status, type, messagesType, stage }]) => {
      const own = [`${code}${stage === 'body' ? ' *' : ''}`, String(status), `${type}, ${messagesType}`]
      const has = rows.some(([first = '', ...cells]) => {
        if (SHARING.has(name)) return first.replace(' *', '') === String(code) && cells[0] === own[1]
        return [first, ...cells.slice(0, 2)].join() === own.join()
      })
      return has ? [] : [`${name}: | ${own.join(' | ')} |`]
    })
    expect(missing).toEqual([])
  })

  test('no row is of an error that does not exist, or is there twice', () => {
    const codes = new Set(Object.values(CALLER_ERRORS).map(({ code }) => String(code)))
    const shown = rows.map(([first = '']) => first.replace(' *', ''))
    expect(shown.filter((code) => !codes.has(code))).toEqual([])
    expect(new Set(shown).size).toBe(shown.length)
  })

  test('every row has a meaning and advice', () => {
    expect(rows.filter((row) => row.length !== 5 || row.some((cell) => cell === ''))).toEqual([])
  })
})

test('every log event has its row, with its level and message, and a meaning', () => {
  const rows = rowsOf('docs/logs.md')
  const missing = Object.entries(LOG_EVENTS).filter(
    ([event, [level, message]]) =>
      !rows.some(
        ([name, at, msg, meaning = '']) => [name, at, msg].join() === [event, level, message].join() && meaning !== '',
      ),
  )
  expect(missing).toEqual([])
  const known = new Set(Object.keys(LOG_EVENTS))
  expect(
    rows.filter(([first = '', level = '']) => /^(?:info|warn|error|fatal)$/.test(level) && !known.has(first)),
  ).toEqual([])
})

test('the page about metrics has a row for each, with its type and labels', () => {
  const metrics: readonly (readonly [name: string, type: string, labels: readonly string[]])[] = [
    ...systemSeries.map(({ name, type, labels }) => [name, type, labels] as const),
    ...counterNames.map((name) => [name, 'counter', counterFamilies[name].labels] as const),
    ...histogramNames.map((name) => [name, 'histogram', histogramFamilies[name].labels] as const),
  ]
  const rows = rowsOf('docs/metrics.md').filter(([first = '']) => /^(weir|process)_/.test(first))
  const documented = rows.map(([name = '', type = '', labels = '']) => [name, type, labels.split(', ').filter(Boolean)])
  expect(documented.sort()).toEqual(metrics.map(([name, type, labels]) => [name, type, [...labels]]).sort())
})
