import { expect, test } from 'bun:test'
import fs from 'node:fs'
import { join } from 'node:path'

const DEMO = join(import.meta.dir, '../../tools/demo/main.ts')

interface Status {
  readonly ready: boolean
  readonly cost_today_micro_usd: number | null
  readonly history: { readonly points: readonly { readonly requests_per_second: number }[] }
}

async function get<T>(url: string): Promise<T> {
  return (await (await fetch(url)).json()) as T
}

test('the demo has an hour of past and ongoing traffic, and leaves nothing', async () => {
  const demo = Bun.spawn([process.execPath, DEMO, '--port', '0', '--admin-port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const chunk of demo.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (text.includes('Ctrl-C')) break
  }
  const admin = /^console +(\S+)\/$/m.exec(text)?.[1]
  const status = await get<Status>(`${admin}/api/status?history=true`)
  expect(status.ready).toBe(true)
  expect(status.history.points.length).toBeGreaterThan(350)
  expect(status.history.points.every((point) => point.requests_per_second > 0)).toBe(true)
  const { rows } = await get<{ rows: { limit: string; used: number; amount: number }[] }>(`${admin}/api/budgets`)
  expect(rows.find(({ limit }) => limit === 'spend.day')?.used).toBeGreaterThan(0)
  const events = await fetch(`${admin}/api/events`)
  let seen = ''
  for await (const chunk of events.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    seen += chunk
    if (/^event: request$/m.test(seen)) break
  }
  expect(seen).toContain('"msg":"request"')
  demo.kill('SIGTERM')
  expect(await demo.exited).toBe(0)
  expect(fs.existsSync(/--config (\S+)$/m.exec(text)?.[1] ?? '/')).toBe(false)
})

test('a wrong flag of the demo exits with 2', async () => {
  const demo = Bun.spawn([process.execPath, DEMO, '--speed', 'fast'], { stdio: ['ignore', 'ignore', 'pipe'] })
  expect(await demo.exited).toBe(2)
  expect(await new Response(demo.stderr).text()).toContain('Usage: scripts/demo')
})
