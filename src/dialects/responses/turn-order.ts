/** Messages, calls and outputs in the order of the input → entries in the order of a conversation. */

import type { Arena } from '../../core/arena.ts'
import { ENTRY_INTS } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { EntryWriter } from '../../core/entry-writer.ts'

/** Entries that belong at another place than the end: their place, and their first and last among those put aside. */
interface Inserted {
  /** After the outputs of this turn; or `SUMMARY`, after the leading system messages. */
  readonly turn: number
  readonly from: number
  readonly to: number
}

const SUMMARY = -1

/** What the last message is: an assistant's, one with calls, one with calls and outputs, or another. */
type Last = 'answer' | 'calls' | 'outputs' | 'other'

const entries = new EntryWriter()
/** The calls of the last turn, which come after all of its texts. */
const calls = new EntryWriter()
/** What was put aside. */
const aside = new EntryWriter()
const whole = new EntryWriter()

/** Outputs in another order than their calls are compared with at most this number of them, and then looked up. */
const COMPARED_MAX = 64

/** What was read of a conversation that goes on. */
export interface OrderState {
  readonly entries: Int32Array
  /** Calls of the last turn, to which a text may still be added before them. */
  readonly calls: Int32Array
  readonly last: Last
  readonly turns: readonly number[]
  readonly turnEnds: readonly number[]
  readonly callIds: readonly number[]
  readonly expected: number
  readonly firstSpoken: number
}

/**
 * One for each request; all of it is read before the next begins. Consecutive calls and the assistant's message right
 * before them are one turn, and the outputs come after all of its calls. Nearly always everything comes in this order,
 * and is written as it comes.
 */
export class TurnOrder {
  private last: Last = 'other'
  /** The first entry of each turn of the assistant, and the end of its outputs so far. */
  private turns: number[] = []
  private turnEnds: number[] = []
  /** The ids of the calls of the last turn: the first byte of each, and the byte after its last, in turn. */
  private callIds: number[] = []
  /** The index in `callIds` of the call whose output is expected next. */
  private expected = 0
  /** Where the first message begins that is no system message, or -1. */
  private firstSpoken = -1
  private readonly inserted: Inserted[] = []
  /** The turn of each call id. Some models repeat ids from turn to turn; then the latest turn. */
  private callers: Map<string, number> | undefined
  /** The entries up to here are in `callers`. */
  private known = 0
  private readonly beginning: number[] = []

  constructor() {
    entries.begin()
    calls.begin()
    aside.begin()
  }

  /** Begins with what was read before, whose bytes have been moved by `shift`. */
  restore(state: OrderState, shift: number): void {
    entries.addShifted(state.entries, shift)
    calls.addShifted(state.calls, shift)
    this.last = state.last
    this.turns = [...state.turns]
    this.turnEnds = [...state.turnEnds]
    this.callIds = state.callIds.map((at) => at + shift)
    this.expected = state.expected
    this.firstSpoken = state.firstSpoken
  }

  /** What was read so far; undefined if some of it has its place elsewhere. Before `take`. */
  get state(): OrderState | undefined {
    if (this.inserted.length > 0) return undefined
    const { last, turns, turnEnds, callIds, expected, firstSpoken } = this
    return {
      ...{ entries: entries.take(), calls: calls.take(), last, turns, callIds, expected, firstSpoken },
      turnEnds: [...turnEnds],
    }
  }

  /** Whether there is no message, and no summary. */
  get isEmpty(): boolean {
    return entries.isEmpty && calls.isEmpty && this.inserted.length === 0
  }

  /** Whether any message is not one of the system. */
  get isSpoken(): boolean {
    return this.firstSpoken !== -1 || this.inserted.length > 0
  }

  /** The first message of all. */
  instructions(from: number, to: number): void {
    this.beginning.push(Kind.SYSTEM, 0, 0, Kind.TEXT, from, to)
  }

  message(role: number, texts: EntryWriter): void {
    this.endTurn()
    if (role !== Kind.SYSTEM) this.speak()
    entries.add(role, 0, 0)
    entries.addAll(texts)
  }

  /** A message of the user. */
  userText(from: number, to: number): void {
    this.endTurn()
    this.speak()
    entries.add(Kind.USER, 0, 0)
    entries.add(Kind.TEXT, from, to)
  }

  /**
   * Text that follows calls belongs to their turn: after the outputs it would be the last message of the conversation.
   */
  answer(texts: EntryWriter): void {
    if (this.last !== 'calls') this.turn()
    entries.addAll(texts)
  }

  /** Adds a call with this id. Returns where its name and its arguments are to be added. */
  call(from: number, to: number): EntryWriter {
    if (this.last !== 'answer' && this.last !== 'calls') this.turn()
    if (this.last === 'answer') {
      this.callIds.length = 0
      this.expected = 0
    }
    this.last = 'calls'
    this.callIds.push(from, to)
    calls.add(Kind.CALL_ID, from, to)
    return calls
  }

