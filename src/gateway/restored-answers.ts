/**
 * The answers of a history as their model gave them, with its thoughts in their places. Callers join the texts of an
 * answer, or divide the answer into several messages; the model's provider gets it as it came.
 */

import type { Conversation, EntryRun } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import {
  BEFORE_TEXT,
  callOf,
  type Issuer,
  isSignature,
  ownOf,
  type TargetThoughts,
  type Thought,
  WITH_ANSWER,
  WITH_TEXT,
} from '../core/thoughts.ts'
import { digestOf } from './thought-keeper.ts'

/** An answer as the caller sends it: one message, or several with nothing but results of its calls between them. */
export interface SentAnswer {
  /** Its first message. */
  readonly message: number
  /** The end of its last message. */
  readonly end: number
  readonly texts: readonly number[]
  readonly calls: readonly number[]
}

/** What is kept of an answer. */
export interface ThoughtRecord {
  readonly issuer: string
  readonly form: string
  readonly callIds: readonly string[]
  readonly thoughts: readonly Thought[]
  /** Of its text, or the end of it, if thoughts stand within. */
  readonly text?: { readonly digest: string; readonly length: number } | undefined
  /** The number of its blocks of the provider's own API, if thoughts stand before some. */
  readonly ownBlocks?: number | undefined
}

/** Thoughts that the caller has sent back itself, by entries of its conversation. */
export interface PlacedThoughts {
  readonly before: ReadonlyMap<number, readonly string[]>
  readonly beside: ReadonlyMap<number, string>
  readonly chars: number
  /** Whether an answer, by its first message, has any. */
  covers(message: number): boolean
}

/** A text of an answer, or a part of it that thoughts divide. */
interface TextPiece {
  readonly entry: number
  /** Its offset in the text of the answer. */
  readonly start: number
  readonly isBlank: boolean
  /** Its bytes if it is a part; `isLast`: of the last one of its text. */
  readonly part?: { readonly span: readonly [number, number]; readonly isLast: boolean } | undefined
}

/** The order of an answer: its pieces of text, those that begin after a thought, and its calls. */
interface Layout {
  readonly answer: SentAnswer
  readonly pieces: readonly TextPiece[]
  /** By what is left of the text there: the index of a piece. */
  readonly seams: ReadonlyMap<number, number>
  readonly calls: readonly number[]
  readonly ownBlocks: readonly number[]
  /** The answer is not as its model gave it. */
  readonly isChanged: boolean
}

/** What a thought belongs to: a piece of text by its index, an entry, or the message. */
type Slot = { readonly piece: number } | { readonly entry: number } | 'answer'

interface Placement {
  readonly slot: Slot
  readonly json: string
  readonly isBefore: boolean
}

/** Where the entries of a layout are in the restored conversation. */
interface Places {
  readonly answer: number
  piece(index: number): number
  entry(entry: number): number
}

export class RestoredAnswers {
  private readonly before = new Map<number, string[]>()
  private readonly beside = new Map<number, string>()
  private readonly runs: EntryRun[] = []
  /** Answers that were changed; entries after `end` have moved by `shift`. */
  private readonly changes: { readonly start: number; readonly end: number; readonly shift: number }[] = []
  private chars = 0

  constructor(
    private readonly conversation: Conversation,
    private readonly form: Issuer['form'],
  ) {}

  /** Answers come in their order. False, and nothing is given back, if the caller has left out or changed calls. */
  place(answer: SentAnswer, record: ThoughtRecord): boolean {
    const layout = this.layoutOf(answer, record)
    return layout !== undefined && this.placeIn(layout, record.thoughts)
  }

  /**
   * Gives back what belongs to the texts of an answer, such as their phases: callers that send back all other thoughts
   * of it have none of that.
   */
  placeBesideText(answer: SentAnswer, record: ThoughtRecord): void {
    const thoughts = record.thoughts.filter(({ place }) => place === WITH_TEXT)
    const layout = thoughts.length === 0 ? undefined : this.layoutOf(answer, { ...record, thoughts })
    if (layout?.isChanged === false) this.placeIn(layout, thoughts)
  }

