/** The frames between workers and the owner of an embedded ledger: what is written is read, and nothing else is. */

import { expect, test } from 'bun:test'
import { byUnit } from '../../src/core/limits.ts'
import { outcomes } from '../../src/ledger/audit-columns.ts'
import { FrameReader } from '../../src/ledger/embedded/socket/frame-reader.ts'
import { FRAME_BYTES_MAX, FrameWriter, NAMES_MAX } from '../../src/ledger/embedded/socket/frame-writer.ts'
import { LedgerServer } from '../../src/ledger/embedded/socket/ledger-server.ts'
import {
  ACCOUNTS_MAX,
  AnswerWriter,
  CallWriter,
  type FromOwner,
  PROTOCOL,
  readAnswer,
  readCall,
  type ToOwner,
} from '../../src/ledger/embedded/socket/owner-messages.ts'
import { SharedLedger } from '../../src/ledger/embedded/socket/shared-ledger.ts'
import type { Account, Charge, Estimate, Hold, RateStatuses, Reservation } from '../../src/ledger/ledger.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { until } from './seen.ts'

const { open, directory } = opened()

type Message = readonly [name: string, ...values: unknown[]]

/** Records the messages that it gets. */
function recorder(messages: Message[]): ToOwner & FromOwner {
  const note = (name: string) => {
    return (...values: unknown[]) => void messages.push([name, ...values])
  }
  return {
    hello: note('hello'),
    account: note('account'),
    adopt: note('adopt'),
    reserve: note('reserve'),
    extend: note('extend'),
    settle: note('settle'),
    cancel: note('cancel'),
    health: note('health'),
    welcome: note('welcome'),
    granted: note('granted'),
    notGranted: note('notGranted'),
    extended: note('extended'),
    failed: note('failed'),
    written: note('written'),
    takesRemotes: note('takesRemotes'),
  }
}

/** A socket that takes some of the bytes, or none, and keeps them. */
class Pipe {
  readonly bytes: number[] = []

  constructor(private readonly takes: (offered: number) => number) {}

  write(bytes: Uint8Array): number {
    const taken = this.takes(bytes.length)
    for (let i = 0; i < taken; i++) this.bytes.push(bytes[i] ?? 0)
    return taken
  }
}

const TEXTS = ['', 'gpt', 'größer', '漢字 🙂', 'a\nb"c\\', '\u0000', 'x'.repeat(101), 'long '.repeat(5000)]

/** A message of a worker, or one of the owner. */
function randomMessage(random: Random, what: string, takesRemotes: boolean): Message {
  const amount = () => random.pick([0, 1, 0.5, 2 ** 40 + 1, Number.MAX_SAFE_INTEGER, random.below(1000)])
  // More names than a connection knows by number.
  const name = () => (random.oneIn(8) ? random.pick(TEXTS) : `name ${random.below(2 * NAMES_MAX)}`)
  const text = () => random.pick(TEXTS)
  const estimate = (): Estimate => ({ inputTokens: amount(), outputTokens: amount(), costMicroUsd: amount() })
  const hold = (): Hold => ({
    ...{ id: text(), estimate: estimate(), floorMicroUsd: amount() },
    model: random.maybe(name()),
    ...random.pick([{ tags: random.maybe(text()) }, { tags: text(), turn: 1 + random.below(9) }]),
  })
  const charge = (): Charge => ({
    ...{ model: name(), provider: name(), inputTokens: amount(), cachedInputTokens: amount(), outputTokens: amount() },
    ...{ images: amount(), costMicroUsd: amount(), estimated: random.oneIn(2), outcome: random.pick(outcomes) },
    ...{ tags: text(), remote: takesRemotes ? text() : '', cacheWriteTokens: takesRemotes ? random.below(9) : 0 },
    node: takesRemotes ? random.pick(['', 'gateway-1']) : '',
  })
  const rate = () => ({ limit: amount(), remaining: amount(), resetMs: amount() })
  const rates = (): RateStatuses => random.pick([[], [undefined, rate()], [rate(), rate()], [rate(), undefined]])
  const account = (): Account => accountOf(spend({ day: amount() }), { tokensPerMinute: amount() }, text())
  const refusal = { scope: 'key', limit: 'day', waitMs: amount(), held: random.oneIn(2) } as const
  const room = byUnit(amount)
  const refused = { outcome: 'refused', refusal, rates: rates(), held: random.oneIn(2), room } as const
  const calls: readonly Message[] = [
    ['hello', amount(), text(), true],
    ['account', amount(), account()],
    ['adopt', amount(), hold(), amount(), estimate()],
    ['reserve', amount(), amount(), hold()],
    ['extend', amount(), amount(), text(), estimate(), estimate()],
    ['settle', amount(), amount(), text(), amount(), charge(), random.oneIn(2)],
    ['cancel', amount(), amount(), text()],
    ['health', amount()],
  ]
  const answers: readonly Message[] = [
    ['welcome', amount()],
    ['granted', amount(), amount(), rates()],
    ['notGranted', amount(), random.pick([refused, { outcome: 'ended' }, { outcome: 'full' }])],
    ['health', amount(), { ready: random.oneIn(2), up: true, complaint: text(), pending: amount() }],
    ['extended', amount(), random.pick(['extended', 'exhausted', 'ended', 'unknown'])],
    ['failed', amount(), text()],
    ['written', amount()],
    ['takesRemotes'],
  ]
  return random.pick(what === 'calls' ? calls : answers)
}

