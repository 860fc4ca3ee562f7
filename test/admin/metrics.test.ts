/** The figures as Prometheus reads them. */

import { expect, test } from 'bun:test'
import type { Figures } from '../../src/admin/metrics.ts'
import type { Rest } from '../../src/gateway/breaker.ts'
import { adminPort } from '../support/admin.ts'

const A = { provider: 'up', model: 'a' }
const B = { provider: 'up', model: 'ft:"b"\\1' }
const rest: Rest = { ...A, restMs: 2500, rests: 2, asked: false, reason: 'failed', probing: false }

/** Every sample by its name and labels. */
function samples(text: string): Readonly<Record<string, number>> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

test('each target shows whether it is skipped, and how long; earlier targets have no series', async () => {
  let figures: Figures = {
    targets: [
      { target: A, rest },
      { target: B, rest: undefined },
    ],
    workers: { configured: 2, ready: 1 },
    ledgerUp: true,
    freeBytes: 5_000_000_000,
  }
  const admin = adminPort({ supervision: { figures: () => figures } })
  const scrape = async () => await admin.ask('/metrics')
  const answer = await scrape()
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8'])
  const [a, b] = ['provider="up",model="a"', 'provider="up",model="ft:\\"b\\"\\\\1"']
  const text = await answer.text()
  expect(text).toMatch(/^# HELP weir_target_resting .+\n# TYPE weir_target_resting gauge$/m)
  expect(samples(text)).toEqual({
    [`weir_target_resting{${a}}`]: 1,
    [`weir_target_resting{${b}}`]: 0,
    [`weir_target_rest_seconds{${a}}`]: 2.5,
    [`weir_target_rest_seconds{${b}}`]: 0,
    [`weir_target_rests{${a}}`]: 2,
    [`weir_target_rests{${b}}`]: 0,
    weir_workers: 2,
    weir_workers_ready: 1,
    weir_ledger_up: 1,
    weir_ledger_fields: 0,
    weir_data_dir_free_bytes: 5_000_000_000,
  })
  figures = {
    ...figures,
    targets: [{ target: A, rest: { ...rest, probing: true } }],
    ledgerUp: false,
    ledgerFields: 1234,
    freeBytes: undefined,
  }
  expect(samples(await (await scrape()).text())).toMatchObject({
    [`weir_target_resting{${a}}`]: 1,
    [`weir_target_rest_seconds{${a}}`]: 0,
    weir_ledger_up: 0,
    weir_ledger_fields: 1234,
    weir_data_dir_free_bytes: Number.NaN,
  })
  expect(await (await scrape()).text()).not.toContain('ft:')
})