  private placeIn(layout: Layout, thoughts: readonly Thought[]): boolean {
    const placements = this.placementsOf(layout, thoughts)
    if (placements === undefined) return false
    const places = layout.isChanged ? this.rewrite(layout) : this.unchanged(layout)
    for (const { slot, json, isBefore } of placements) {
      const at =
        slot === 'answer' ? places.answer : 'piece' in slot ? places.piece(slot.piece) : places.entry(slot.entry)
      if (isBefore) this.addBefore(at, json)
      else this.beside.set(at, json)
    }
    for (const { json } of thoughts) this.chars += json.length
    return true
  }

  /** Adds those of the caller. After the last `place`. */
  add({ before, beside, chars }: PlacedThoughts): void {
    for (const [entry, thoughts] of before) {
      const at = this.placeOf(entry)
      if (at !== undefined) for (const json of thoughts) this.addBefore(at, json)
    }
    for (const [entry, json] of beside) {
      const at = this.placeOf(entry)
      if (at !== undefined && !this.beside.has(at)) this.beside.set(at, json)
    }
    this.chars += chars
  }

  /** Undefined if there are none. */
  thoughts(): TargetThoughts | undefined {
    const { before, beside, form, runs, changes } = this
    if (before.size === 0 && beside.size === 0) return undefined
    return {
      form,
      tokens: Math.ceil(this.chars / CHARS_A_TOKEN),
      before: (entry) => before.get(entry) ?? NONE,
      with: (entry) => beside.get(entry),
      restored: (conversation) => {
        const from = changes.at(-1)?.end
        if (from === undefined) return conversation
        return conversation.rearranged([...runs, { from, to: conversation.end }])
      },
    }
  }

  private addBefore(at: number, json: string): void {
    this.before.getOrInsert(at, []).push(json)
  }

  private get shift(): number {
    return this.changes.at(-1)?.shift ?? 0
  }

  /** Where an entry is in the restored conversation; undefined within an answer that was changed. */
  private placeOf(entry: number): number | undefined {
    const change = this.changes.findLast(({ start }) => start <= entry)
    if (change === undefined) return entry
    return entry < change.end ? undefined : entry + change.shift
  }

  /** Undefined if it is not the answer that is kept, or its order cannot be restored. */
  private layoutOf(
    answer: SentAnswer,
    { callIds, thoughts, text, ownBlocks: kept }: ThoughtRecord,
  ): Layout | undefined {
    const { conversation, form } = this
    const entries = new Map(answer.calls.map((call) => [conversation.textAt(call), call]))
    const calls = callIds.flatMap((id) => entries.get(id) ?? [])
    if (entries.size !== callIds.length || calls.length !== callIds.length) return undefined
    const lefts = [...new Set(thoughts.flatMap(({ left }) => left ?? []))]
    const divided = this.divided(answer, lefts, text)
    if (divided === undefined) return undefined
    const { messages, hasResults } = this.messagesOf(answer)
    const isDivided = divided.pieces.some(({ part }) => part !== undefined)
    const isChanged =
      isDivided ||
      hasResults ||
      // In this form a thought stands between two messages.
      (form === 'responses' && divided.seams.size > 0) ||
      // In this form, one message has all of an answer.
      (form === 'chat' && messages > 1)
    const ownBlocks = this.ownBlocksOf(answer)
    if (isChanged ? ownBlocks.length > 0 : kept !== undefined && kept !== ownBlocks.length) return undefined
    return { answer, ...divided, calls, ownBlocks, isChanged }
  }

  private messagesOf({ message, end }: SentAnswer): { readonly messages: number; readonly hasResults: boolean } {
    const { conversation } = this
    let messages = 0
    let hasResults = false
    for (let at = message; at < end; at = conversation.endOfMessage(at)) {
      if (conversation.kindAt(at) === Kind.TOOL) hasResults = true
      else messages++
    }
    return { messages, hasResults }
  }

