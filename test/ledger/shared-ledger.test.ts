/** The embedded ledger that workers share: what its owner's death, absence and return mean for their calls. */

import { expect, test } from 'bun:test'
import type { Subprocess } from 'bun'
import { openAccountUsageReader, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import { OwnerLink } from '../../src/ledger/embedded/socket/owner-link.ts'
import type { FromOwner } from '../../src/ledger/embedded/socket/owner-messages.ts'
import { SharedLedger } from '../../src/ledger/embedded/socket/shared-ledger.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { groupUsage } from '../../src/ledger/usage-log.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { failureOf, until } from './seen.ts'

const { open, directory } = opened()

const NO_ANSWERS: FromOwner = {
  welcome: () => {},
  granted: () => {},
  notGranted: () => {},
  extended: () => {},
  health: () => {},
  failed: () => {},
  written: () => {},
  takesRemotes: () => {},
}

/** The process that owns the ledger, as the supervisor starts it again after its death. */
class Owner {
  private child: Subprocess<'ignore', 'pipe', 'inherit'> | undefined

  constructor(readonly place: string) {
    open.push({ close: () => this.kill() })
  }

  async start(takeover = false): Promise<void> {
    const words = [process.execPath, `${import.meta.dir}/owner-child.ts`, this.place, takeover ? 'takeover' : 'first']
    this.child = Bun.spawn(words, { stdio: ['ignore', 'pipe', 'inherit'] })
    await this.child.stdout.getReader().read()
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.child?.kill(name)
  }

  async kill(): Promise<void> {
    this.child?.kill('SIGKILL')
    await this.child?.exited
  }
}

async function started(): Promise<{ readonly owner: Owner; readonly worker: () => Promise<SharedLedger> }> {
  const owner = new Owner(directory())
  await owner.start()
  const worker = async () => {
    const ledger = await SharedLedger.open(owner.place)
    open.unshift(ledger)
    return ledger
  }
  return { owner, worker }
}

const placeOf = ({ place }: Owner) =>
  ({ ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: place }) as const

async function reading(owner: Owner, account: Account) {
  const reader = await openAccountUsageReader(placeOf(owner))
  const usage = await reader.read(account)
  await reader.close()
  return usage
}

async function standing(owner: Owner, account: Account) {
  return (await reading(owner, account)).organization
}

async function usage(owner: Owner, account: Account) {
  const log = await openUsageLog(placeOf(owner))
  const rows = await log.read({ sinceDay: 0, untilDay: 1_000_000 })
  await log.close()
  return groupUsage(rows, ['organization']).find(({ names }) => names[0] === account.organization)?.figures
}

test('a reservation outlives its owner, and so does a settlement that no owner has taken yet', async () => {
  const { owner, worker } = await started()
  const ledger = await worker()
  const account = accountOf(spend({ total: 1000 }))
  const [first, second] = [await ledger.reserve(account, holdOf(100)), await ledger.reserve(account, holdOf(100))]
  await owner.kill()
  const settled = ledger.settle(first, chargeOf(70))
  await owner.start(true)
  expect(await settled).toBe('settled')
  expect(
    await ledger.extend(second, { inputTokens: 10, outputTokens: 0, costMicroUsd: 20 }, holdOf(150).estimate),
  ).toBe(true)
  expect(await ledger.settle(second, chargeOf(130))).toBe('settled')
  await ledger.close()
  expect((await standing(owner, account)).total).toEqual({ window: 0, spent: 200, held: 0, refused: 0 })
})

test('a request that went on to another candidate is one reservation, also for the next owner', async () => {
  const { owner, worker } = await started()
  const ledger = await worker()
  const account = accountOf(spend({ total: 1000 }))
  const counted = { ...account, budgets: [{ name: 'b', value: '', limits: spend({ total: 150 }) }] }
  const hold = holdOf(100)
  const first = await ledger.reserve(account, hold)
  const second = await ledger.reserve(counted, { ...hold, turn: 1 }, first)
  const third = ledger.reserve(counted, { ...hold, estimate: holdOf(160).estimate, turn: 2 }, second)
  expect(await failureOf(third)).toBe('quota_exhausted')
  // The turn may be in no file yet, and the next owner then gets it from its worker.
  await owner.kill()
  await owner.start(true)
  await ledger.reserve(account, holdOf(850)).then((other) => ledger.settle(other, chargeOf(0)))
  // A reader sees what is in the file.
  let before = await reading(owner, counted)
  await until(async () => {
    before = await reading(owner, counted)
    return before.organization.live === 1
  })
  expect(before.organization).toMatchObject({ live: 1, total: { spent: 0, held: 100 } })
  expect(before.budgets?.[0]?.usage).toMatchObject({ live: 1, total: { spent: 0, held: 100 } })
  ledger.settle(second, chargeOf(90))
  await ledger.close()
  const { organization, budgets } = await reading(owner, counted)
  expect(organization).toMatchObject({ live: 0, total: { spent: 90, held: 0 } })
  expect(budgets?.[0]?.usage).toMatchObject({ live: 0, total: { spent: 90, held: 0 } })
})

test('while the owner is away a reservation waits; after 2 s it is refused, and then holds nothing', async () => {
  const { owner, worker } = await started()
  const ledger = await worker()
  const account = accountOf(spend({ total: 100 }))
  await owner.kill()
  const early = ledger.reserve(account, holdOf(60))
  await owner.start(true)
  const reservation = await early
  await owner.kill()
  const refused = await Promise.resolve(ledger.reserve(account, holdOf(40))).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(CallerError)
  expect(refused).toMatchObject({ kind: 'ledger_unavailable' })
  expect(ledger.health()).toMatchObject({ ready: false, up: false })
  await owner.start(true)
  // The whole budget is free again, so the refused one holds nothing.
  expect(await ledger.settle(reservation, chargeOf(0))).toBe('settled')
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(100))
  await ledger.close()
  expect(await standing(owner, account)).toMatchObject({ live: 0, total: { spent: 100, held: 0 } })
})