  private turn(): void {
    this.endTurn()
    this.speak()
    this.turns.push(entries.add(Kind.ASSISTANT, 0, 0))
    this.turnEnds.push(entries.next)
    this.last = 'answer'
  }

  /** Writes the calls of the open turn, to which nothing is added any more. */
  private endTurn(): void {
    this.writeCalls()
    this.last = 'other'
  }

  private writeCalls(): void {
    entries.addAll(calls)
    if (this.last !== 'other') this.turnEnds[this.turns.length - 1] = entries.next
  }

  private speak(): void {
    if (this.firstSpoken === -1) this.firstSpoken = entries.next
  }

  /** An output moves right after the turn of its call. An output without a call keeps its place. */
  output(arena: Arena, from: number, to: number, texts: EntryWriter): void {
    const isOpen = this.last === 'calls' || this.last === 'outputs'
    const open = this.turns.length - 1
    const turn = isOpen && this.isCalledLast(arena, from, to) ? open : this.turnOf(arena, from, to)
    if (turn === undefined) {
      this.endTurn()
      this.speak()
      addOutput(entries, from, to, texts)
    } else if (isOpen && turn === open) {
      entries.addAll(calls)
      addOutput(entries, from, to, texts)
      this.last = 'outputs'
      this.turnEnds[open] = entries.next
    } else {
      const at = aside.next
      addOutput(aside, from, to, texts)
      this.inserted.push({ turn, from: at, to: aside.next })
    }
  }

  /** A summary in place of earlier messages. */
  summary(from: number, to: number): void {
    const at = aside.next
    aside.add(Kind.USER, 0, 0)
    aside.add(Kind.TEXT, from, to)
    this.inserted.push({ turn: SUMMARY, from: at, to: aside.next })
  }

  /** Whether one of the calls of the last turn has an id of the same bytes. */
  private isCalledLast(arena: Arena, from: number, to: number): boolean {
    const { callIds } = this
    const buffer = arena.bufferAt(from)
    const [first, end] = [arena.indexAt(from), arena.indexAt(from, to)]
    const steps = Math.min(callIds.length / 2, COMPARED_MAX)
    for (let step = 0; step < steps; step++) {
      if (this.expected >= callIds.length) this.expected = 0
      const start = callIds[this.expected] ?? 0
      const length = (callIds[this.expected + 1] ?? 0) - start
      this.expected += 2
      if (length === to - from && areEqual(buffer, first, end, arena.bufferAt(start), arena.indexAt(start))) return true
    }
    return false
  }

  private turnOf(arena: Arena, from: number, to: number): number | undefined {
    this.writeCalls()
    this.callers ??= new Map()
    for (let entry = this.known; entry < entries.next; entry += ENTRY_INTS)
      if (entries.kindAt(entry) === Kind.CALL_ID)
        this.callers.set(arena.stringAt(entries.fromAt(entry), entries.toAt(entry)), this.turnAt(entry))
    this.known = entries.next
    return this.callers.get(arena.stringAt(from, to))
  }

  /** The turn that this entry belongs to. */
  private turnAt(entry: number): number {
    let low = 0
    let high = this.turns.length - 1
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((this.turns[middle] ?? 0) <= entry) low = middle
      else high = middle - 1
    }
    return low
  }

  /** All entries in their order. */
  take(): Int32Array {
    this.writeCalls()
    const { beginning, inserted } = this
    if (beginning.length === 0 && inserted.length === 0) return entries.take()
    whole.begin()
    for (let at = 0; at < beginning.length; at += ENTRY_INTS)
      whole.add(beginning[at] ?? 0, beginning[at + 1] ?? 0, beginning[at + 2] ?? 0)
    let read = 0
    for (const { turn, from, to } of this.insertedInOrder()) {
      const place = this.placeOf(turn)
      whole.copy(entries, read, place)
      whole.copy(aside, from, to)
      read = place
    }
    whole.copy(entries, read, entries.next)
    return whole.take()
  }

  /** Sorting keeps the order of those with the same place. */
  private insertedInOrder(): readonly Inserted[] {
    return this.inserted.length > 1
      ? this.inserted.sort((one, other) => this.placeOf(one.turn) - this.placeOf(other.turn))
      : this.inserted
  }

  private placeOf(turn: number): number {
    if (turn === SUMMARY) return this.firstSpoken === -1 ? entries.next : this.firstSpoken
    return this.turnEnds[turn] ?? entries.next
  }
}

function addOutput(into: EntryWriter, from: number, to: number, texts: EntryWriter): void {
  into.add(Kind.TOOL, 0, 0)
  into.add(Kind.RESULT_ID, from, to)
  into.addAll(texts)
}

function areEqual(bytes: Uint8Array, from: number, to: number, others: Uint8Array, otherFrom: number): boolean {
  for (let at = from, other = otherFrom; at < to; at++, other++) if (bytes[at] !== others[other]) return false
  return true
}