  private ownBlocksOf({ message, end }: SentAnswer): readonly number[] {
    const { conversation } = this
    if (!conversation.has(Kind.OWN_BLOCK)) return []
    const found: number[] = []
    for (let entry = message; entry < end; entry = conversation.next(entry))
      if (conversation.kindAt(entry) === Kind.OWN_BLOCK) found.push(entry)
    return found
  }

  /** The pieces of the text, and which of them follow a thought. Undefined for another text than the one kept. */
  private divided(
    { texts }: SentAnswer,
    lefts: readonly number[],
    kept: ThoughtRecord['text'],
  ): Pick<Layout, 'pieces' | 'seams'> | undefined {
    const { conversation } = this
    const words = texts.map((entry) => conversation.textAt(entry))
    const whole = words.join('')
    const seams = new Map<number, number>()
    const end = whole.trimEnd().length
    if (lefts.length > 0) {
      const isKept = kept !== undefined && digestOf(whole.slice(Math.max(0, end - kept.length), end)) === kept.digest
      if (!isKept || texts.some((entry) => conversation.kindAt(entry) === Kind.REFUSAL)) return undefined
    }
    const cuts = lefts.map((left) => end - left).sort((one, other) => one - other)
    // Thoughts with nothing but white space between them stand in one place.
    const solid = cuts.filter((cut, index) => index === 0 || whole.slice(cuts[index - 1], cut).trim() !== '')
    const pieces: TextPiece[] = []
    let start = 0
    for (const [index, entry] of texts.entries()) {
      const text = words[index] ?? ''
      const found = this.piecesOf(entry, text, start, solid)
      if (found === undefined) return undefined
      pieces.push(...found)
      start += text.length
    }
    for (const left of lefts) {
      const cut = solid.findLast((one) => one <= end - left) ?? 0
      const piece = pieces.findIndex((one) => one.start >= cut && !one.isBlank)
      if (piece <= 0) return undefined
      seams.set(left, piece)
    }
    return { pieces, seams }
  }

  /** A text in parts. Undefined for a block that cannot be divided. */
  private piecesOf(
    entry: number,
    text: string,
    start: number,
    cuts: readonly number[],
  ): readonly TextPiece[] | undefined {
    const { conversation } = this
    const inner = cuts.map((cut) => cut - start).filter((at) => at > 0 && at < text.length)
    if (inner.length === 0) return [{ entry, start, isBlank: text.trim() === '' }]
    if (conversation.blockAt(entry) !== undefined) return undefined
    const to = conversation.toAt(entry)
    let from = conversation.fromAt(entry)
    let begin = 0
    return [...inner, text.length].map((end) => {
      const isLast = end === text.length
      const next = isLast ? to : conversation.arena.after(from, to, end - begin)
      const isBlank = text.slice(begin, end).trim() === ''
      const piece = { entry, start: start + begin, isBlank, part: { span: [from, next] as const, isLast } }
      from = next
      begin = end
      return piece
    })
  }

  /** Undefined if two thoughts have one place where only one has room. */
  private placementsOf(layout: Layout, thoughts: readonly Thought[]): readonly Placement[] | undefined {
    const { pieces, seams, calls, ownBlocks } = layout
    const spoken = pieces.findIndex(({ isBlank }) => !isBlank)
    const [call] = calls
    const first: Slot | undefined = spoken >= 0 ? { piece: spoken } : call === undefined ? undefined : { entry: call }
    const placements: Placement[] = []
    /** Which piece of the text has which phase, or signature. */
    const besideText = new Map<number, string>()
    let hasSeam = false
    for (const { place, json, left } of thoughts) {
      const seam = left === undefined ? undefined : seams.get(left)
      const call = callOf(place)
      const entry = call && calls[call.index]
      const own = ownOf(place)
      if (place === WITH_TEXT) {
        const last = hasSeam ? pieces.findLastIndex(({ isBlank }) => !isBlank) : spoken
        const piece = seam === undefined ? last : isSignature(this.form) ? seam - 1 : seam
        hasSeam ||= seam !== undefined
        if (piece < 0) continue
        if (besideText.has(piece) && isSignature(this.form)) return undefined
        besideText.set(piece, json)
      } else if (own !== undefined) {
        const block = ownBlocks[own]
        if (block !== undefined) placements.push({ slot: { entry: block }, json, isBefore: true })
      } else if (place === WITH_ANSWER) placements.push({ slot: 'answer', json, isBefore: false })
      else if (place === BEFORE_TEXT || call?.isBefore === true) {
        const slot =
          seam !== undefined
            ? { piece: seam }
            : place === BEFORE_TEXT
              ? first
              : entry === undefined
                ? undefined
                : { entry }
        if (slot !== undefined) placements.push({ slot, json, isBefore: true })
      } else if (entry !== undefined) placements.push({ slot: { entry }, json, isBefore: false })
    }
    if (this.form === 'responses') this.continuePhases(besideText, seams)
    for (const [piece, json] of besideText) placements.push({ slot: { piece }, json, isBefore: false })
    return placements
  }

