/** A request's reservation by itself: it keeps its lease, says how far it is, and is settled once. */

import { describe, expect, test } from 'bun:test'
import { Failure } from '../../src/core/error.ts'
import { ticker } from '../../src/core/ticker.ts'
import { Held } from '../../src/gateway/held.ts'
import type { Counted } from '../../src/gateway/tally.ts'
import { type Charged, Trace } from '../../src/gateway/trace.ts'
import type { Account, Amounts, Hold, Ledger, LedgerHealth, Reservation, Settlement } from '../../src/ledger/ledger.ts'

const SECOND = 1000
const account: Account = { organization: 'o', organizationLimits: {}, key: 'k', keyLimits: {} }
const price = { input: 1_000_000, output: 10_000_000 }

class Recorder implements Ledger {
  readonly holds: Hold[] = []
  readonly extensions: (readonly [soFar: Amounts, wanted: Amounts])[] = []
  readonly settlements: Settlement[] = []
  refusal: Failure | undefined

  async reserve(of: Account, hold: Hold): Promise<Reservation> {
    this.holds.push(hold)
    return { id: hold.id, account: of, held: hold.amounts, admittedMs: 0 }
  }

  async extend(_: Reservation, soFar: Amounts, wanted: Amounts): Promise<boolean> {
    this.extensions.push([soFar, wanted])
    if (this.refusal !== undefined) throw this.refusal
    return false
  }

  async settle(_: Reservation, actual: Settlement): Promise<'settled'> {
    this.settlements.push(actual)
    return 'settled'
  }

  health(): LedgerHealth {
    return { ready: true, pending: 0 }
  }

  async close(): Promise<void> {}
}

function open(ledger: Ledger, progress: () => Counted | undefined, maxOutputTokens?: number): Promise<Held> {
  const quote = { model: 'm', inputTokens: 100, maxOutputTokens, price }
  return Held.open(ledger, account, quote, new Trace('req_1', () => {}), progress)
}

function counted(output: number): Counted {
  return { usage: { input: 100, output }, estimated: true }
}

const amounts = (inputTokens: number, outputTokens: number): Amounts => ({
  inputTokens,
  outputTokens,
  costMicroUsd: inputTokens + 10 * outputTokens,
})

