/** docs/alerts.md: its table has every type, and its code accepts what weir signs, and nothing else. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ALERT_TYPES } from '../../src/alerts/alert.ts'
import { Webhook } from '../../src/alerts/webhook.ts'
import { pageOf } from './pages.ts'

const SECRET = 'a-secret-of-the-test-0123456789'
const BODY = '{"id":"alert_1","type":"test","node":"größer"}'
const folder = mkdtempSync(join(tmpdir(), 'weir-alerts-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The signature of weir for `BODY`. */
let header = ''

beforeAll(async () => {
  using server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      header = request.headers.get('weir-signature') ?? ''
      return new Response()
    },
  })
  const url = `http://127.0.0.1:${server.port}/`
  const hook = { key: '', label: '', format: 'weir', url, secret: SECRET, events: ['*'] } as const
  expect(await new Webhook(hook).post(BODY)).toEqual({ ok: true })
})

function codeOf(info: string): string {
  const block = pageOf('docs/alerts.md').blocks.find((each) => each.info === info)
  if (block === undefined) throw new Error(`docs/alerts.md has no block '${info}'`)
  return block.text
}

/** Header, body and time in seconds of each case, and whether it is genuine. */
function cases(): readonly (readonly [header: string, body: string, now: number, genuine: boolean])[] {
  const now = Date.now() / 1000
  const time = Number(/^t=(\d+)/.exec(header)?.[1])
  return [
    [header, BODY, now, true],
    [header, BODY.replace('test', 'tess'), now, false],
    [header.replace(/^t=\d+/, `t=${time + 1}`), BODY, now, false],
    [header, BODY, now + 301, false],
    [header.replace(/v1=./, (text) => (text.endsWith('0') ? 'v1=1' : 'v1=0')), BODY, now, false],
    ['', BODY, now, false],
  ]
}

test('the code in TypeScript accepts genuine alerts alone', async () => {
  const file = join(folder, 'verify.ts')
  writeFileSync(file, codeOf('ts verify'))
  const { isGenuine } = await import(file)
  const found = cases().map(([given, body, now]) => isGenuine(given, body, SECRET, now * 1000))
  expect(found).toEqual(cases().map(([, , , genuine]) => genuine))
})

test.skipIf(Bun.which('python3') === null)('the code in Python accepts genuine alerts alone', async () => {
  const check = `
import json, sys
print(json.dumps([is_genuine(h, b.encode(), ${JSON.stringify(SECRET)}, n) for h, b, n, _ in json.load(sys.stdin)]))`
  const python = Bun.spawn(['python3', '-c', `${codeOf('python verify')}${check}`], {
    stdio: [new Blob([JSON.stringify(cases())]), 'pipe', 'inherit'],
  })
  expect(JSON.parse(await python.stdout.text())).toEqual(cases().map(([, , , genuine]) => genuine))
})

test('the table has every type of alert, what its alerts are about, and whether it ends', () => {
  const { text } = pageOf('docs/alerts.md')
  const rows = [...text.matchAll(/^\| `([a-z_.]+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$/gm)]
  const documented = rows.map(([, type = '', ends = '', fields = '']) => [type, ends !== '–', fields] as const)
  expect(documented.map(([type, ends]) => [type, ends])).toEqual(
    Object.entries(ALERT_TYPES).map(([type, { ends }]) => [type, ends]),
  )
  for (const [type, , fields] of documented)
    for (const name of ALERT_TYPES[type as keyof typeof ALERT_TYPES].subject) expect(fields).toContain(`\`${name}\``)
  for (const [type, { severity }] of Object.entries(ALERT_TYPES)) {
    const sentence = text.split(/[;.]\s|\bseverity is\s/).find((part) => part.startsWith(`\`${severity}\` for`)) ?? ''
    expect(sentence.replaceAll(/\s+/g, ' ')).toContain(`\`${type}\``)
  }
})
