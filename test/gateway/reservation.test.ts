/** A request's reservation by itself: it renews its lease, reports the usage, and is settled once. */

import { afterEach, describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { type Later, laterOf } from '../../src/core/later.ts'
import { RequestLog } from '../../src/gateway/access-log.ts'
import { RequestReservation } from '../../src/gateway/reservation.ts'
import type { Counted } from '../../src/gateway/usage-meter.ts'
import {
  type Account,
  type Charge,
  type Estimate,
  type Ledger,
  noCharge,
  type Reservation,
} from '../../src/ledger/ledger.ts'
import { RecordingLedger } from '../support/ledger.ts'

const SECOND = 1000
const account: Account = { organization: 'o', organizationLimits: {}, key: 'k', keyLimits: {} }
const price = { input: 1_000_000, output: 10_000_000 }

class Recorder extends RecordingLedger {
  readonly extensions: (readonly [soFar: Estimate, wanted: Estimate])[] = []
  refusal: CallerError | undefined
  grants: () => boolean = () => false

  override extend(_: Reservation, soFar: Estimate, wanted: Estimate): Later<boolean> {
    return laterOf(
      (async () => {
        this.extensions.push([soFar, wanted])
        if (this.refusal !== undefined) throw this.refusal
        return this.grants()
      })(),
    )
  }
}

const opened: RequestReservation[] = []

afterEach(async () => {
  for (const reservation of opened.splice(0)) await reservation.settle('refused', undefined)
})

/** `used`: the usage of the call that it follows; absent if no provider was called. */
async function open(
  ledger: Ledger,
  used?: () => Counted,
  maxOutputTokens?: number,
  of: Account = account,
): Promise<RequestReservation> {
  const quote = { model: 'm', inputTokens: 100, maxOutputTokens, price }
  const reservation = await RequestReservation.open(ledger, of, quote, new RequestLog('req_1', { write() {} }))
  opened.push(reservation)
  if (used !== undefined) reservation.follow({ used })
  return reservation
}

function counted(output: number): Counted {
  return { usage: { input: 100, output }, estimated: true }
}

const amounts = (inputTokens: number, outputTokens: number): Estimate => ({
  inputTokens,
  outputTokens,
  costMicroUsd: inputTokens + 10 * outputTokens,
})

describe('what is reserved', () => {
  test.each([
    [undefined, 4096],
    [10_000, 4096],
    [50, 50],
  ])('an output limit of %p: the input, and %p of output', async (limit, output) => {
    const ledger = new Recorder()
    await open(ledger, undefined, limit)
    expect(ledger.holds).toEqual([
      { id: 'req_1', estimate: amounts(100, output), floorMicroUsd: 100, model: 'm', turn: 0 },
    ])
  })

  test('it grows by a slice beyond what is written, every 10 s, from its beginning', async () => {
    const ledger = new Recorder()
    let output = 1000
    const reservation = await open(ledger, undefined, 6000)
    const startMs = performance.now()
    reservation.tick(startMs + 9 * SECOND)
    expect(ledger.extensions).toEqual([])
    // Before a provider was called nothing is used, and the lease is renewed all the same.
    reservation.tick(startMs + 10 * SECOND)
    expect(ledger.extensions).toEqual([[amounts(0, 0), amounts(100, 4096)]])
    reservation.follow({ used: () => counted(output) })
    reservation.tick(startMs + 15 * SECOND)
    expect(ledger.extensions.length).toBe(1)
    reservation.tick(startMs + 20.1 * SECOND)
    output = 3000
    reservation.tick(startMs + 30.2 * SECOND)
    expect(ledger.extensions.slice(1)).toEqual([
      [amounts(100, 1000), amounts(100, 5096)],
      [amounts(100, 3000), amounts(100, 6000)],
    ])
  })

  test('it grows when the output comes near it, one extension at a time, larger ones for a faster stream', async () => {
    const ledger = new Recorder()
    ledger.grants = () => true
    let output = 0
    const reservation = await open(ledger, () => counted(output))
    const write = (tokens: number) => {
      output = tokens
      return reservation.written(tokens)
    }
    expect([write(3071), ledger.extensions.length]).toEqual([undefined, 0])
    // No wait: a thousand of the reserved tokens are left. No second extension runs meanwhile.
    expect([write(3072), write(3500), write(9000)]).toEqual([undefined, undefined, undefined])
    expect(ledger.extensions).toEqual([[amounts(100, 3072), amounts(100, 3072 + 8192)]])
    await Bun.sleep(0)
    expect([write(10_239), write(10_240)]).toEqual([undefined, undefined])
    await Bun.sleep(0)
    for (const tokens of [25_600, 57_400, 122_000, 187_000]) {
      write(tokens)
      await Bun.sleep(0)
    }
    const ahead = ledger.extensions.map(([soFar, wanted]) => wanted.outputTokens - soFar.outputTokens)
    expect(ahead).toEqual([8192, 16_384, 32_768, 65_536, 65_536, 65_536])
  })

  test('a refused extension is retried in smaller pieces; a stream that goes on tries at the next tick', async () => {
    const ledger = new Recorder()
    const reservation = await open(ledger, () => counted(3072))
    reservation.written(3072)
    for (let i = 0; i < 10; i++) await Bun.sleep(0)
    const ahead = ledger.extensions.map(([, wanted]) => wanted.outputTokens - 3072)
    expect(ahead).toEqual([8192, 4096, 1024])
    expect([reservation.written(9000), reservation.written(90_000), ledger.extensions.length]).toEqual([
      undefined,
      undefined,
      3,
    ])
    ledger.grants = () => true
    reservation.tick(performance.now() + 10 * SECOND)
    await Bun.sleep(0)
    reservation.written(90_000)
    expect(ledger.extensions.length).toBe(5)
  })

  test('a stream to be cut uses up its reservation, waits for more, and is cut if that is refused', async () => {
    const ledger = new Recorder()
    let output = 3072
    const limits = { spend: { day: 1, strict: false, onExhausted: 'cut' } } as const
    const reservation = await open(ledger, () => counted(output), undefined, { ...account, keyLimits: limits })
    let cuts = 0
    reservation.guard({ interrupt: () => void cuts++ }, { isRevoked: () => false })
    reservation.written(output)
    for (let i = 0; i < 10; i++) await Bun.sleep(0)
    // It also goes on at a tick while some of the reservation is left.
    reservation.tick(performance.now() + 10 * SECOND)
    await Bun.sleep(0)
    output = 4095
    expect([reservation.written(output), cuts, reservation.cutFor]).toEqual([undefined, 0, undefined])
    output = 4096
    await reservation.written(output)
    expect([cuts, reservation.cutFor]).toEqual([1, 'insufficient_quota'])
  })

  test('a ledger that was unavailable is called again a slice later, without a wait', async () => {
    const ledger = new Recorder()
    let output = 3072
    const limits = { spend: { day: 1, strict: false, onExhausted: 'cut' } } as const
    const reservation = await open(ledger, () => counted(output), undefined, { ...account, keyLimits: limits })
    let cuts = 0
    reservation.guard({ interrupt: () => void cuts++ }, { isRevoked: () => false })
    ledger.refusal = new CallerError('ledger_unavailable', 'gone')
    reservation.written(output)
    await Bun.sleep(0)
    output = 3072 + 8191
    expect([reservation.written(output), ledger.extensions.length]).toEqual([undefined, 1])
    ledger.refusal = undefined
    ledger.grants = () => true
    output += 1
    await reservation.written(output)
    expect([ledger.extensions.length, cuts]).toEqual([2, 0])
  })

  test('output beyond the provider’s limit is reserved if the stream is to be cut', async () => {
    const limits = { spend: { day: 1, strict: true, onExhausted: 'cut' } } as const
    for (const [onExhausted, asked] of [
      ['cut', 1],
      ['finish', 0],
    ] as const) {
      const ledger = new Recorder()
      ledger.grants = () => true
      const of = { ...account, keyLimits: { spend: { ...limits.spend, onExhausted } } }
      const reservation = await open(ledger, () => counted(500), 500, of)
      expect([reservation.written(499), ledger.extensions.length]).toEqual([undefined, 0])
      await reservation.written(500)
      expect(ledger.extensions.length).toBe(asked)
      if (asked > 0) expect(ledger.extensions[0]?.[1]).toEqual(amounts(100, 1524))
    }
  })

  test('a stream beyond its limit does not ask for more with each event', async () => {
    const ledger = new Recorder()
    ledger.grants = () => true
    let output = 600
    const reservation = await open(ledger, () => counted(output), 500)
    reservation.tick(performance.now() + 10 * SECOND)
    await Bun.sleep(0)
    for (; output < 600 + 2048; output++) {
      reservation.written(output)
      await Bun.sleep(0)
    }
    expect(ledger.extensions.map(([soFar]) => soFar.outputTokens)).toEqual([600, 1112, 1624, 2136])
  })

  test('an answer that is not visible before it is complete grows by a slice a tick, up to its limit', async () => {
    const ledger = new Recorder()
    ledger.grants = () => true
    const reservation = await open(ledger, undefined, 10_000)
    const startMs = performance.now()
    reservation.tick(startMs + 10 * SECOND)
    reservation.follow({ used: () => counted(0) })
    for (const seconds of [20.1, 30.2, 40.3]) reservation.tick(startMs + seconds * SECOND)
    expect(ledger.extensions.map(([, wanted]) => wanted.outputTokens)).toEqual([4096, 8192, 10_000, 10_000])
    // Another candidate starts over.
    await reservation.requote({ model: 'n', inputTokens: 100, maxOutputTokens: 9000, price })
    reservation.tick(startMs + 50.4 * SECOND)
    expect(ledger.extensions.at(-1)?.[1].outputTokens).toBe(8192)
  })

  test('the ticker of the process renews the lease until it is settled', async () => {
    const ledger = new Recorder()
    const reservation = await open(ledger)
    let ticks = 0
    const tick = reservation.tick.bind(reservation)
    reservation.tick = (nowMs) => {
      ticks++
      tick(nowMs)
    }
    await until(() => ticks > 1)
    await reservation.settle('completed', undefined)
    const before = ticks
    await Bun.sleep(150)
    expect(ticks).toBe(before)
  })

  test.each([
    ['dearer: the difference is requested, and refused', 20, 5000, false, 1],
    ['longer, as dear: the same', 1, 8000, false, 1],
    // Token limits do not depend on prices.
    ['longer, though cheaper: the same', 0.1, 8000, false, 1],
    ['cheaper: the ledger is not called', 0.5, 2000, true, 0],
  ])('another candidate that is %s', async (_, times, maxOutputTokens, affordable, asked) => {
    const ledger = new Recorder()
    const reservation = await open(ledger, undefined, 2000)
    const other = { input: price.input * times, output: price.output * times }
    expect(await reservation.requote({ model: 'm', inputTokens: 100, maxOutputTokens, price: other })).toBe(affordable)
    expect(ledger.extensions.length).toBe(asked)
    // From then on it grows at the price of the candidate that is called: the old one if the new one is too dear.
    reservation.tick(performance.now() + 10 * SECOND)
    const grown = ledger.extensions.at(-1)?.[1]
    expect(grown).toEqual(affordable ? { ...amounts(100, 2000), costMicroUsd: 10_050 } : amounts(100, 2000))
  })

  test('another candidate is not called if the ledger is unavailable', async () => {
    const ledger = new Recorder()
    const reservation = await open(ledger, undefined, 2000)
    ledger.refusal = new CallerError('ledger_unavailable', 'gone')
    expect(await reservation.requote({ model: 'm', inputTokens: 100, maxOutputTokens: 9000, price })).toBe(false)
  })

  test('a ledger that is unavailable for an extension ends nothing', async () => {
    const ledger = new Recorder()
    ledger.refusal = new CallerError('ledger_unavailable', 'x')
    const reservation = await open(ledger, () => counted(1))
    reservation.tick(performance.now() + 11 * SECOND)
    await Bun.sleep(0)
    await reservation.settle('completed', undefined)
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

  test('with the usage, once', async () => {
    const ledger = new Recorder()
    {
      const reservation = await open(ledger)
      await reservation.settle('completed', bill)
      await reservation.settle('caller_left', undefined)
    }
    expect(ledger.settlements).toEqual([
      {
        ...{
          ...noCharge('completed', '', 'unknown'),
          ...amounts(100, 7),
          cachedInputTokens: 40,
          model: 'm',
          provider: 'p',
        },
      },
    ])
  })

  test('in the background once, and an error of the ledger is reported', async () => {
    const ledger = new Recorder()
    const errors: unknown[] = []
    const reporter = { report: (error: unknown) => errors.push(error) }
    const reservation = await open(ledger)
    reservation.settleInBackground('refused', undefined, reporter)
    reservation.settleInBackground('completed', bill, reporter)
    expect(ledger.settlements).toMatchObject([{ ...amounts(0, 0), outcome: 'refused' }])
    const broken = await open(ledger)
    ledger.settle = () => laterOf(Promise.reject(new RangeError('a bug')))
    broken.settleInBackground('completed', bill, reporter)
    await Bun.sleep(0)
    expect(errors).toEqual([expect.any(RangeError)])
  })

  test('and its log line shows the same', async () => {
    const charges: Charge[] = []
    const log = new RequestLog('req_1', { write() {} })
    log.charge = (charged) => charges.push(charged)
    const reservation = await RequestReservation.open(
      new Recorder(),
      account,
      { model: 'm', inputTokens: 100, maxOutputTokens: 1, price },
      log,
    )
    await reservation.settle('completed', bill)
    expect(charges).toMatchObject([{ ...amounts(100, 7), cachedInputTokens: 40, estimated: false }])
  })
})

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(5)
}
