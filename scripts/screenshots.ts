/**
 * Makes the pictures of `docs/images`: the console of `scripts/demo` on a phone, a laptop and a wide screen, light and
 * dark, while a provider fails; and the details of a request. Started by `scripts/screenshots`.
 */

import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { startBrowser } from '../test/console/browser.ts'

const FOLDER = join(import.meta.dir, '../docs/images')
const SIZES = [
  { width: 390, height: 844, scale: 2 },
  { width: 1280, height: 1000, scale: 1 },
  { width: 1920, height: 1200, scale: 1 },
]
const SCHEMES = ['light', 'dark'] as const
/** The first failure of the provider `local` begins after half a minute. */
const FAILURE_MS_MAX = 120_000

/**
 * The font of the system, as people have it: Debian without a desktop has only DejaVu, so the pictures are made with
 * Inter in its place.
 */
const FONTS = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir>
<match target="pattern"><test name="family" compare="not_eq"><string>monospace</string></test>
<edit name="family" mode="prepend_first" binding="strong"><string>Inter</string></edit></match></fontconfig>`

/** Starts the demo; resolves to the address of its console. */
async function startDemo(): Promise<{ readonly url: string; stop(): Promise<unknown> }> {
  const demo = Bun.spawn(
    [process.execPath, join(import.meta.dir, '../tools/demo/main.ts'), '--port', '0', '--admin-port', '0'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const stop = () => {
    demo.kill('SIGTERM')
    return demo.exited
  }
  let text = ''
  for await (const chunk of demo.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const url = /^console +(\S+)$/m.exec(text)?.[1]
    if (url !== undefined) return { url, stop }
  }
  throw new Error('the demo ended before it was ready')
}

async function open(browser: Browser, url: string, options: Parameters<Browser['newPage']>[0]): Promise<Page> {
  const page = await browser.newPage({ reducedMotion: 'reduce', ...options })
  page.setDefaultTimeout(FAILURE_MS_MAX)
  await page.goto(url)
  await page.getByText('Live', { exact: true }).waitFor()
  await page.locator('#targets tbody tr').first().waitFor()
  return page
}

async function takeAll(browser: Browser, url: string): Promise<void> {
  const pages = await Promise.all(
    SIZES.flatMap(({ width, height, scale }) =>
      SCHEMES.map(async (colorScheme) => {
        const options = { viewport: { width, height }, deviceScaleFactor: scale, colorScheme }
        return { page: await open(browser, url, options), name: `console-${width}-${colorScheme}` }
      }),
    ),
  )
  for (const { page, name } of pages) {
    await page.bringToFront()
    await page
      .locator('#targets tr', { hasText: 'local' })
      .getByText(/Resting|Probing/)
      .waitFor()
    await take(page, name)
  }
  const page = await open(browser, url, { viewport: { width: 1280, height: 860 }, colorScheme: 'light' })
  await page.locator('#requests input').fill('fallback overloaded')
  await page.locator('#requests tbody tr').first().click()
  await page.getByRole('dialog').getByText('local / llama-70b').first().waitFor()
  await page.getByText('Loading …').waitFor({ state: 'detached' })
  await take(page, 'console-details')
}

async function take(page: Page, name: string): Promise<void> {
  const file = join(FOLDER, `${name}.png`)
  await page.screenshot({ path: file })
  console.log(`${file} ${Math.round((await fs.stat(file)).size / 1024)} KiB`)
}

const folder = await fs.mkdtemp(join(tmpdir(), 'weir-screenshots-'))
const fonts = join(folder, 'fonts.conf')
await fs.writeFile(fonts, FONTS)
await fs.mkdir(FOLDER, { recursive: true })
const demo = await startDemo()
try {
  const browser = await startBrowser({ FONTCONFIG_FILE: fonts })
  await takeAll(browser, demo.url).finally(() => browser.close())
} finally {
  await demo.stop()
  await fs.rm(folder, { recursive: true, force: true })
}