/** Calls the method that a message names. */
function send(writer: object, [name, ...values]: Message): void {
  const method: unknown = Reflect.get(writer, name)
  if (typeof method === 'function') method.apply(writer, values)
}

test.each(['calls', 'answers'])('law: %s are read as they were written, however the bytes are cut', (what) => {
  const seed = randomSeed(what)
  const random = new Random(seed)
  const pipe = new Pipe((offered) => (random.oneIn(3) ? 0 : random.below(offered + 1)))
  const frames = new FrameWriter(pipe)
  const writer = what === 'calls' ? new CallWriter(frames) : new AnswerWriter(frames)
  const written: Message[] = []
  for (let i = 0; i < 6000; i++) {
    // Halfway the owner reports that it takes addresses.
    const takesRemotes = i >= 3000
    if (writer instanceof CallWriter) writer.writesRemotes = takesRemotes
    const message = randomMessage(random, what, takesRemotes)
    send(writer, message)
    written.push(message)
    if (random.oneIn(5)) frames.flush()
    if (random.oneIn(5)) frames.drain()
  }
  const bytes = () => pipe.bytes.length
  for (let before = -1, idle = 0; idle < 50; before = bytes()) {
    frames.drain()
    idle = bytes() === before ? idle + 1 : 0
  }
  const read: Message[] = []
  const reader = new FrameReader()
  const all = Buffer.from(pipe.bytes)
  const take = what === 'calls' ? readCall : readAnswer
  for (let at = 0; at < all.length; ) {
    const piece = all.subarray(at, at + 1 + random.below(random.pick([3, 100, 5000])))
    reader.read(Buffer.from(piece), (type) => take(type, reader, recorder(read)))
    at += piece.length
  }
  expect([seed, read.length]).toEqual([seed, written.length])
  for (const [i, message] of written.entries()) expect([seed, i, read[i]]).toEqual([seed, i, message])
})

/** The bytes that `write` writes. */
function bytesOf(write: (calls: CallWriter, frames: FrameWriter) => void): Buffer {
  const pipe = new Pipe((offered) => offered)
  const frames = new FrameWriter(pipe)
  write(new CallWriter(frames), frames)
  frames.flush()
  return Buffer.from(pipe.bytes)
}

function frame(type: number, fields: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32LE(fields.length + 1)
  head[4] = type
  return Buffer.concat([head, fields])
}

const account = accountOf(spend({ total: 1_000_000 }))
const hello = bytesOf((calls) => calls.hello(PROTOCOL, 'other'))
const health = bytesOf((calls) => calls.health(1))
const knownAccount = bytesOf((calls) => calls.account(0, account))

/** A reservation with the number 5 in place of the seven bytes that define its model's name. */
const withoutName = Buffer.concat([
  bytesOf((calls) => calls.reserve(1, 0, { ...holdOf(1), model: 'x' })).subarray(5, -7),
  Buffer.from([5, 0]),
])

const unknownOutcome = bytesOf((calls) => calls.settle(1, 0, 'r', 0, chargeOf(1), true))
// In front of the length of the tags, of which there are none, and the last field.
unknownOutcome[unknownOutcome.length - 6] = outcomes.length

const MALFORMED: Readonly<Record<string, Buffer>> = {
  'a frame without a type': Buffer.alloc(5),
  'a frame that is too long': Buffer.from([...new Uint8Array(new Uint32Array([FRAME_BYTES_MAX + 1]).buffer), 1]),
  'an unknown type': frame(99, Buffer.alloc(0)),
  'too few fields': frame(4, Buffer.alloc(8)),
  'too many fields': frame(2, Buffer.concat([knownAccount.subarray(5), Buffer.alloc(1)])),
  'a text that is longer than its frame': frame(7, Buffer.alloc(24, 0xff)),
  'an account that is not JSON': frame(2, Buffer.concat([Buffer.alloc(8), Buffer.from([1, 0, 0, 0, 0x7b])])),
  'an account beyond the table': bytesOf((calls) => calls.account(ACCOUNTS_MAX, account)),
  'an account that was never sent': bytesOf((calls) => calls.cancel(1, 7, 'r')),
  'a name that was never sent': Buffer.concat([knownAccount, frame(4, withoutName)]),
  'an outcome that does not exist': Buffer.concat([knownAccount, unknownOutcome]),
  'an amount that is not a number': Buffer.concat([
    knownAccount,
    bytesOf((calls) => calls.settle(1, 0, 'r', 0, chargeOf(Number.NaN), true)),
  ]),
  'JSON, as an earlier version sent': Buffer.from('[{"type":"hello","protocol":1,"worker":"w"}]\n'),
}

