/** The page of the reference: complete, without anything from elsewhere, and readable in a real browser. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import axe from 'axe-core'
import type { Browser } from 'playwright-core'
import { isArray, isObject } from '../../src/core/json.ts'
import { html, inline } from '../../src/reference/markup.ts'
import { referencePage } from '../../src/reference/reference-page.ts'
import { REFERENCE_FILES, REFERENCE_PATHS } from '../../src/reference/reference-paths.ts'
import { startBrowser, WatchedPage } from '../console/browser.ts'
import { adminPort, listeningAdmin } from '../support/admin.ts'
import { DOCUMENT, objectAt, SCHEMAS } from '../support/api-schema.ts'

const port = adminPort({ token: 'a-token-of-16-chars' })
const page = referencePage(DOCUMENT, REFERENCE_FILES)

const TYPES = {
  '/docs': 'text/html; charset=utf-8',
  '/docs/style.css': 'text/css; charset=utf-8',
  '/docs/script.js': 'text/javascript; charset=utf-8',
  '/docs/icon.svg': 'image/svg+xml',
  '/openapi.json': 'application/json',
}

test.each(REFERENCE_PATHS)('GET %s needs no token', async (path) => {
  const answer = await port.ask(path)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, TYPES[path]])
  expect(answer.headers.get('content-security-policy')).toStartWith("default-src 'self'")
  expect(answer.headers.get('content-security-policy')).not.toContain('unsafe')
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect((await answer.text()).length).toBeGreaterThan(100)
})

test('GET /openapi.json is the document', async () => {
  expect(await (await port.ask('/openapi.json')).json()).toEqual(DOCUMENT)
})

const matches = (pattern: RegExp) => [...page.matchAll(pattern)].map(([, found = '']) => found)

describe('the page', () => {
  const ids = matches(/ id="([^"]+)"/g)

  test('has every operation, every schema and every error', () => {
    const operations = Object.values(objectAt(DOCUMENT, 'paths')).flatMap((methods) =>
      isObject(methods) ? Object.values(methods).map((each) => (isObject(each) ? each['operationId'] : undefined)) : [],
    )
    const errors = DOCUMENT['x-weir-errors']
    const kinds = isArray(errors) ? errors.map((row) => (isObject(row) ? `error-${row['kind']}` : '')) : []
    const wanted = [...operations, ...Object.keys(SCHEMAS), ...kinds]
    expect(wanted.length).toBeGreaterThan(120)
    expect(wanted.filter((id) => !ids.includes(String(id)))).toEqual([])
  })

  test('has no id twice, and no link to nothing', () => {
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
    expect(matches(/ href="#([^"]*)"/g).filter((id) => !ids.includes(id))).toEqual([])
  })

  test('loads nothing from elsewhere, and has no styles or scripts of its own', () => {
    const loaded = [...matches(/<(?:link|script|img)[^>]* (?:href|src)="([^"]*)"/g)]
    expect(loaded.sort()).toEqual(['/docs/icon.svg', '/docs/script.js', '/docs/style.css'])
    expect(page).not.toMatch(/<style| style="| on\w+="|<script(?! src=)/)
  })

  test('shows text of the document as text', () => {
    const evil = '<script>alert("x")</script> & `<b>` **<i>** [<u>](#a"b)'
    const text = html`<p title="${evil}">${inline(evil)}</p>`.text
    expect(text).not.toMatch(/<(?:script|b|i|u)>/)
    expect(text).toContain('&lt;script&gt;')
    const document = { ...DOCUMENT, info: { title: evil, description: evil } }
    expect(referencePage(document, REFERENCE_FILES)).not.toContain('<script>alert')
  })
})

describe('in a browser', () => {
  let browser: Browser
  const admin = listeningAdmin()
  const url = `http://127.0.0.1:${admin.address.port}/docs`
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser.close()
    await admin.stop()
  })

  const WINDOWS = [
    [390, 'light'],
    [390, 'dark'],
    [1280, 'light'],
    [1920, 'dark'],
  ] as const

  test.each(WINDOWS)('%d pixels wide, %s: no errors, and nothing beside the window', async (width, colorScheme) => {
    await using watched = await WatchedPage.open(browser, url, { viewport: { width, height: 900 }, colorScheme })
    const beside = await watched.page.evaluate('document.documentElement.scrollWidth - innerWidth')
    expect([beside, watched.problems]).toEqual([0, []])
  })

  test.each([WINDOWS[1], WINDOWS[2]])('%d pixels wide, %s: axe finds nothing', async (width, colorScheme) => {
    await using watched = await WatchedPage.open(browser, url, { viewport: { width, height: 900 }, colorScheme })
    await watched.page.evaluate(axe.source)
    // One part of each kind: the whole page takes axe half a minute.
    const parts = ['nav', '.top', '#overview', '#createChatCompletion', '#ChatMessage', '#errors .lead']
    const { violations } = await watched.page.evaluate<axe.AxeResults>(
      `axe.run({ include: ${JSON.stringify(parts.map((part) => [part]))} })`,
    )
    expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([])
  })

  test('one language at a time, on the whole page and at the next visit', async () => {
    await using watched = await WatchedPage.open(browser, url)
    const { page } = watched
    const shown = () => page.locator('[data-panel]:visible').evaluateAll((panels) => panels.map((one) => one.id))
    expect((await shown()).every((id) => id.endsWith('-Shell'))).toBe(true)
    await page.getByRole('tab', { name: 'Python' }).first().click()
    expect((await shown()).every((id) => id.endsWith('-Python'))).toBe(true)
    await page.keyboard.press('ArrowRight')
    expect((await shown()).every((id) => id.endsWith('-TypeScript'))).toBe(true)
    await page.reload()
    expect((await shown()).every((id) => id.endsWith('-TypeScript'))).toBe(true)
    expect(watched.problems).toEqual([])
  })

  test('the filter finds schemas, also by keyboard', async () => {
    await using watched = await WatchedPage.open(browser, url)
    const { page } = watched
    await page.keyboard.press('/')
    await page.keyboard.type('tool choice')
    expect(await page.locator('.tree details a:visible').allTextContents()).toEqual([
      'ChatToolChoice',
      'MessagesToolChoice',
    ])
    await page.getByRole('link', { name: 'ChatToolChoice' }).first().click()
    expect(await page.locator('#ChatToolChoice').isVisible()).toBe(true)
    expect(new URL(page.url()).hash).toBe('#ChatToolChoice')
  })

  test('the filter finds fields, and leads to them', async () => {
    await using watched = await WatchedPage.open(browser, url)
    const { page } = watched
    await page.keyboard.press('/')
    await page.keyboard.type('MAX_completion')
    const found = page.locator('#found-fields a:visible')
    expect(await found.allTextContents()).toEqual(['max_completion_tokens in ChatRequest'])
    await found.first().click()
    const field = page.locator('.field.found')
    expect(await field.locator('dt code').first().textContent()).toBe('max_completion_tokens')
    const top = await field.evaluate((each) => each.getBoundingClientRect().top)
    expect([top >= 0 && top < 900, new URL(page.url()).hash]).toEqual([true, '#ChatRequest'])
    // A field that is accepted without effect is in a closed part.
    await page.getByLabel('Filter').fill('logprobs')
    await found.first().click()
    expect(await field.isVisible()).toBe(true)
    await page.getByLabel('Filter').fill('')
    expect(await page.locator('#found-fields').isVisible()).toBe(false)
  })

  test('a link leads back to the console, whose greys the page has', async () => {
    const coloursOf = async (colorScheme: 'light' | 'dark', path: string, background: string) => {
      await using watched = await WatchedPage.open(browser, new URL(path, url).href, { colorScheme })
      const back = await watched.page.getByRole('link', { name: 'Console' }).count()
      const script = `[getComputedStyle(${background}).backgroundColor, getComputedStyle(document.body).color]`
      return { back, colours: await watched.page.evaluate<string[]>(script) }
    }
    for (const scheme of ['light', 'dark'] as const) {
      const console = await coloursOf(scheme, '/', 'document.documentElement')
      const own = await coloursOf(scheme, '/docs', 'document.body')
      expect(own).toEqual({ back: 1, colours: console.colours })
    }
  })

  test('without scripts every example is shown', async () => {
    await using watched = await WatchedPage.open(browser, url, { javaScriptEnabled: false })
    expect(await watched.page.locator('[data-panel="Python"]').first().isVisible()).toBe(true)
    expect(await watched.page.locator('[data-panel="Shell"]').first().isVisible()).toBe(true)
  })
})
