import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type HistoryPoint, readHistory, writeHistory } from '../../src/admin/history-file.ts'

let folder: string

beforeAll(async () => {
  folder = await fs.mkdtemp(join(tmpdir(), 'weir-history-'))
})

afterAll(() => fs.rm(folder, { recursive: true }))

const NOW = Date.parse('2026-11-22T12:00:00Z')

function point(minutesAgo: number, more: object = {}): HistoryPoint {
  return {
    at: new Date(NOW - minutesAgo * 60_000).toISOString(),
    requests_per_second: 2.5,
    open_streams: 1,
    in_flight: 2,
    error_share: null,
    limited_share: 0.1,
    time_to_first_token_p50_ms: 120,
    time_to_first_token_p95_ms: null,
    tokens_per_second: 900,
    cost_micro_usd_per_second: 40,
    ...more,
  }
}

describe('the history in data_dir', () => {
  test('is empty before the first start', () => {
    expect(readHistory(join(folder, 'nowhere'), NOW)).toEqual([])
  })

  test('has the points of the last hour, and leaves no other file', async () => {
    const points = [point(61), point(59), point(1)]
    writeHistory(folder, points)
    expect(readHistory(folder, NOW)).toEqual(points.slice(1))
    expect(await fs.readdir(folder)).toEqual(['history.json'])
    expect((await fs.stat(join(folder, 'history.json'))).mode & 0o777).toBe(0o600)
  })

  test('skips points that it does not understand or that are in the future', async () => {
    const good = point(5)
    const bad = [point(4, { in_flight: null }), point(3, { at: 'then' }), point(-1), 7, null, {}]
    await fs.writeFile(join(folder, 'history.json'), JSON.stringify([good, ...bad]))
    expect(readHistory(folder, NOW)).toEqual([good])
  })

  test.each(['', '{"points":[]}', '[{"at":', '7'])('is empty if the file has %p', async (text) => {
    await fs.writeFile(join(folder, 'history.json'), text)
    expect(readHistory(folder, NOW)).toEqual([])
  })

  test('is not kept if the folder is gone, and nothing throws', () => {
    expect(() => writeHistory(join(folder, 'nowhere'), [point(1)])).not.toThrow()
  })
})