/** Sends bytes to the owner of a directory. Resolves to what it answered when it has closed the connection. */
async function closedAfter(place: string, bytes: Buffer): Promise<readonly Message[]> {
  const answers: Message[] = []
  const reader = new FrameReader()
  const closed = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    unix: `${place}/ledger.sock`,
    socket: {
      data: (_socket, answer) => reader.read(answer, (type) => readAnswer(type, reader, recorder(answers))),
      close: () => closed.resolve(),
    },
  })
  socket.write(bytes)
  await closed.promise
  return answers
}

test('the owner closes a connection whose frames are malformed, and goes on serving the others', async () => {
  const place = directory()
  const server = new LedgerServer(place)
  open.push({ close: async () => server.close() })
  const ledger = await SharedLedger.open(place)
  open.unshift(ledger)
  const reservation = await ledger.reserve(account, holdOf(10))
  for (const [what, bytes] of Object.entries(MALFORMED)) {
    const answers = await closedAfter(place, Buffer.concat([hello, health, bytes, health]))
    // What came before it was answered, and what came after it was not.
    expect([what, answers.map(([name]) => name)]).toEqual([what, ['welcome', 'takesRemotes', 'health']])
  }
  expect(
    await closedAfter(
      place,
      bytesOf((calls) => calls.cancel(1, 0, 'r')),
    ),
  ).toEqual([])
  expect(ledger.settle(reservation, chargeOf(10))).toBe('settled')
  await ledger.settle(await ledger.reserve(account, holdOf(999_990)), chargeOf(0))
})

test('the owner answers a worker of another version with its own, and closes the connection', async () => {
  const place = directory()
  const server = new LedgerServer(place)
  open.push({ close: async () => server.close() })
  const other = bytesOf((calls) => {
    calls.hello(PROTOCOL + 1, 'other')
    calls.health(1)
  })
  expect(await closedAfter(place, other)).toEqual([['welcome', PROTOCOL]])
})

/** A server that answers every connection with these bytes, and closes it. */
function listen(place: string, bytes: Buffer): void {
  const listener = Bun.listen({
    unix: `${place}/ledger.sock`,
    socket: { open: (socket) => void socket.end(bytes), data() {} },
  })
  open.push({ close: async () => listener.stop(true) })
}

test('a worker reports an owner of another version, and one that sends what no owner sends', async () => {
  const version = frame(1, Buffer.from(new Float64Array([PROTOCOL + 1]).buffer))
  const complaints = [version, frame(99, Buffer.alloc(0))].map(async (bytes) => {
    const place = directory()
    listen(place, bytes)
    const ledger = await SharedLedger.open(place)
    open.unshift(ledger)
    expect(ledger.health()).toMatchObject({ ready: false, up: false })
    return ledger.health().complaint
  })
  expect(await Promise.all(complaints)).toEqual([
    'the process that owns the ledger is of another version of weir',
    'the process that owns the ledger sent what this version of weir does not understand: No message of the owner ' +
      'has the type 99.',
  ])
})

test('more accounts than a connection knows by number: each is charged what is its own', async () => {
  const place = directory()
  const server = new LedgerServer(place)
  open.push({ close: async () => server.close() })
  const ledger = await SharedLedger.open(place)
  open.unshift(ledger)
  const accounts = Array.from({ length: ACCOUNTS_MAX + 10 }, () => accountOf(spend({ total: 100 })))
  const all = [...accounts, ...accounts.slice(0, 10)]
  const reservations: Reservation[] = []
  // Not all at once: on a busy machine they would take longer than a call waits.
  for (let from = 0; from < all.length; from += 100) {
    const some = all.slice(from, from + 100)
    reservations.push(...(await Promise.all(some.map((one) => ledger.reserve(one, holdOf(50))))))
  }
  // The first ten have two reservations each, and no room for a third one.
  const refused = await Promise.allSettled(accounts.slice(0, 11).map((one) => ledger.reserve(one, holdOf(50))))
  expect(refused.map(({ status }) => status === 'rejected')).toEqual([...Array<boolean>(10).fill(true), false])
  for (const reservation of reservations) expect(ledger.settle(reservation, chargeOf(50))).toBe('settled')
  await until(() => ledger.health().pending === 0)
})
