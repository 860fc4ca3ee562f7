/** Chromium without a window, started once for all tests of a file, and pages that record what went wrong in them. */

import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

/** What a test waits for at most; under the load of other tests the browser needs seconds for what takes it 50 ms. */
const WAIT_MS_MAX = 120_000

/** `env` is added to its environment. Throws if there is no Chromium: it names the package. */
export async function startBrowser(env: Readonly<Record<string, string>> = {}): Promise<Browser> {
  const executablePath = Bun.which('chromium') ?? Bun.which('google-chrome')
  if (executablePath === null) throw new Error('chromium is not on PATH: install the Debian package chromium')
  // Root cannot use the sandbox. The pages are ours.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const flags = [...args, '--disable-gpu', '--disable-dev-shm-usage']
  return await chromium.launch({ executablePath, args: flags, env: { ...process.env, ...env } })
}

/** A page, and what must not happen in it. */
export class WatchedPage {
  /** Errors and warnings of the page, breaches of its content security policy, and requests to another origin. */
  readonly problems: string[] = []

  private constructor(
    readonly page: Page,
    origin: string,
  ) {
    page.on('console', (message) => {
      // Chromium's own note of an answer with an error status, which the page handles, or of a lost connection.
      if (message.text().startsWith('Failed to load resource')) return
      if (message.type() === 'error' || message.type() === 'warning') this.problems.push(message.text())
    })
    page.on('pageerror', (error) => this.problems.push(String(error)))
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== origin) this.problems.push(`request to ${request.url()}`)
    })
  }

  /** Opens an address in a context of its own: no storage, no cookies. */
  static async open(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<WatchedPage> {
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options })
    context.setDefaultTimeout(WAIT_MS_MAX)
    const watched = new WatchedPage(await context.newPage(), new URL(url).origin)
    await watched.page.goto(url)
    return watched
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page.context().close()
  }
}
