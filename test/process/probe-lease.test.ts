/** Which worker may find out about a target, and what a worker does that gets no answer. */

import { describe, expect, test } from 'bun:test'
import { Breaker, type Rest } from '../../src/gateway/breaker.ts'
import { ProbeLeases } from '../../src/process/ipc/probe-lease.ts'

const A = { provider: 'p', model: 'a' }
const B = { provider: 'p', model: 'b' }
const rest = (restMs: number, more: Partial<Rest> = {}): Rest => ({
  ...A,
  restMs,
  rests: 1,
  asked: false,
  reason: 'failed',
  probing: false,
  ...more,
})

describe('the supervisor', () => {
  function make() {
    const clock = { ms: 0 }
    const health = new Breaker(() => clock.ms)
    const probes = new ProbeLeases(health)
    return { clock, probes, hear: (rest: Rest) => probes.hear(rest) }
  }

  test('grants the probe of a target to one worker, until that worker reports a result', () => {
    const { clock, probes, hear } = make()
    hear(rest(1000))
    hear(rest(0, { ...B }))
    expect([probes.grant(0, A), probes.grant(1, A)]).toEqual([false, false])
    clock.ms += 999
    expect([probes.grant(1, A), probes.grant(0, A), probes.grant(1, A)]).toEqual([true, false, true])
    // Targets do not know each other.
    expect(probes.grant(0, B)).toBe(true)
    hear(rest(5000, { probing: true }))
    clock.ms += 20_000
    expect(probes.grant(0, A)).toBe(false)
    hear(rest(0))
    expect(probes.grant(0, A)).toBe(true)
  })

  test('grants it to another worker if the first is gone', () => {
    const { probes, hear } = make()
    hear(rest(0))
    expect(probes.grant(0, A)).toBe(true)
    probes.gone(1)
    expect(probes.grant(1, A)).toBe(false)
    probes.gone(0)
    expect(probes.grant(1, A)).toBe(true)
  })

  test('always grants a healthy target', () => {
    const { probes, hear } = make()
    expect([probes.grant(0, A), probes.grant(1, A)]).toEqual([true, true])
    hear(rest(0))
    hear(rest(0, { rests: 0 }))
    expect([probes.grant(0, A), probes.grant(1, A)]).toEqual([true, true])
  })
})
