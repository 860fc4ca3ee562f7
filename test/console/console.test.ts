import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { Weir } from '../process/weir.ts'
import { lastingPort } from '../support/ports.ts'
import { RedisServer } from '../support/redis.ts'
import { SocketClient } from '../support/socket-client.ts'
import { startBrowser, WatchedPage } from './browser.ts'

const KEY = 'console-test-key-0123456789'
/** Figures hold for 50 times as long as reading them took, which may be seconds under the load of other tests. */
const HELD_MS_MAX = 300_000
const TOKEN = 'console-test-token-0123456789'
/** What a caller may write as a model: markup, text from right to left, emoji, and more than fits a cell. */
const HOSTILE = [
  '<img src=x onerror="document.title=1">',
  '\u202Eevil\u202C שלום',
  '👩‍👩‍👧‍👦🚰 emoji',
  `${'long'.repeat(24)}end.`,
  '</script><script>document.title=1</script>',
]

let isLimited = false

/** Answers every conversation; the model `down` fails, and all do while `isLimited`. */
const provider = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    // It has no list of models.
    if (request.method === 'GET') return new Response(null, { status: 404 })
    const { model } = (await request.json()) as { model: string }
    if (isLimited) return Response.json({ error: { message: 'slow down' } }, { status: 429 })
    if (model === 'down') return Response.json({ error: { message: 'overloaded' } }, { status: 503 })
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }]
    const usage = { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 }
    return Response.json({ id: '1', object: 'chat.completion', created: 1, model, choices, usage })
  },
})

function configuration(
  more: { readonly adminPort?: number; readonly token?: string; readonly ledger?: string } = {},
): string {
  const { adminPort = 0, token, ledger = 'embedded' } = more
  return `
listen: { port: 0 }
admin: { port: ${adminPort}${token === undefined ? '' : `, token: ${token}`} }
data_dir: ./data
drain_seconds: 1
ledger: ${ledger}
providers:
  main: { dialect: openai, base_url: "http://127.0.0.1:${provider.port}/v1", api_key: provider-key }
  other:
    dialect: openai
    base_url: "http://127.0.0.1:${provider.port}/v1"
    api_key: provider-key
    limits: { spend: { total: 1000 } }
models:
  - { name: small, targets: [{ provider: main, model: up }], price: { input: 3, output: 15 } }
  - name: fragile
    targets: [{ provider: main, model: down }, { provider: other, model: up }]
    price: { input: 3, output: 15 }
organizations:
  - id: acme
    limits: { spend: { day: 5 } }
    keys: [{ id: web, key: ${KEY} }, { id: ci, key: ${KEY}-ci, limits: { requests_per_minute: 1 } }]
  - { id: globex, keys: [{ id: batch, key: ${KEY}-globex }] }
`
}

let browser: Browser
let weir: Weir

beforeAll(async () => {
  ;[browser, weir] = await Promise.all([startBrowser(), Weir.ready(configuration())])
})

afterAll(async () => {
  await browser.close()
  await weir[Symbol.asyncDispose]()
  await provider.stop(true)
})

/** Sends a request; resolves to the status when it was answered. */
async function send(model: string, key = KEY): Promise<number> {
  return (await answerOf(model, key)).status
}

