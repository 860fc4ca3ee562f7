/** The table of keys in memory, compared with a map of objects. */

import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import type { KeyRecord } from '../../src/keys/key-record.ts'
import { KeyTable } from '../../src/keys/key-table.ts'
import { property, type Random } from '../support/random.ts'

const STEPS = 600
/** Few ids, so that keys are put, changed and deleted repeatedly. */
const IDS = 40
const DAY_MS = 86_400_000

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

function drawn(random: Random, id: string): { readonly token: string; readonly record: KeyRecord } {
  const token = `token-${random.below(1000)}-${id}`
  const maybe = <T>(value: T) => (random.chance(0.3) ? value : undefined)
  const record: KeyRecord = {
    id,
    organization: random.pick(['acme', 'Ünïcode', 'other']),
    sha256: digestOf(token).toString('hex'),
    shown: token.slice(0, 12),
    models: maybe(random.list(random.chance(0.02) ? 3000 : 3, () => 'gpt-*')),
    createdMs: 1,
    expiresAtMs: maybe(random.between(1, 100) * DAY_MS),
    revokedMs: maybe(random.between(1, 100) * DAY_MS),
    previous: maybe({ sha256: digestOf(`previous-${token}`).toString('hex'), untilMs: random.below(1000) }),
    limits: maybe({ requestsPerMinute: random.below(1000) }),
    tags: maybe({ team: random.pick(['a', 'b']) }),
  }
  return { token, record }
}

property('a table of keys behaves like a map of objects', 25, (random) => {
  const table = new KeyTable()
  const model = new Map<string, { readonly token: string; readonly record: KeyRecord }>()
  let read = new Set<string>()
  const endOfRecord = ({ revokedMs, expiresAtMs }: KeyRecord) =>
    Math.min(...[revokedMs, expiresAtMs].map((ms) => ms ?? Number.MAX_VALUE))
  for (let step = 0; step < STEPS; step++) {
    const id = `key-${random.below(IDS)}`
    const action = random.below(20)
    if (action === 0) {
      table.beginReading()
      read = new Set()
    } else if (action < 5) {
      table.delete(id)
      model.delete(id)
      read.delete(id)
    } else {
      const same = model.get(id)
      const entry = same !== undefined && random.chance(0.2) ? same : drawn(random, id)
      table.put(entry.record)
      model.set(id, entry)
      read.add(id)
    }
    expect([table.size, table.sizeRead]).toEqual([model.size, read.size])
    expect(table.get(id)).toEqual(model.get(id)?.record)
  }
  for (const [id, { token, record }] of model) {
    expect(table.get(id)).toEqual(record)
    expect(table.find(digestOf(token))).toEqual(record.revokedMs === undefined ? record : undefined)
    const isRotated = record.previous !== undefined && record.revokedMs === undefined
    expect(table.findPrevious(digestOf(`previous-${token}`))).toEqual(isRotated ? record : undefined)
  }
  expect([...table.unread()].sort()).toEqual([...model.keys()].filter((id) => !read.has(id)).sort())
  const over = [...model.values()].filter(({ record }) => endOfRecord(record) <= 50 * DAY_MS)
  expect([...table.endedBy(50 * DAY_MS, IDS)].sort()).toEqual(over.map(({ record }) => record.id).sort())
  expect(table.find(digestOf('unknown'))).toBeUndefined()
  expect(table.find(new Uint8Array(3))).toBeUndefined()
})

property('a recently used key is the same object until it changes', 20, (random) => {
  const table = new KeyTable()
  const { token, record } = drawn(random, 'one')
  const active = { ...record, revokedMs: undefined }
  table.put(active)
  const first = table.find(digestOf(token))
  table.put({ ...active })
  expect(table.find(digestOf(token)) === first).toBe(true)
  table.put({ ...active, createdMs: 2 })
  expect(table.find(digestOf(token))?.createdMs).toBe(2)
})

// The hashes of the second case differ only in their last bytes.
test.each([
  ['hashes', (i: number) => digestOf(`token ${i}`).toString('hex')],
  ['numbers', (i: number) => i.toString(16).padStart(64, '0')],
])('each of 50,000 keys is found, and no other: %s', (_, hashOf) => {
  const table = new KeyTable()
  const records = Array.from({ length: 50_000 }, (_, i): KeyRecord => {
    const sha256 = hashOf(i)
    return { id: `key-${i}`, organization: 'acme', sha256, shown: 'gwk_x', createdMs: i }
  })
  for (const [i, record] of records.entries()) {
    table.put(record)
    if (i === 20_000) table.expect(40_000)
  }
  for (const { id } of records.filter((_, i) => i % 3 === 0)) table.delete(id)
  const found = records.filter(({ sha256 }) => table.find(Buffer.from(sha256, 'hex')) !== undefined)
  expect(table.size).toBe(33_333)
  expect(found.map(({ createdMs }) => createdMs)).toEqual(records.flatMap((_, i) => (i % 3 === 0 ? [] : [i])))
})
