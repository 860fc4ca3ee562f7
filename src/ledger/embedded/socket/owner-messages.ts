/**
 * The messages between the owner of an embedded ledger and the workers that share it, and their frames. Both ends are
 * weir, over a socket that only its user can open: a frame must have the form below, and its values are not checked.
 */

import { type Outcome, outcomes } from '../../audit-columns.ts'
import {
  type Account,
  type Charge,
  type Estimate,
  type Hold,
  type LedgerHealth,
  type RateStatus,
  type RateStatuses,
  turnOf,
} from '../../ledger.ts'
import type { ExtendReply, ReserveReply } from '../../reservation-store.ts'
import { FrameError, type FrameReader } from './frame-reader.ts'
import type { FrameWriter } from './frame-writer.ts'

/**
 * Raised with each change that an older program would misread, together with `PROTOCOL` in `process/ipc/ipc.ts` and
 * `LEDGER_PROTOCOL`: weir then has to be restarted for an upgrade. The frames of `hello` and `welcome` never change.
 */
export const PROTOCOL = 2

/**
 * Follows the name of a worker in its `hello`, and asks the owner to report what it takes: an owner of an earlier
 * version reads the text as a part of the name, and reports nothing.
 */
const ASKS_WHAT_IS_TAKEN = ' asks'

/** Accounts that a connection knows by number. Others take the place of the oldest; 1 KB of the owner's memory each. */
export const ACCOUNTS_MAX = 4096

/**
 * The messages of a worker. `seq` counts its calls from 1, over all of its connections. A call that is sent again after
 * its connection broke has the same one. `account` is the number that an earlier message of the same connection gave to
 * an account.
 */
export interface ToOwner {
  /**
   * The first message of a connection. `worker` is unique among all workers that ever called this owner.
   * `asksWhatIsTaken`: it knows the message `takesRemotes`.
   */
  hello(protocol: number, worker: string, asksWhatIsTaken: boolean): void
  account(number: number, account: Account): void
  /** A reservation of this worker that an owner has granted. Only before the calls that are sent again. */
  adopt(account: number, hold: Hold, admittedMs: number, soFar: Estimate): void
  reserve(seq: number, account: number, hold: Hold): void
  extend(seq: number, account: number, id: string, soFar: Estimate, wanted: Estimate): void
  /** `isDirect`: the owner charges it even if it does not know the reservation, unless it has settled it. */
  settle(seq: number, account: number, id: string, admittedMs: number, charge: Charge, isDirect: boolean): void
  cancel(seq: number, account: number, id: string): void
  health(seq: number): void
}

/** The replies to a reservation that is not granted. `full`: too many changes wait for the owner's files. */
export type NotGranted = Exclude<ReserveReply, { outcome: 'granted' }> | { readonly outcome: 'full' }

/**
 * The messages of the owner. Those with `seq` answer the call with the same number, except `written`; calls that end
 * reservations have no answer.
 */
export interface FromOwner {
  /** Answers `hello`. The owner closes the connection if it does not speak the worker's protocol. */
  welcome(protocol: number): void
  /** Follows `welcome`: the owner takes charges with the caller's address. */
  takesRemotes(): void
  granted(seq: number, admittedMs: number, rates: RateStatuses): void
  notGranted(seq: number, reply: NotGranted): void
  extended(seq: number, reply: ExtendReply): void
  health(seq: number, health: LedgerHealth): void
  /** The call cannot be carried out: a bug of the caller. */
  failed(seq: number, message: string): void
  /** All calls of this worker up to `seq` are in the journal's file: they survive the owner. */
  written(seq: number): void
}

/** Numbers of the messages; none is used again for another one. */
const TO_OWNER = {
  hello: 1,
  account: 2,
  adopt: 3,
  reserve: 4,
  extend: 5,
  settle: 6,
  cancel: 7,
  health: 8,
  settleWithRemote: 9,
} as const
const FROM_OWNER = {
  welcome: 1,
  granted: 2,
  notGranted: 3,
  extended: 4,
  health: 5,
  failed: 6,
  written: 7,
  takesRemotes: 8,
} as const

const EXTEND_REPLIES: readonly ExtendReply[] = ['extended', 'exhausted', 'ended', 'unknown']

/** Bits of a hold, for its parts that may be absent. */
const HAS_MODEL = 1
const HAS_TAGS = 2

/** Writes the messages of a worker as frames. */
export class CallWriter implements Omit<ToOwner, 'hello'> {
  /** Whether the owner takes charges with the caller's address. */
  writesRemotes = false

  constructor(private readonly frames: FrameWriter) {}

  hello(protocol: number, worker: string): void {
    this.begin('hello')
      .number(protocol)
      .text(worker + ASKS_WHAT_IS_TAKEN)
      .end()
  }

  account(number: number, account: Account): void {
    this.begin('account').number(number).json(account).end()
  }

  adopt(account: number, hold: Hold, admittedMs: number, soFar: Estimate): void {
    this.begin('adopt').number(account)
    writeHold(this.frames, hold)
    this.frames.number(admittedMs)
    writeEstimate(this.frames, soFar)
    this.frames.end()
  }