async function answerOf(model: string, key = KEY): Promise<Response> {
  const answer = await fetch(`${weir.address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  await answer.text()
  return answer
}

async function openConsole(options: Parameters<typeof WatchedPage.open>[2] = {}): Promise<WatchedPage> {
  const watched = await WatchedPage.open(browser, `${weir.admin}/`, options)
  await live(watched.page)
  return watched
}

/** Whether nothing has to be scrolled sideways. */
const isAsWideAsTheWindow = (page: Page) =>
  page.evaluate<boolean>('document.documentElement.scrollWidth <= window.innerWidth')
const live = (page: Page) =>
  page
    .getByRole('status')
    .filter({ hasText: /^Live$/ })
    .waitFor()
/** The header shows this word, in the colour of this state. */
const readiness = (page: Page, state: string, word: string) =>
  page.locator(`#readiness [data-state="${state}"]`).filter({ hasText: word }).waitFor()
const rows = (page: Page, band: string) => page.getByRole('table', { name: band }).locator('tbody tr')

describe('the console', () => {
  test('shows new requests in every band without a reload', async () => {
    await using watched = await openConsole()
    const { page } = watched
    await page.getByText(`No requests yet. Send one: curl ${weir.address}/v1/chat/completions`).waitFor()
    await page.locator('#facts').getByText(new URL(weir.admin).host).waitFor()
    await rows(page, 'Budgets').filter({ hasText: 'acme' }).filter({ hasText: '$0.00 of $5.00' }).waitFor()
    await page.getByText('Nothing needs attention').first().waitFor()
    // Nothing is green before a target has answered.
    await readiness(page, 'neutral', 'Ready')
    await rows(page, 'Targets').filter({ hasText: 'Unknown' }).first().waitFor()
    expect(await page.locator('[data-state="good"]:visible').count()).toBe(0)
    for (let sent = 0; sent < 6; sent++) expect(await send('fragile')).toBe(200)
    await Promise.all([
      page.locator('.figure', { hasText: 'Spend' }).getByText('$0.06', { exact: true }).waitFor(),
      readiness(page, 'good', 'Ready'),
      rows(page, 'Targets')
        .filter({ hasText: 'main / down' })
        .filter({ hasText: /Resting|Probing/ })
        .waitFor(),
      rows(page, 'Budgets').filter({ hasText: 'acme' }).filter({ hasText: '$0.06 of $5.00' }).waitFor(),
      rows(page, 'Requests').filter({ hasText: 'completed, fallback' }).first().waitFor(),
      page.locator('#attention li').filter({ hasText: 'main' }).first().waitFor(),
    ])
    await page.locator('#attention').getByRole('button', { name: 'main/down' }).first().click()
    await page
      .locator('#targets .count')
      .filter({ hasText: /^1 of 3 match$/ })
      .waitFor()
    expect(await rows(page, 'Targets').textContent()).toContain('main / down')
    expect(watched.problems).toEqual([])
  })

  test('filters the requests as one types', async () => {
    for (const [model, key] of [
      ['small', KEY],
      ['small', `${KEY}-globex`],
      ['small', `${KEY}-ci`],
    ] as const)
      expect(await send(model, key)).toBe(200)
    expect(await send('small', `${KEY}-ci`)).toBe(429)
    await using watched = await openConsole()
    const { page } = watched
    await rows(page, 'Requests').filter({ hasText: 'globex' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('acme 429')
    // Not `waitForFunction`: the page evaluates no text once it has to wait.
    await rows(page, 'Requests').nth(1).waitFor({ state: 'detached' })
    expect(await rows(page, 'Requests').textContent()).toContain('acme · ci')
    await page.keyboard.type(' nothing-like-it')
    await page.getByText('Nothing matches.').waitFor()
    await page.keyboard.press('Escape')
    await rows(page, 'Requests').filter({ hasText: 'globex' }).waitFor()
    expect(watched.problems).toEqual([])
  })

  test('finds an id by eight of its characters, and no status in ids', async () => {
    const id = (await answerOf('small', `${KEY}-globex`)).headers.get('x-request-id') ?? ''
    await using watched = await openConsole()
    const { page } = watched
    await rows(page, 'Requests').first().waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type(id.slice(-7))
    await page.getByText('Nothing matches.').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.type(id.slice(-8))
    await rows(page, 'Requests').nth(1).waitFor({ state: 'detached' })
    expect(await rows(page, 'Requests').textContent()).toContain('globex · batch')
    expect(watched.problems).toEqual([])
  })

  test('shows only requests that failed, by a button', async () => {
    isLimited = true
    expect(await send('small', `${KEY}-globex`)).toBe(429)
    isLimited = false
    await send('small')
    expect(await send('no such model')).toBe(404)
    await using watched = await openConsole()
    const { page } = watched
    await rows(page, 'Requests').filter({ hasText: 'completed' }).first().waitFor()
    const only = page.locator('#requests').getByRole('button', { name: 'Failed only' })
    await only.click()
    await rows(page, 'Requests').filter({ hasText: 'completed' }).first().waitFor({ state: 'detached' })
    expect(await rows(page, 'Requests').filter({ hasText: 'model not found' }).count()).toBeGreaterThan(0)
    // A limit of all providers counts as a failure; a mistake of the caller does not.
    const limited = rows(page, 'Requests').filter({ hasText: 'upstream rate limited' })
    expect(await limited.first().locator('[data-state=bad]').count()).toBe(1)
    expect(await page.locator('#requests tr:has-text("model not found") [data-state=bad]').count()).toBe(0)
    await only.click()
    await rows(page, 'Requests').filter({ hasText: 'completed' }).first().waitFor()
    expect(watched.problems).toEqual([])
  })

  test('shows which requests came over a WebSocket', async () => {
    await using client = await SocketClient.open(Number(new URL(weir.address).port), KEY)
    await client.turn({ type: 'response.create', model: 'small', input: 'Hi', generate: false })
    await using watched = await openConsole()
    const { page } = watched
    const row = rows(page, 'Requests').filter({ hasText: 'responses · websocket' }).first()
    await row.getByRole('button').click()
    await page
      .getByRole('dialog')
      .getByText(/^websocket, req_/)
      .waitFor()
    expect(watched.problems).toEqual([])
  })

  test('shows the attempts of a request and explains it, by keyboard alone', async () => {
    await send('fragile')
    await using watched = await openConsole()
    const { page } = watched
    await page.keyboard.press('/')
    await page.keyboard.type('fallback')
    const first = rows(page, 'Requests').first().getByRole('button')
    await first.waitFor()
    await page.keyboard.press('ArrowDown')
    expect(await page.locator(':focus').textContent()).toBe(await first.textContent())
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Home')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('main / down', { exact: true }).waitFor()
    expect(await dialog.getByRole('listitem').filter({ hasText: 'other / up' }).first().textContent()).toContain(
      'answered',
    )
    await dialog.getByText('fragile is allowed: nothing excludes it').waitFor()
    await dialog.getByText('fragile at other / up').waitFor()
    await dialog.getByText(/^limit other\/spend\.total \$1,?000(\.00)?, (99\.\d|100)% left$/).waitFor()
    await dialog.getByText(/^\$4\.\d\d of \$5\.00 left, renews in /).waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    expect(await page.locator(':focus').textContent()).toBe(await first.textContent())
    expect(watched.problems).toEqual([])
  })

  test('shows names of callers as text', async () => {
    for (const name of HOSTILE) expect(await send(name)).toBe(404)
    await using watched = await openConsole()
    const { page } = watched
    for (const name of HOSTILE) {
      const row = rows(page, 'Requests').filter({ hasText: name }).first()
      await row.click()
      expect(await page.getByRole('dialog').getByRole('heading', { level: 2 }).textContent()).toBe(name)
      await page.keyboard.press('Escape')
    }
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.title()).toStartWith('weir')
    expect(await isAsWideAsTheWindow(page)).toBe(true)
    expect(watched.problems).toEqual([])
  })

  test('has no fault that axe finds, on a light phone and a dark laptop', async () => {
    await send('fragile')
    await using watched = await openConsole()
    const { page } = watched
    await rows(page, 'Requests').first().waitFor()
    await page.evaluate(axe.source)
    for (const [width, colorScheme] of [
      [390, 'light'],
      [1280, 'dark'],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 800 })
      expect(await violations(page)).toEqual([])
      expect(await isAsWideAsTheWindow(page)).toBe(true)
    }
    expect(watched.problems).toEqual([])
  })

  test.each([
    { width: 390, colorScheme: 'dark' as const },
    { width: 1280, colorScheme: 'light' as const },
  ])('has no fault that axe finds in the details of a request at $width px', async ({ width, colorScheme }) => {
    await send('fragile')
    await using watched = await openConsole({ viewport: { width, height: 800 }, colorScheme })
    const { page } = watched
    await rows(page, 'Requests').first().click()
    await page.getByRole('dialog').getByText('Loading').waitFor({ state: 'detached' })
    await page.evaluate(axe.source)
    expect(await violations(page)).toEqual([])
    expect(await isAsWideAsTheWindow(page)).toBe(true)
  })
})

/** What axe finds on the page as it is, one line each. */
async function violations(page: Page): Promise<readonly string[]> {
  const { violations } = await page.evaluate<axe.AxeResults>("axe.run(document, { resultTypes: ['violations'] })")
  return violations.map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ html }) => html).join(' ')}`)
}

describe('the console of a weir with 2,001 organisations', () => {
  test('finds a budget that is not among the fullest', async () => {
    const ids = Array.from({ length: 2001 }, (_, i) => `tenant-${i}`)
    const organizations = ids.map((id) => `  - { id: ${id}, limits: { spend: { day: 5 } }, keys: [] }`)
    const config = configuration().replace(/organizations:\n.*/s, `organizations:\n${organizations.join('\n')}\n`)
    await using large = await Weir.ready(config)
    await using watched = await WatchedPage.open(browser, `${large.admin}/`)
    const { page } = watched
    await page.getByText('1,000 fullest of 2,001').waitFor()
    await page.getByLabel('Filter budgets').fill('tenant-2000 spend.day')
    await page
      .locator('#budgets .count')
      .filter({ hasText: /^1 of 2,001 match$/ })
      .waitFor()
    expect(await rows(page, 'Budgets').count()).toBe(1)
    expect(await rows(page, 'Budgets').textContent()).toContain('tenant-2000')
    await page.getByLabel('Filter budgets').fill('tenant-2001')
    await page.locator('#budgets').getByText('Nothing matches.').waitFor()
    expect(watched.problems).toEqual([])
  })
})

test('without the ledger the console is reached, and it has budgets and other nodes again after that', async () => {
  const port = await lastingPort()
  let redis = await RedisServer.start([], port)
  try {
    await using own = await Weir.ready(configuration({ ledger: `{ redis: "${redis.url}" }` }))
    await using watched = await WatchedPage.open(browser, `${own.admin}/`)
    const { page } = watched
    const budget = rows(page, 'Budgets').filter({ hasText: '$0.00 of $5.00' })
    await budget.waitFor()
    await redis[Symbol.asyncDispose]()
    await page.locator('#budgets').getByText('Redis does not answer').waitFor({ timeout: HELD_MS_MAX })
    await readiness(page, 'bad', 'Not ready')
    expect(await page.getByText('Connection lost').count()).toBe(0)
    await live(page)
    expect(await budget.count()).toBe(0)
    expect(await rows(page, 'Targets').count()).toBe(3)
    redis = await RedisServer.start([], port)
    await budget.waitFor()

    // Alone it has no nodes; a second one comes, and the figures are those of both.
    expect(await page.locator('#nodes').isVisible()).toBe(false)
    const dearer = configuration({ ledger: `{ redis: "${redis.url}" }` }).replace('input: 3', 'input: 4')
    await using second = await Weir.ready(`node_name: gateway-eu-west-2\n${dearer}`)
    const now = page.locator('#now .count')
    await rows(page, 'Nodes').nth(1).waitFor()
    await now.filter({ hasText: 'of all 2 nodes' }).waitFor()
    await rows(page, 'Nodes').filter({ hasText: 'Differs' }).filter({ hasText: 'models[0].price' }).waitFor()
    // On no screen is a name cut.
    const name = page.locator('#nodes .c-node').getByText('gateway-eu-west-2', { exact: true })
    for (const width of [1280, 820, 390]) {
      await page.setViewportSize({ width, height: 900 })
      expect([width, await name.evaluate((each) => each.scrollWidth <= each.clientWidth)]).toEqual([width, true])
    }
    await page.getByRole('button', { name: 'This node alone' }).click()
    await now.filter({ hasText: 'of this node' }).waitFor()
    second.signal('SIGTERM')
    await page.locator('#nodes').waitFor({ state: 'hidden' })
    expect(watched.problems).toEqual([])
  } finally {
    await redis[Symbol.asyncDispose]()
  }
}, 450_000)

describe('the console of a weir with a token', () => {
  test('asks for it, keeps it in the tab, and comes back after weir was away', async () => {
    const adminPort = await lastingPort()
    const guarded = await Weir.ready(configuration({ adminPort, token: TOKEN }))
    await using watched = await WatchedPage.open(browser, `http://127.0.0.1:${adminPort}/`)
    const { page } = watched
    const prompt = page.getByRole('dialog', { name: 'Admin token' })
    const enter = async (token: string) => {
      await prompt.getByLabel('Token').fill(token)
      await page.keyboard.press('Enter')
    }
    await enter(`${TOKEN}-wrong`)
    await prompt.getByText('This token was rejected.').waitFor()
    await enter(TOKEN)
    await live(page)
    expect(await prompt.count()).toBe(0)
    await page.reload()
    await live(page)

    guarded.signal('SIGTERM')
    await guarded.ended
    await page.getByText('Connection lost').waitFor()
    await readiness(page, 'bad', 'Not reached')
    await using back = await Weir.ready(configuration({ adminPort, token: TOKEN }), [], { folder: guarded.folder })
    await live(page)
    expect(back.admin).toContain(String(adminPort))
    expect(watched.problems).toEqual([])
  })
})
