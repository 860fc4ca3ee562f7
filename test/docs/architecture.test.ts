/** The page about the architecture names files that exist, and has the table of imports that is enforced. */

import { expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { IMPORTS, REDIS_LEDGER } from '../support/tidy.ts'
import { pageOf, ROOT } from './pages.ts'

const page = pageOf('docs/architecture.md')
const ROOMS = readdirSync(join(ROOT, 'src'), { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
  .sort()

/** A row of the table, as the page has it. */
function rowOf(key: string, { from, packages }: (typeof IMPORTS)[string]): string {
  const code = (name: string) => `\`${name.replace(/\/$/, '')}\``
  const named = [...new Set(Object.values(packages).flat())].filter((name) => !/^(?:node:|bun$)/.test(name))
  const others = ROOMS.filter((room) => !from.includes(`${room}/`) && `${room}/` !== key)
  const imports =
    from[0] === '*'
      ? 'everything'
      : others.length <= 5
        ? `everything but ${others.map(code).join(', ')}`
        : from.map(code).join(', ') || '–'
  return `| ${code(key)} | ${imports} | ${named.map(code).join(', ') || '–'} |`
}

test('the table of imports is the one that is enforced', () => {
  const rows = Object.entries(IMPORTS).map(([key, allowance]) => rowOf(key, allowance))
  expect(page.text.slice(page.text.indexOf('| folder | may import')).trimEnd().split('\n').slice(2)).toEqual(rows)
})

test('the table of subfolders of the ledger in Redis is the one that is enforced', () => {
  const rows = [...page.text.matchAll(/^\| `([a-z]+)` \| [^|`]+ \| ([^|]+) \|$/gm)].map(([, name = '', below = '']) => {
    return [name, [...below.matchAll(/`([a-z]+)`/g)].map(([, other = '']) => other)] as const
  })
  expect(rows.filter(([name]) => name in REDIS_LEDGER)).toEqual(
    Object.entries(REDIS_LEDGER).map(([name, below]) => [name, [...below]]),
  )
  const files = new Bun.Glob('*/*').scanSync(join(ROOT, 'src/ledger/redis'))
  expect([...new Set([...files].map((file) => dirname(file)))].sort()).toEqual(Object.keys(REDIS_LEDGER).sort())
})

test('every folder of src is described', () => {
  const described = [...page.text.matchAll(/^\| ((?:`[a-z]+`(?:, )?)+) \| /gm)].map(([, names = '']) => names).join()
  expect(ROOMS.filter((room) => !described.includes(`\`${room}\``))).toEqual([])
})

test('files that it names exist', () => {
  const named = [...page.text.matchAll(/`((?:[a-z]+\/)+[\w-]+\.(?:ts|lua))`/g)].map(([, path = '']) => path)
  expect(named.length).toBeGreaterThan(15)
  expect(named.filter((path) => !existsSync(join(ROOT, 'src', path)) && !existsSync(join(ROOT, path)))).toEqual([])
})