  reserve(seq: number, account: number, hold: Hold): void {
    this.begin('reserve').number(seq).number(account)
    writeHold(this.frames, hold)
    this.frames.end()
  }

  extend(seq: number, account: number, id: string, soFar: Estimate, wanted: Estimate): void {
    this.begin('extend').number(seq).number(account).text(id)
    writeEstimate(this.frames, soFar)
    writeEstimate(this.frames, wanted)
    this.frames.end()
  }

  settle(seq: number, account: number, id: string, admittedMs: number, charge: Charge, isDirect: boolean): void {
    this.begin(this.writesRemotes ? 'settleWithRemote' : 'settle')
      .number(seq)
      .number(account)
      .text(id)
    this.frames.number(admittedMs)
    writeCharge(this.frames, charge)
    this.frames.byte(isDirect ? 1 : 0)
    if (this.writesRemotes) this.frames.text(remoteText(charge))
    this.frames.end()
  }

  cancel(seq: number, account: number, id: string): void {
    this.begin('cancel').number(seq).number(account).text(id).end()
  }

  health(seq: number): void {
    this.begin('health').number(seq).end()
  }

  private begin(type: keyof typeof TO_OWNER): FrameWriter {
    return this.frames.begin(TO_OWNER[type])
  }
}

/** Reads the fields of a frame that `CallWriter` wrote, and passes them on. Throws `FrameError`. */
export function readCall(type: number, frame: FrameReader, to: ToOwner): void {
  switch (type) {
    case TO_OWNER.hello:
      return readHello(frame, to)
    case TO_OWNER.account:
      return to.account(frame.number(), frame.json())
    case TO_OWNER.adopt:
      return to.adopt(frame.number(), readHold(frame), frame.number(), readEstimate(frame))
    case TO_OWNER.reserve:
      return to.reserve(frame.number(), frame.number(), readHold(frame))
    case TO_OWNER.extend:
      return to.extend(frame.number(), frame.number(), frame.text(), readEstimate(frame), readEstimate(frame))
    case TO_OWNER.settle:
    case TO_OWNER.settleWithRemote:
      return readSettle(frame, to, type === TO_OWNER.settleWithRemote)
    case TO_OWNER.cancel:
      return to.cancel(frame.number(), frame.number(), frame.text())
    case TO_OWNER.health:
      return to.health(frame.number())
    default:
      throw new FrameError(`No message to the owner has the type ${type}.`)
  }
}

function readHello(frame: FrameReader, to: ToOwner): void {
  const protocol = frame.number()
  const name = frame.text()
  const asks = name.endsWith(ASKS_WHAT_IS_TAKEN)
  to.hello(protocol, asks ? name.slice(0, -ASKS_WHAT_IS_TAKEN.length) : name, asks)
}

function readSettle(frame: FrameReader, to: ToOwner, hasRemote: boolean): void {
  const [seq, account, id, admittedMs] = [frame.number(), frame.number(), frame.text(), frame.number()]
  const charge = readCharge(frame)
  const isDirect = frame.byte() === 1
  to.settle(seq, account, id, admittedMs, hasRemote ? { ...charge, ...remoteOf(frame.text()) } : charge, isDirect)
}

/** Writes the messages of the owner as frames. */
export class AnswerWriter implements FromOwner {
  constructor(private readonly frames: FrameWriter) {}

  welcome(protocol: number): void {
    this.begin('welcome').number(protocol).end()
  }

  takesRemotes(): void {
    this.begin('takesRemotes').end()
  }

  granted(seq: number, admittedMs: number, rates: RateStatuses): void {
    this.begin('granted').number(seq).number(admittedMs)
    writeRates(this.frames, rates)
    this.frames.end()
  }

  notGranted(seq: number, reply: NotGranted): void {
    this.begin('notGranted').number(seq).json(reply).end()
  }

  extended(seq: number, reply: ExtendReply): void {
    this.begin('extended').number(seq).byte(EXTEND_REPLIES.indexOf(reply)).end()
  }

  health(seq: number, health: LedgerHealth): void {
    this.begin('health').number(seq).json(health).end()
  }

  failed(seq: number, message: string): void {
    this.begin('failed').number(seq).text(message).end()
  }

  written(seq: number): void {
    this.begin('written').number(seq).end()
  }

  private begin(type: keyof typeof FROM_OWNER): FrameWriter {
    return this.frames.begin(FROM_OWNER[type])
  }
}

/** Reads the fields of a frame that `AnswerWriter` wrote, and passes them on. Throws `FrameError`. */
export function readAnswer(type: number, frame: FrameReader, to: FromOwner): void {
  switch (type) {
    case FROM_OWNER.welcome:
      return to.welcome(frame.number())
    case FROM_OWNER.takesRemotes:
      return to.takesRemotes()
    case FROM_OWNER.granted:
      return to.granted(frame.number(), frame.number(), readRates(frame))
    case FROM_OWNER.notGranted:
      return to.notGranted(frame.number(), notGrantedOf(frame.json()))
    case FROM_OWNER.extended:
      return to.extended(frame.number(), oneOf(EXTEND_REPLIES, frame.byte()))
    case FROM_OWNER.health:
      return to.health(frame.number(), frame.json())
    case FROM_OWNER.failed:
      return to.failed(frame.number(), frame.text())
    case FROM_OWNER.written:
      return to.written(frame.number())
    default:
      throw new FrameError(`No message of the owner has the type ${type}.`)
  }
}

