/** The stored values of a settlement, which the journal makes without a row, against those of its row. */

import { expect } from 'bun:test'
import { type Charge, settledRow, settledValues, storedValues } from '../../src/ledger/audit-columns.ts'
import { RowBatch } from '../../src/ledger/request-writer.ts'
import { property, type Random } from '../support/random.ts'

const TEXTS = ['', 'acme', 'größe', 'a "quoted" text', '\u2028\n', '\ud800', '模型'] as const
const KINDS = ['settled', 'late', 'direct'] as const

function chargeOf(random: Random): Charge {
  const amount = () => random.pick([0, 1, random.below(1e6), Number.MAX_SAFE_INTEGER])
  return {
    model: random.pick(TEXTS),
    provider: random.pick(TEXTS),
    inputTokens: amount(),
    cachedInputTokens: amount(),
    cacheWriteTokens: amount(),
    outputTokens: amount(),
    images: amount(),
    costMicroUsd: amount(),
    estimated: random.chance(0.5),
    outcome: random.pick(['completed', 'caller_left', 'refused']),
    tags: random.pick(['', 'project=a', 'project=a,team=b']),
    remote: random.pick(['', '192.0.2.1', '2001:db8::1']),
    node: random.pick(['', 'gateway-1']),
  }
}

property('batches of settlements have the text of their rows', 200, (random) => {
  const batch = new RowBatch()
  for (let round = 0; round < 3; round++) {
    const rows: unknown[] = []
    let lastMs = 0
    for (let n = random.below(120); n > 0; n--) {
      const admittedMs = 1_763_000_000_000 + random.below(1e9)
      const endedMs = admittedMs + random.below(1e5)
      const request = { id: `req_${n}`, organization: random.pick(TEXTS), key: random.pick(TEXTS), admittedMs }
      const [kind, charge, held] = [random.pick(KINDS), chargeOf(random), random.below(1e6)]
      const values = settledValues(request, kind, endedMs, charge, held)
      rows.push(storedValues(settledRow({ ...request, endedMs, kind }, charge, held)))
      batch.addValues(values, endedMs)
      lastMs = Math.max(lastMs, endedMs)
    }
    expect(batch.size).toBe(rows.length)
    expect(batch.read()).toEqual({ rows: JSON.stringify(rows), endedMs: lastMs })
    batch.clear()
  }
})
