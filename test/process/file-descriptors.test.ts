import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Logger } from '../../src/logging/log.ts'
import { DescriptorLog } from '../../src/process/serving/descriptor-log.ts'
import { isCrowded } from '../../src/process/system/file-descriptors.ts'

const FILE = JSON.stringify(join(import.meta.dir, '../../src/process/system/file-descriptors.ts'))

test('it is crowded from 80 % of the limit on, also with none left, and it recovers', () => {
  const script = `
    import fs from 'node:fs'
    import { descriptorLimit, isCrowded } from ${FILE}
    const limit = descriptorLimit(), open = [], seen = []
    const fill = (to) => { for (;;) { const fd = fs.openSync('/dev/null'); open.push(fd); if (fd >= to) return } }
    fill(49); seen.push(isCrowded(limit))
    fill(52); seen.push(isCrowded(limit))
    try { fill(1e9) } catch {}
    seen.push(isCrowded(limit))
    // Low numbers that are free again say little about how many are taken.
    for (const fd of open.splice(0, 5)) fs.closeSync(fd)
    seen.push(isCrowded(limit))
    for (const fd of open) fs.closeSync(fd)
    seen.push(isCrowded(limit))
    console.log(JSON.stringify({ limit, seen }))`
  const { stdout, stderr } = Bun.spawnSync(['bash', '-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, script])
  expect(stderr.toString()).toBe('')
  expect(JSON.parse(stdout.toString())).toEqual({ limit: 64, seen: [false, true, true, true, false] })
})

test('without a known limit it is never crowded', () => {
  expect(isCrowded(undefined)).toBe(false)
})

test('a connection that fails for lack of descriptors is reported, though Bun calls it refused or not found', () => {
  const from = (path: string) => JSON.stringify(join(import.meta.dir, '../../src', path))
  const script = `
    import fs from 'node:fs'
    import { onDescriptorShortage } from ${from('transport/descriptor-shortage.ts')}
    import { HttpClient } from ${from('transport/client.ts')}
    import { HttpExchange } from ${from('transport/exchange.ts')}
    const client = new HttpClient()
    const reported = []
    onDescriptorShortage((code) => reported.push(code))
    using server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('') })
    const ask = () => new Promise((done) => {
      const handler = { head() {}, data() {}, end: () => done('answered'), fail: (error) => done(error.kind) }
      new HttpExchange(client).send({ url: 'http://127.0.0.1:' + server.port, headers: {}, body: '' }, handler)
    })
    const open = []
    try { for (;;) open.push(fs.openSync('/dev/null')) } catch {}
    const ended = [await ask()]
    for (const fd of open) fs.closeSync(fd)
    ended.push(await ask())
    server.stop(true)
    ended.push(await ask())
    console.log(JSON.stringify({ ended, reported }))
    process.exit()`
  const { stdout } = Bun.spawnSync(['bash', '-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, script])
  expect(JSON.parse(stdout.toString())).toEqual({
    ended: ['unreachable', 'answered', 'unreachable'],
    reported: ['EMFILE'],
  })
})

test('the lack of descriptors is logged at most once a minute for each event, and its end once', () => {
  const lines: unknown[] = []
  const add = (fields: object) => void lines.push(fields)
  const log = new DescriptorLog({ info: add, warn: add, error: add } as unknown as Logger, 1, 64)
  log.enough(12, -250)
  for (const nowMs of [0, 250, 59_999, 60_000]) log.low(52, nowMs)
  for (const nowMs of [10, 500]) log.exhausted('EMFILE', nowMs)
  for (const nowMs of [60_250, 119_999, 120_000, 120_250]) log.enough(13, nowMs)
  const low = { event: 'descriptors.low', worker: 1, open: 52, limit: 64 }
  const exhausted = { event: 'descriptors.exhausted', worker: 1, code: 'EMFILE', limit: 64 }
  // One line after a minute in which there were enough.
  expect(lines).toEqual([low, low, exhausted, { ...low, event: 'descriptors.recovered', open: 13 }])
})
