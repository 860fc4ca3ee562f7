/** The page about the architecture names files that exist, and has the table of imports that is enforced. */

import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { IMPORTS, SUBFOLDERS } from '../support/tidy.ts'
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

test.each(Object.entries(SUBFOLDERS))('the table of subfolders of %s is the one that is enforced', (folder, walls) => {
  const from = page.text.indexOf(`| subfolder of \`${folder.slice(0, -1)}\` |`)
  const table = page.text.slice(from, page.text.indexOf('\n\n', from))
  const rows = [...table.matchAll(/^\| `([a-z-]+)` \| [^|]+ \| ([^|]+) \|$/gm)].map(([, name = '', below = '']) => {
    return [name, [...below.matchAll(/`([a-z-]+)`/g)].map(([, other = '']) => other)] as const
  })
  expect(rows).toEqual(Object.entries(walls).map(([name, below]) => [name, [...below]]))
  const files = new Bun.Glob('*/*').scanSync(join(ROOT, 'src', folder))
  expect([...new Set([...files].map((file) => dirname(file)))].sort()).toEqual(Object.keys(walls).sort())
})

test('every message between supervisor and worker is in the picture, or in the table below it', () => {
  const messages = readFileSync(join(ROOT, 'src/process/ipc/ipc.ts'), 'utf8').matchAll(/readonly type: '([\w-]+)'/g)
  const section = page.text.slice(page.text.indexOf("## A worker's states"), page.text.indexOf('## Folders'))
  const drawn = [...section.matchAll(/^ {2}[OSN]->>[OSN]: ([a-z]+)/gm)].map(([, name = '']) => name)
  const named = [...section.matchAll(/`([a-z-]+)`/g)].map(([, name = '']) => name)
  const all = [...new Set([...messages].map(([, name = '']) => name))]
  expect(all.length).toBeGreaterThan(30)
  expect(all.filter((name) => !drawn.includes(name) && !named.includes(name))).toEqual([])
  expect(drawn.filter((name) => !all.includes(name))).toEqual([])
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
