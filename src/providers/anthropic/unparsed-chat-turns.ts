/**
 * A conversation that came as a body of Chat Completions or Responses and was not parsed → the system texts and
 * messages of Anthropic's body, from the bytes of its texts. What must be changed on the way, such as a blank text, is
 * left to the usual way.
 */

import { CallIdSet, isLegalId } from '../../core/call-id-set.ts'
import type { ChatRequest } from '../../core/chat-request.ts'
import { JsonBuilder, part } from '../../core/json-builder.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import { solidStart } from '../../core/solid-text.ts'
import { ASSISTANT, CALL_ID, ENTRY_INTS, KINDS, RESULT_ID, SYSTEM, TEXT, TOOL } from '../../core/unparsed.ts'
import { isObjectJson } from '../../wire/json-object.ts'
import { unescapedWithin } from '../../wire/json-text.ts'
import { CallInputs } from '../call-arguments.ts'

interface ChatTurns {
  /** Marks of values, or absent. */
  readonly system: string | undefined
  readonly messages: string
  readonly hasCalls: boolean
}

const OPEN_LIST = part('[')
const CLOSE_LIST = part(']')
const COMMA = part(',')
const CLOSE = part('}')
const CLOSE_STRING = part('"}')
const USER_TURN = part('{"role":"user","content":[')
const ASSISTANT_TURN = part('{"role":"assistant","content":[')
const CLOSE_TURN = part(']}')
const TEXT_BLOCK = part('{"type":"text","text":"')
const CALL_BLOCK = part('{"type":"tool_use","id":"')
const CALL_NAME = part('","name":"')
const CALL_INPUT = part('","input":')
const RESULT_BLOCK = part('{"type":"tool_result","tool_use_id":"')
const RESULT_TEXT = part('","content":"')
const RESULT_TEXTS = part('","content":[')
/** Bytes around the blocks of a message. */
const AROUND_ENTRY = 24
const AROUND_ALL = 4096

const callIds = new CallIdSet()

/** Undefined if the messages were parsed, came in another form, or must be changed. */
export function chatTurns({ unparsed, longTexts, cache }: ChatRequest): ChatTurns | undefined {
  const messages = unparsed?.messages
  if (longTexts === undefined || messages === undefined || messages.form === 'messages') return undefined
  if (cache !== undefined) return undefined
  return new TurnsOfChat(messages.entries, longTexts).write()
}

class TurnsOfChat {
  private readonly turns: JsonBuilder
  private system: JsonBuilder | undefined
  private readonly inputs = new CallInputs()
  private hasCalls = false
  /** What the turn that is open has: `''` before the first one. */
  private turn: '' | 'results' | 'texts' | 'answer' | 'calls' = ''

  constructor(
    private readonly entries: Int32Array,
    private readonly longTexts: LongTexts,
  ) {
    this.turns = new JsonBuilder(longTexts, longTexts.bytes.length + AROUND_ENTRY * entries.length + AROUND_ALL)
  }

  write(): ChatTurns | undefined {
    const { entries, turns, longTexts } = this
    callIds.begin()
    turns.part(OPEN_LIST)
    for (let at = 0; at < entries.length; ) {
      let end = at + ENTRY_INTS
      while (end < entries.length && this.kindAt(end) > TOOL) end += ENTRY_INTS
      if (!this.message(at, end)) return undefined
      at = end
    }
    // An answer at the end may have to be trimmed.
    if (this.turn === '' || this.turn === 'answer') return undefined
    turns.part(CLOSE_TURN)
    turns.part(CLOSE_LIST)
    this.system?.part(CLOSE_LIST)
    return {
      system: this.system && longTexts.markOfWritten(this.system.take()),
      messages: longTexts.markOfWritten(turns.take()),
      hasCalls: this.hasCalls,
    }
  }

  /** The message of these entries. False if it must be changed. */
  private message(at: number, end: number): boolean {
    switch (this.kindAt(at)) {
      case SYSTEM:
        return this.systemTexts(at + ENTRY_INTS, end)
      case ASSISTANT:
        return this.answer(at + ENTRY_INTS, end)
      case TOOL:
        return this.result(at + ENTRY_INTS, end)
      default:
        return this.question(at + ENTRY_INTS, end)
    }
  }

  private systemTexts(at: number, end: number): boolean {
    const isFirst = this.system === undefined
    // Long texts are not copied, and short ones seldom take more.
    this.system ??= new JsonBuilder(this.longTexts, AROUND_ALL)
    if (at === end) return false
    if (isFirst) this.system.part(OPEN_LIST)
    for (let entry = at; entry < end; entry += ENTRY_INTS) {
      if (!isFirst || entry > at) this.system.part(COMMA)
      if (!this.textBlock(this.system, entry)) return false
    }
    return true
  }