/** Undefined if the owner was away for longer than a call waits: a busy machine may need that long to start one. */
async function unlessAway<T>(call: T | PromiseLike<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (error instanceof CallerError && error.kind === 'ledger_unavailable') return undefined
    throw error
  }
}

test('owners that are killed under load: each charge counts once, and nothing stays held', async () => {
  const { owner, worker } = await started()
  const seed = randomSeed('owners that are killed')
  const random = new Random(seed)
  const account = accountOf(spend({ total: 1_000_000_000 }))
  const ledgers = [await worker(), await worker(), await worker()]
  let [spent, requests, running] = [0, 0, true]
  const serve = async (ledger: SharedLedger) => {
    while (running) {
      const cost = 1 + random.below(1000)
      const reservation = await unlessAway(ledger.reserve(account, holdOf(cost)))
      // What an owner grants later is given back.
      if (reservation === undefined) continue
      if (random.oneIn(3)) {
        const soFar = { inputTokens: 10, outputTokens: 1, costMicroUsd: Math.floor(cost / 2) }
        await unlessAway(
          ledger.extend(reservation, soFar, { inputTokens: 10, outputTokens: 5, costMicroUsd: 2 * cost }),
        )
      }
      spent += cost
      requests += 1
      await ledger.settle(reservation, chargeOf(cost))
    }
  }
  const callers = ledgers.flatMap((ledger) => Array.from({ length: 10 }, () => serve(ledger)))
  for (let deaths = 0; deaths < 5; deaths++) {
    // A death at any moment: within a frame, between a change and its group, between a group and its notice.
    const before = requests
    while (requests < before + 30) await Bun.sleep(1)
    await Bun.sleep(random.below(100))
    await owner.kill()
    await owner.start(true)
  }
  running = false
  await Promise.all(callers)
  for (const ledger of ledgers) await ledger.close()
  const figures = await usage(owner, account)
  expect([seed, figures?.requests, figures?.costMicroUsd]).toEqual([seed, requests, spent])
  expect(await standing(owner, account)).toMatchObject({ live: 0, total: { spent, held: 0 } })
})

test('an owner that stands still: what it grants later is given back', async () => {
  const { owner, worker } = await started()
  const ledger = await worker()
  const account = accountOf(spend({ total: 100 }))
  owner.signal('SIGSTOP')
  const refused = await Promise.resolve(ledger.reserve(account, holdOf(60))).catch((error: unknown) => error)
  expect(refused).toMatchObject({ kind: 'ledger_unavailable' })
  owner.signal('SIGCONT')
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(100))
  await ledger.close()
  expect(await standing(owner, account)).toMatchObject({ live: 0, total: { spent: 100, held: 0 } })
})

test('a settlement that is sent again counts once: its owner knows the call, and the next one its end', async () => {
  const { owner } = await started()
  const account = accountOf(spend({ total: 1000 }))
  const hold = holdOf(100)
  /** Sends the settlement over a connection of its own. Resolves when the owner reports that it is in the journal. */
  const settleOnce = async (isFirst: boolean) => {
    const written = Promise.withResolvers<void>()
    const settle = (link: OwnerLink, admittedMs: number) => {
      link.calls.settle(2, link.numberOf(account), hold.id, admittedMs, chargeOf(70), true)
      link.frames.flush()
    }
    const link = await OwnerLink.connect(`${owner.place}/ledger.sock`, 'one worker', {
      closed: () => {},
      messages: {
        ...NO_ANSWERS,
        granted: (_seq, admittedMs) => settle(link, admittedMs),
        written: () => written.resolve(),
      },
    })
    if (isFirst) link.calls.reserve(1, link.numberOf(account), hold)
    else settle(link, Date.now())
    link.frames.flush()
    await written.promise
    link.close()
  }
  const spent = async () => (await standing(owner, account)).total.spent
  await settleOnce(true)
  expect(await spent()).toBe(70)
  await settleOnce(false)
  expect(await spent()).toBe(70)
  await owner.kill()
  await owner.start(true)
  await settleOnce(false)
  expect((await standing(owner, account)).total).toEqual({ window: 0, spent: 70, held: 0, refused: 0 })
})
