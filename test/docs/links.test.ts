/** Links of the documents lead to files and headings that exist, and every page can be found from the README. */

import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { linksOf, PAGES, type Page, pageOf, ROOT, readPage } from './pages.ts'

/** The problem of a link, or undefined. Addresses elsewhere are not requested: tests use loopback alone. */
function problemOf(page: Page, link: string): string | undefined {
  if (/^https?:/.test(link)) return undefined
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? page.path : normalize(join(dirname(page.path), path))
  if (!existsSync(join(ROOT, target))) return `${page.path}: there is no ${target}`
  const found = PAGES.find((each) => each.path === target)
  if (anchor === undefined || found?.anchors.has(anchor)) return undefined
  return `${page.path}: ${target} has no heading #${anchor}`
}

describe('links', () => {
  test('lead to files and headings', () => {
    expect(PAGES.flatMap((page) => linksOf(page).flatMap((link) => problemOf(page, link) ?? []))).toEqual([])
  })

  test('lead from the README to every page', () => {
    const linkedFrom = (page: Page) =>
      linksOf(page).map((link) => normalize(join(dirname(page.path), link.replace(/#.*/, ''))))
    // Those in a folder of their own are listed in the README.md of the folder.
    const lists = PAGES.filter(({ path }) => path.endsWith('README.md'))
    const linked = lists.flatMap(linkedFrom)
    expect(PAGES.map(({ path }) => path).filter((path) => path !== 'README.md' && !linked.includes(path))).toEqual([
      // The usual place, which links on to docs/contributing.md.
      'CONTRIBUTING.md',
    ])
  })

  test('are checked', () => {
    const links = '[a](gone.ts) [b](#one-two) [c](#a-b-c) [d](#no) `[e](gone.ts)`'
    const page = readPage('docs/keys.md', `# One, two\n## A \`b\` c\n${links}\n`)
    expect([...page.anchors]).toEqual(['one-two', 'a-b-c'])
    expect(linksOf(page)).toEqual(['gone.ts', '#one-two', '#a-b-c', '#no'])
    expect(problemOf(page, 'gone.ts')).toContain('there is no docs/gone.ts')
    expect(problemOf(pageOf('README.md'), 'docs/keys.md#no')).toContain('has no heading')
    expect(problemOf(pageOf('README.md'), 'docs/keys.md#keys-of-the-configuration')).toBeUndefined()
  })
})

test('the README has at most 150 lines', () => {
  expect(pageOf('README.md').text.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
})
