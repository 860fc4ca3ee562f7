/** The ids of earlier tool calls in the form that providers accept. */

import { CallIdSet, isLegalId } from '../core/call-id-set.ts'
import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { JsonBuilder } from '../core/json-builder.ts'
import type { SharedIds } from '../core/sent-items.ts'
import type { CallOrder } from './call-places.ts'
import { fitted, NAMES_OF_64 } from './tool-names.ts'
import { NO_ENTRY, PLACEHOLDER } from './turns.ts'

/** Those of the request whose ids were looked at last. */
const callIds = new CallIdSet()

/**
 * The ids of one request's calls and results, as they are sent. Providers accept `[a-zA-Z0-9_-]`, at most 64
 * characters, unique in a conversation. Callers send ids of other providers; some servers number calls from 0 in every
 * answer. An id that is legal and unique is sent unchanged: in nearly every request all are, which is found without
 * decoding them. Valid until those of the next request are made.
 */
export class SentCallIds {
  /** Undefined if all are sent unchanged. */
  private readonly changes: ChangedIds | undefined

  constructor(private readonly turns: CallOrder) {
    this.changes = areKept(turns) ? undefined : new ChangedIds(turns)
  }

  /** Whether any id is not sent as it came. */
  get areChanged(): boolean {
    return this.changes !== undefined
  }

  /** Writes the id to send of a call, or the sent id of the call that a result answers: the inside of a string. */
  write(json: JsonBuilder, block: number): void {
    if (this.changes === undefined) json.entry(this.turns.conversation, block)
    else json.inside(this.changes.sent.get(block) ?? '')
  }

  /** The call before a result whose sent id it has, or `NO_ENTRY`. */
  callOf(result: number): number {
    const call = this.callWithIdOf(result)
    return call < result ? call : NO_ENTRY
  }

  private callWithIdOf(result: number): number {
    const { changes } = this
    if (changes !== undefined) return changes.calls.get(changes.sent.get(result) ?? '') ?? NO_ENTRY
    const { conversation } = this.turns
    const { arena } = conversation
    const from = conversation.fromAt(result)
    const to = arena.indexAt(from, conversation.toAt(result))
    return callIds.find(arena.bufferAt(from), arena.indexAt(from), to)
  }
}

/** Whether every id is legal, and those of calls are unique. */
function areKept(turns: CallOrder): boolean {
  const { conversation } = turns
  callIds.begin()
  if (!conversation.has(Kind.CALL_ID) && !conversation.has(Kind.RESULT_ID)) return true
  const { arena } = conversation
  let buffer: Uint8Array | undefined
  for (let at = 0; at <= turns.lastPlace; at++) {
    const block = turns.blockAt(at)
    if (block === PLACEHOLDER) continue
    const kind = conversation.kindAt(block)
    if (kind !== Kind.CALL_ID && kind !== Kind.RESULT_ID) continue
    const from = conversation.fromAt(block)
    const start = arena.indexAt(from)
    const end = arena.indexAt(from, conversation.toAt(block))
    // All are in the body, or none is; those in different buffers are not compared.
    buffer ??= arena.bufferAt(from)
    if (buffer !== arena.bufferAt(from)) return false
    if (kind === Kind.CALL_ID ? !callIds.add(buffer, start, end, block) : !isLegalId(buffer, start, end)) return false
  }
  return true
}

const LEGAL_ID = /^[\w-]{1,64}$/

/**
 * The ids of all calls, if every id is sent as it came. `known`: those of the calls before the entry `from`, which are
 * not looked at again.
 */
export function unchangedIds(conversation: Conversation, from: number, known: SharedIds): SharedIds | undefined {
  const added = new Set<string>()
  for (let entry = from; entry < conversation.end; entry = conversation.next(entry)) {
    const kind = conversation.kindAt(entry)
    if (kind !== Kind.CALL_ID && kind !== Kind.RESULT_ID) continue
    const id = conversation.textAt(entry)
    if (!LEGAL_ID.test(id)) return undefined
    if (kind === Kind.RESULT_ID) continue
    if (known.has(id) || added.has(id)) return undefined
    added.add(id)
  }
  return known.with(added)
}

/** Calls with the same caller's id: the ids that were sent, and which call the next result answers. */
interface OpenCalls {
  readonly sent: string[]
  next: number
}

class ChangedIds {
  /** The id to send, by the entry of a call or a result. */
  readonly sent = new Map<number, string>()
  /** The entry of each call, by the id to send. */
  readonly calls = new Map<string, number>()
  /** The next number for ids with the same first characters. */
  private readonly numbers = new Map<string, number>()
  /** Calls of the last assistant turn without a result, by the caller's id. */
  private readonly open = new Map<string, OpenCalls>()

  constructor(turns: CallOrder) {
    const { conversation } = turns
    for (let turn = 0; turn < turns.count; turn++) {
      if (turns.isAnswer(turn)) this.open.clear()
      for (let at = turns.firstBlock(turn); at < turns.firstBlock(turn + 1); at++) {
        const block = turns.blockAt(at)
        const kind = turns.kindOf(block)
        if (kind === Kind.CALL_ID) this.sent.set(block, this.call(block, conversation.textAt(block)))
        else if (kind === Kind.RESULT_ID) this.sent.set(block, this.result(conversation.textAt(block)))
      }
    }
  }

  private call(entry: number, id: string): string {
    const sent = this.unique(fitted(id, NAMES_OF_64))
    this.calls.set(sent, entry)
    this.open.getOrInsert(id, { sent: [], next: 0 }).sent.push(sent)
    return sent
  }

  /**
   * The id of the call that a result answers. One that answers no call keeps its id, so that the provider reports it.
   */
  private result(id: string): string {
    const open = this.open.get(id)
    if (open === undefined) return fitted(id, NAMES_OF_64)
    const sent = open.sent[open.next]
    // The last one stays: further results with this id answer the same call.
    open.next = Math.min(open.next + 1, open.sent.length - 1)
    return sent ?? fitted(id, NAMES_OF_64)
  }

  /** Numbers are counted per stem, not per id: thousands of ids may share their first characters. */
  private unique(id: string): string {
    const stem = id.slice(0, NAMES_OF_64.charsMax - 8)
    let sent = id
    while (this.calls.has(sent)) {
      const number = this.numbers.get(stem) ?? 2
      this.numbers.set(stem, number + 1)
      sent = `${stem}_${number}`
    }
    return sent
  }
}