  /** A phase holds for further messages until another one comes. */
  private continuePhases(phases: Map<number, string>, seams: ReadonlyMap<number, number>): void {
    let phase: string | undefined
    for (const piece of [...new Set([...phases.keys(), ...seams.values()])].sort((one, other) => one - other)) {
      phase = phases.get(piece) ?? phase
      if (phase !== undefined) phases.set(piece, phase)
    }
  }

  private unchanged({ answer, pieces, calls }: Layout): Places {
    const { conversation, shift } = this
    return {
      answer: answering(answer.message, calls, conversation) + shift,
      piece: (index) => (pieces[index]?.entry ?? 0) + shift,
      entry: (entry) => entry + shift,
    }
  }

  /** Adds the answer as its model gave it; results of its calls follow. */
  private rewrite({ answer, pieces, seams, calls }: Layout): Places {
    const { conversation, runs } = this
    const { message, end } = answer
    const copied = this.changes.at(-1)?.end ?? 0
    if (message > copied) runs.push({ from: copied, to: message })
    const begin = message + this.shift
    let at = begin
    const push = (run: EntryRun): number => {
      const place = at
      runs.push(run)
      at += run.to - run.from
      return place
    }
    const header = { from: message, to: conversation.next(message), isMoved: true }
    push(header)
    const divides = new Set(this.form === 'responses' ? seams.values() : [])
    const placesOfPieces = pieces.map(({ entry, part }, index) => {
      if (divides.has(index)) push(header)
      return push({ from: entry, to: conversation.next(entry), part })
    })
    const placesOfCalls = new Map(
      calls.map((call) => [call, push({ from: call, to: endOfCall(conversation, call) })] as const),
    )
    for (let next = message; next < end; next = conversation.endOfMessage(next))
      if (conversation.kindAt(next) !== Kind.ASSISTANT)
        push({ from: next, to: conversation.endOfMessage(next), isMoved: true })
    this.changes.push({ start: message, end, shift: at - end })
    return {
      answer: begin,
      piece: (index) => placesOfPieces[index] ?? begin,
      entry: (entry) => placesOfCalls.get(entry) ?? begin,
    }
  }
}

const NONE: readonly string[] = []
/** Encrypted thoughts have about four. */
const CHARS_A_TOKEN = 4

/** A call with its name and its arguments. */
function endOfCall(conversation: Conversation, call: number): number {
  let end = conversation.next(call)
  while (end < conversation.end && isOfCall(conversation.kindAt(end))) end = conversation.next(end)
  return end
}

function isOfCall(kind: number): boolean {
  return (
    kind > Kind.TOOL && kind !== Kind.TEXT && kind !== Kind.REFUSAL && kind !== Kind.CALL_ID && kind !== Kind.OWN_BLOCK
  )
}

/** The message of an answer that has its calls, or else the first. */
function answering(first: number, [call]: readonly number[], conversation: Conversation): number {
  if (call === undefined) return first
  let message = first
  for (let next = first; next < call; next = conversation.endOfMessage(next)) message = next
  return message
}