function writeEstimate(frames: FrameWriter, { inputTokens, outputTokens, costMicroUsd }: Estimate): void {
  frames.number(inputTokens).number(outputTokens).number(costMicroUsd)
}

function readEstimate(frame: FrameReader): Estimate {
  return { inputTokens: frame.number(), outputTokens: frame.number(), costMicroUsd: frame.number() }
}

/**
 * The turn of a hold follows its tags after a tab: an owner of an earlier version keeps the reservation of the first
 * turn, and does not read a frame with one more field.
 */
function tagsText(hold: Hold): string | undefined {
  const turn = turnOf(hold)
  return turn === 0 ? hold.tags : `${hold.tags ?? ''}\t${turn}`
}

function writeHold(frames: FrameWriter, hold: Hold): void {
  const { id, estimate, floorMicroUsd, model } = hold
  const tags = tagsText(hold)
  frames.text(id)
  writeEstimate(frames, estimate)
  frames.number(floorMicroUsd)
  frames.byte((model === undefined ? 0 : HAS_MODEL) | (tags === undefined ? 0 : HAS_TAGS))
  if (model !== undefined) frames.name(model)
  if (tags !== undefined) frames.text(tags)
}

function readHold(frame: FrameReader): Hold {
  const id = frame.text()
  const estimate = readEstimate(frame)
  const floorMicroUsd = frame.number()
  const parts = frame.byte()
  const model = (parts & HAS_MODEL) === 0 ? undefined : frame.name()
  if ((parts & HAS_TAGS) === 0) return { id, estimate, floorMicroUsd, model }
  const [tags, turn] = frame.text().split('\t')
  return { id, estimate, floorMicroUsd, model, tags, turn: turn === undefined ? undefined : Number(turn) }
}

function writeCharge(frames: FrameWriter, charge: Charge): void {
  frames.name(charge.model).name(charge.provider)
  frames.number(charge.inputTokens).number(charge.cachedInputTokens).number(charge.outputTokens)
  frames.number(charge.images).number(charge.costMicroUsd)
  frames.byte(charge.estimated ? 1 : 0).byte(outcomes.indexOf(charge.outcome))
  frames.text(charge.tags)
}

/**
 * The caller's address, after a tab the tokens that were written to a cache, and after another the node: a program of
 * before does not read those that it does not know, and rejects a frame with one more field.
 */
function remoteText({ remote, cacheWriteTokens, node }: Charge): string {
  if (node !== '') return `${remote}\t${cacheWriteTokens}\t${node}`
  return cacheWriteTokens === 0 ? remote : `${remote}\t${cacheWriteTokens}`
}

function remoteOf(text: string): Pick<Charge, 'remote' | 'cacheWriteTokens' | 'node'> {
  const [remote = '', written = '0', node = ''] = text.split('\t')
  return { remote, cacheWriteTokens: Number(written), node }
}

/** Fields are read in the order in which they stand here. */
function readCharge(frame: FrameReader): Charge {
  return {
    model: frame.name(),
    provider: frame.name(),
    inputTokens: frame.number(),
    cachedInputTokens: frame.number(),
    cacheWriteTokens: 0,
    outputTokens: frame.number(),
    images: frame.number(),
    costMicroUsd: frame.number(),
    estimated: frame.byte() === 1,
    outcome: oneOf<Outcome>(outcomes, frame.byte()),
    tags: frame.text(),
    remote: '',
    node: '',
  }
}

function writeRates(frames: FrameWriter, rates: RateStatuses): void {
  frames.byte(rates.length)
  for (let i = 0; i < rates.length; i++) {
    const rate = rates[i]
    frames.byte(rate === undefined ? 0 : 1)
    if (rate === undefined) continue
    frames.number(rate.limit).number(rate.remaining).number(rate.resetMs)
  }
}

function readRates(frame: FrameReader): RateStatuses {
  const count = frame.byte()
  const rates: (RateStatus | undefined)[] = []
  for (let i = 0; i < count; i++) {
    const isLimited = frame.byte() === 1
    rates.push(isLimited ? { limit: frame.number(), remaining: frame.number(), resetMs: frame.number() } : undefined)
  }
  return rates
}

/** JSON has null where a rate has no limit. */
function notGrantedOf(reply: NotGranted): NotGranted {
  return reply.outcome === 'refused' ? { ...reply, rates: reply.rates.map((rate) => rate ?? undefined) } : reply
}

function oneOf<Value>(values: readonly Value[], index: number): Value {
  const value = values[index]
  if (value === undefined) throw new FrameError(`${index} is not from 0 to ${values.length - 1}.`)
  return value
}
