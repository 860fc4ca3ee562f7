import { expect, test } from 'bun:test'
import { tmpdir } from 'node:os'
import type { Logger } from '../../src/logging/log.ts'
import { DiskWatch, spaceOf } from '../../src/process/watchers/disk-watch.ts'

function watched() {
  const lines: (readonly [string, unknown, unknown])[] = []
  const at = (level: string) => (fields: { event?: unknown; free_percent?: unknown }) =>
    void lines.push([level, fields.event, fields.free_percent])
  const logger = { info: at('info'), warn: at('warn') } as unknown as Logger
  let free: number | undefined
  const watch = new DiskWatch('/data', logger, () =>
    free === undefined ? undefined : { freeBytes: free, totalBytes: 1000 },
  )
  const look = (next: number | undefined) => {
    free = next
    watch.look()
    return lines.splice(0)
  }
  return look
}

test('a disk that becomes nearly full is logged once, and once when it has space again', () => {
  const look = watched()
  expect(look(500)).toEqual([])
  expect(look(100)).toEqual([])
  expect(look(99)).toEqual([['warn', 'disk.low', 9.9]])
  expect(look(50)).toEqual([])
  expect(look(110)).toEqual([])
  expect(look(99)).toEqual([])
  expect(look(130)).toEqual([['info', 'disk.recovered', 13]])
  expect(look(0)).toEqual([['warn', 'disk.low', 0]])
})

test('a disk that cannot be read is not logged', () => {
  expect(watched()(undefined)).toEqual([])
  expect(spaceOf('/no/such/folder')).toBeUndefined()
})

test('the space of a disk is read in bytes', () => {
  const space = spaceOf(tmpdir())
  expect(space?.freeBytes).toBeGreaterThan(0)
  expect(space?.totalBytes).toBeGreaterThanOrEqual(space?.freeBytes ?? 0)
})