  private question(at: number, end: number): boolean {
    this.open('texts')
    return this.textBlocks(at, end)
  }

  private answer(at: number, end: number): boolean {
    if (this.turn === '' || at === end) return false
    this.open('answer')
    let entry = at
    while (entry < end && this.kindAt(entry) === TEXT) entry += ENTRY_INTS
    // Text after a call of an earlier message moves before it.
    if (this.turn === 'calls' && entry > at) return false
    if (!this.textBlocks(at, entry)) return false
    for (; entry < end; entry += 3 * ENTRY_INTS) {
      if (this.kindAt(entry) !== CALL_ID || !this.call(entry)) return false
    }
    return true
  }

  private call(entry: number): boolean {
    const { turns, longTexts } = this
    if (!callIds.add(longTexts.bytes, this.from(entry), this.to(entry))) return false
    const name = entry + ENTRY_INTS
    const json = entry + 2 * ENTRY_INTS
    this.block()
    turns.part(CALL_BLOCK)
    turns.span(this.from(entry), this.to(entry))
    turns.part(CALL_NAME)
    turns.span(this.from(name), this.to(name))
    turns.part(CALL_INPUT)
    this.input(this.from(json), this.to(json))
    turns.part(CLOSE)
    this.turn = 'calls'
    this.hasCalls = true
    return true
  }

  /** Arguments are read as they came if they are an object: parsed and written again, they took three times as long. */
  private input(from: number, to: number): void {
    const { turns, longTexts } = this
    const json = unescapedWithin(longTexts.bytes, from, to)
    if (json !== undefined && isObjectJson(json.buffer, json.size)) turns.bytes(json.buffer, json.size)
    else turns.text(JSON.stringify(this.inputs.of(longTexts.stringAt(from, to))))
  }

  private result(at: number, end: number): boolean {
    const { turns, longTexts } = this
    // Results come before texts.
    if (this.turn === 'texts' || this.kindAt(at) !== RESULT_ID) return false
    if (!isLegalId(longTexts.bytes, this.from(at), this.to(at))) return false
    this.open('results')
    this.block()
    turns.part(RESULT_BLOCK)
    turns.span(this.from(at), this.to(at))
    const texts = (end - at) / ENTRY_INTS - 1
    const first = at + ENTRY_INTS
    if (texts === 1) {
      if (!this.isSolid(first)) return false
      turns.part(RESULT_TEXT)
      turns.span(this.from(first), this.to(first))
      turns.part(CLOSE_STRING)
    } else if (texts === 0) turns.part(CLOSE_STRING)
    else {
      turns.part(RESULT_TEXTS)
      for (let entry = first; entry < end; entry += ENTRY_INTS) {
        if (entry > first) turns.part(COMMA)
        if (!this.textBlock(turns, entry)) return false
      }
      turns.part(CLOSE_TURN)
    }
    return true
  }

  /** A turn of this kind begins, or the one that is open goes on. */
  private open(kind: 'results' | 'texts' | 'answer'): void {
    const { turns, turn } = this
    const isAnswer = kind === 'answer'
    const goesOn = turn !== '' && (turn === 'answer' || turn === 'calls') === isAnswer
    if (!goesOn) {
      if (turn !== '') {
        turns.part(CLOSE_TURN)
        turns.part(COMMA)
      }
      turns.part(isAnswer ? ASSISTANT_TURN : USER_TURN)
      this.isFirstBlock = true
    }
    if (turn !== 'calls' || !goesOn) this.turn = kind
  }

  private isFirstBlock = true

  /** Before each block of a turn. */
  private block(): void {
    if (!this.isFirstBlock) this.turns.part(COMMA)
    this.isFirstBlock = false
  }

  private textBlocks(at: number, end: number): boolean {
    for (let entry = at; entry < end; entry += ENTRY_INTS) {
      this.block()
      if (!this.textBlock(this.turns, entry)) return false
    }
    return true
  }

  private textBlock(into: JsonBuilder, entry: number): boolean {
    if (!this.isSolid(entry)) return false
    into.part(TEXT_BLOCK)
    into.span(this.from(entry), this.to(entry))
    into.part(CLOSE_STRING)
    return true
  }

  /** Blank texts are left out. */
  private isSolid(entry: number): boolean {
    return solidStart(this.longTexts.bytes, this.from(entry), this.to(entry)) !== -1
  }

  private kindAt(entry: number): number {
    return (this.entries[entry] ?? 0) & KINDS
  }

  private from(entry: number): number {
    return this.entries[entry + 1] ?? 0
  }

  private to(entry: number): number {
    return this.entries[entry + 2] ?? 0
  }
}