describe('what is held', () => {
  test.each([
    [undefined, 4096],
    [10_000, 4096],
    [50, 50],
  ])('an output limit of %p: the input, and %p of output', async (limit, output) => {
    const ledger = new Recorder()
    await using _ = await open(ledger, () => undefined, limit)
    expect(ledger.holds).toEqual([{ id: 'req_1', amounts: amounts(100, output), floorMicroUsd: 100, model: 'm' }])
  })

  test('it grows by a slice beyond what is written, every 10 s, from the moment it was taken', async () => {
    const ledger = new Recorder()
    let progress: Counted | undefined
    await using held = await open(ledger, () => progress, 6000)
    const startMs = performance.now()
    held.tick(startMs + 9 * SECOND)
    expect(ledger.extensions).toEqual([])
    // Before a provider was asked: nothing is used, and the lease moves all the same.
    held.tick(startMs + 10 * SECOND)
    expect(ledger.extensions).toEqual([[amounts(0, 0), amounts(100, 4096)]])
    progress = counted(1000)
    held.tick(startMs + 15 * SECOND)
    expect(ledger.extensions.length).toBe(1)
    held.tick(startMs + 20.1 * SECOND)
    progress = counted(3000)
    held.tick(startMs + 30.2 * SECOND)
    expect(ledger.extensions.slice(1)).toEqual([
      [amounts(100, 1000), amounts(100, 5096)],
      [amounts(100, 3000), amounts(100, 6000)],
    ])
  })

  test('the process’s ticker keeps the lease by itself, and lets go when it is settled', async () => {
    const ledger = new Recorder()
    const held = await open(ledger, () => undefined)
    let ticks = 0
    const tick = held.tick.bind(held)
    held.tick = (nowMs) => {
      ticks++
      tick(nowMs)
    }
    await ticker.within(
      1000,
      until(() => ticks > 1),
      () => new Error('nobody keeps the lease'),
    )
    await held.settle('completed', undefined)
    const before = ticks
    await Bun.sleep(150)
    expect(ticks).toBe(before)
  })

  test.each([
    ['dearer: the difference is asked for, and refused', 20, 5000, false, 1],
    ['longer, as dear: the same', 1, 8000, false, 1],
    // Limits on tokens know no prices.
    ['longer, though cheaper: the same', 0.1, 8000, false, 1],
    ['cheaper: nobody is asked', 0.5, 2000, true, 0],
  ])('another candidate that is %s', async (_, times, maxOutputTokens, affordable, asked) => {
    const ledger = new Recorder()
    await using held = await open(ledger, () => undefined, 2000)
    const other = { input: price.input * times, output: price.output * times }
    expect(await held.requote({ model: 'm', inputTokens: 100, maxOutputTokens, price: other })).toBe(affordable)
    expect(ledger.extensions.length).toBe(asked)
    // From then on it grows at the price of whoever is asked, or as before where that one is not.
    held.tick(performance.now() + 10 * SECOND)
    const grown = ledger.extensions.at(-1)?.[1]
    expect(grown).toEqual(affordable ? { ...amounts(100, 2000), costMicroUsd: 10_050 } : amounts(100, 2000))
  })

  test('another candidate is not asked where the ledger cannot be', async () => {
    const ledger = new Recorder()
    await using held = await open(ledger, () => undefined, 2000)
    ledger.refusal = new Failure('ledger_unavailable', 'gone')
    expect(await held.requote({ model: 'm', inputTokens: 100, maxOutputTokens: 9000, price })).toBe(false)
  })

  test('a ledger that cannot be asked for an extension ends nothing', async () => {
    const ledger = new Recorder()
    ledger.refusal = new Failure('ledger_unavailable', 'x')
    const held = await open(ledger, () => counted(1))
    held.tick(performance.now() + 11 * SECOND)
    await Bun.sleep(0)
    await held.settle('completed', undefined)
    expect([ledger.extensions.length, ledger.settlements.length]).toEqual([1, 1])
  })
})

describe('it is settled', () => {
  const bill = {
    model: 'm',
    provider: 'p',
    price,
    counted: { usage: { input: 100, cachedInput: 40, output: 7 }, estimated: false },
  }

  test('with what was used, once', async () => {
    const ledger = new Recorder()
    {
      await using held = await open(ledger, () => undefined)
      await held.settle('completed', bill)
      await held.settle('caller_left', undefined)
    }
    expect(ledger.settlements).toEqual([
      {
        amounts: expect.objectContaining(amounts(100, 7)),
        ...{ cachedInputTokens: 40, images: 0, estimated: false, outcome: 'completed', model: 'm', provider: 'p' },
      },
    ])
  })

  test('with nothing where it is only let go, and not at all where it was handed over', async () => {
    const ledger = new Recorder()
    {
      await using _ = await open(ledger, () => undefined)
    }
    expect(ledger.settlements).toMatchObject([{ amounts: amounts(0, 0), outcome: 'refused' }])
    const held = await open(ledger, () => undefined)
    {
      await using taken = held
      taken.handOver()
    }
    expect(ledger.settlements.length).toBe(1)
    await held.settle('completed', bill)
    expect(ledger.settlements.length).toBe(2)
  })

  test('and its log line says the same', async () => {
    const charges: Charged[] = []
    const trace = new Trace('req_1', () => {})
    trace.charge = (charged) => charges.push(charged)
    const held = await Held.open(
      new Recorder(),
      account,
      { model: 'm', inputTokens: 100, maxOutputTokens: 1, price },
      trace,
      () => undefined,
    )
    await held.settle('completed', bill)
    expect(charges).toEqual([{ ...amounts(100, 7), cachedInputTokens: 40, estimated: false }])
  })
})

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(5)
}
