/** Messages and tools as entries → the items and tools of a Responses body, from the bytes of their texts. */

import type { Arena } from '../../core/arena.ts'
import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import {
  CLOSE,
  CLOSE_LIST,
  COMMA,
  type JsonBuilder,
  LINE_END,
  NOTHING,
  OPEN_LIST,
  part,
} from '../../core/json-builder.ts'
import type { ListedTool, OwnFields } from '../../core/own-fields.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { SharedIds } from '../../core/sent-items.ts'
import { type EntryThoughts, writeThoughtsBefore } from '../../core/thoughts.ts'
import { markedEnds } from '../cache-marks.ts'
import { CallPlaces } from '../call-places.ts'
import { SentCallIds, unchangedIds } from '../sent-call-ids.ts'
import type { ToolNames } from '../tool-names.ts'
import { after, OpenaiBodyWriter, PART_ENDS, writtenBefore } from './body-writer.ts'

const SYSTEM_ITEM = part('{"role":"system","content":')
const DEVELOPER_ITEM = part('{"role":"developer","content":')
const USER_ITEM = part('{"role":"user","content":')
const ASSISTANT_ITEM = part('{"role":"assistant","content":')
const CALL_ITEM = part('{"type":"function_call","call_id":"')
const FREE_CALL_ITEM = part('{"type":"custom_tool_call","call_id":"')
const FREE_RESULT_ITEM = part('{"type":"custom_tool_call_output","call_id":"')
const CALL_INPUT = part('","input":"')
const CALL_NAME = part('","name":"')
const CALL_ARGUMENTS = part('","arguments":"')
const RESULT_ITEM = part('{"type":"function_call_output","call_id":"')
const OUTPUT = part('","output":')
const END = part('"}')
const OUTPUT_TEXT = part('{"type":"output_text","text":"')
const REFUSAL_PART = part('{"type":"refusal","refusal":"')
const FORMS = {
  text: part('{"type":"input_text","text":"'),
  image: part('{"type":"input_image","image_url":"'),
  // The API requires it.
  imageDetails: ['auto', 'auto', 'low', 'high', 'original'].map((detail) => part(`","detail":"${detail}"`)),
  file: part('{"type":"input_file",'),
  fileEnds: [part('"}'), ...markedEnds('"', '}')],
  form: 'responses' as const,
  tool: part('{"type":"function","name":"'),
  // The API's own default is strict.
  unknownStrictness: part(',"strict":false'),
  toolEnds: [CLOSE, ...markedEnds('', '}')],
}

type CallIds = Pick<SentCallIds, 'write'>

function asTheyCame(conversation: Conversation): CallIds {
  return { write: (json, block) => json.entry(conversation, block) }
}

export class ResponsesBodyWriter extends OpenaiBodyWriter {
  constructor(
    json: JsonBuilder,
    names: ToolNames,
    /** Models that think take the system's texts as those of the developer. */
    private readonly hasDeveloper: boolean,
    private readonly thoughts: EntryThoughts | undefined,
    /** Tools that take a text, if the server has such. */
    free: ReadonlySet<string> | undefined,
    /** What passes to a server with namespaces: their tools have two names there, and texts stay apart. */
    private readonly own: Pick<OwnFields, 'lifted'> | undefined,
  ) {
    super(json, names, FORMS, free)
  }

  private freeCalls: ReadonlySet<string> | undefined

  /**
   * The list of items, without ids. Throws `ProviderError` `rejected` with `unsent` for sound: a request must not be
   * answered without a part of it.
   */
  input(conversation: Conversation): void {
    const { json } = this
    this.freeCalls = this.callsOf(conversation)
    json.part(OPEN_LIST)
    const known = this.knownIds(conversation)
    const ids = known === undefined ? new SentCallIds(new CallPlaces(conversation)) : asTheyCame(conversation)
    const write = (message: number) => {
      const end = conversation.endOfMessage(message)
      this.message(conversation, message, end, ids)
      return end
    }
    this.continued(conversation, known && this.form, write, known)
    json.part(CLOSE_LIST)
  }

  /** The ids of the calls of a conversation that goes on, if all of it is sent as any other turn sends it. */
  private knownIds(conversation: Conversation): SharedIds | undefined {
    const isPlain = this.thoughts === undefined && this.freeCalls === undefined && !this.names.areChanged
    if (conversation.sent === undefined || !isPlain || conversation.has(Kind.OWN_BLOCK)) return undefined
    const { end, ids } = writtenBefore(conversation, this.form) ?? {}
    if (end === undefined || ids === undefined) return unchangedIds(conversation, 0, SharedIds.of([]))
    return unchangedIds(conversation, conversation.sent.first + end, ids)
  }

  private get form(): string {
    const form = this.hasDeveloper ? 'responses with developer' : 'responses'
    return this.own === undefined ? form : `${form} and namespaces`
  }

  private message(conversation: Conversation, message: number, end: number, ids: CallIds): void {
    const { json } = this
    const first = conversation.next(message)
    switch (conversation.kindAt(message)) {
      case Kind.SYSTEM:
        json.part(this.hasDeveloper ? DEVELOPER_ITEM : SYSTEM_ITEM)
        if (this.own === undefined) this.text(conversation, first, end, LINE_END)
        else this.parts(conversation, first, end)
        json.part(CLOSE)
        return
      case Kind.USER:
        if (conversation.kindAt(first) === Kind.OWN_BLOCK) return this.ownItems(conversation, first, end)
        json.part(USER_ITEM)
        this.parts(conversation, first, end)
        json.part(CLOSE)
        return
      case Kind.TOOL:
        json.part(this.freeCalls?.has(conversation.textAt(first)) === true ? FREE_RESULT_ITEM : RESULT_ITEM)
        ids.write(json, first)
        json.part(OUTPUT)
        this.result(conversation, conversation.next(first), end, conversation.markIndexAt(first))
        json.part(CLOSE)
        return
      default:
        this.answer(conversation, first, end, ids)
    }
  }

  /** Items of the API's own tools, as they came. */
  private ownItems(conversation: Conversation, first: number, end: number): void {
    for (let at = first; at < end; at = conversation.next(at)) {
      if (at > first) this.json.part(COMMA)
      this.json.entry(conversation, at)
    }
  }

  /** One with images or documents is a list of parts; so are several texts that pass. */
  private result(conversation: Conversation, first: number, end: number, mark: number): void {
    if (this.own !== undefined && mark === 0) return this.parts(conversation, first, end)
    for (let at = first; at < end; at = conversation.next(at))
      if (conversation.kindAt(at) !== Kind.TEXT) return this.parts(conversation, first, end)
    this.text(conversation, first, end, LINE_END, mark)
  }

  /** Items of the API's own tools, and of reasoning, are among the texts of an assistant's message, and divide them. */
  private answer(conversation: Conversation, message: number, end: number, ids: CallIds): void {
    let first = message
    if (conversation.has(Kind.OWN_BLOCK) || this.thoughts !== undefined || conversation.phases !== undefined)
      for (let at = first; at < end && conversation.kindAt(at) !== Kind.CALL_ID; at = conversation.next(at)) {
        const isOwn = conversation.kindAt(at) === Kind.OWN_BLOCK
        if (!isOwn && !this.beginsMessage(conversation, at)) continue
        if (first < at) {
          this.turn(conversation, first, at, ids)
          this.json.part(COMMA)
          first = at
        }
        if (!isOwn) continue
        writeThoughtsBefore(at, this.thoughts, this.json)
        this.json.entry(conversation, at)
        first = conversation.next(at)
        if (first < end) this.json.part(COMMA)
      }
    if (first < end || first === message) this.turn(conversation, first, end, ids)
  }

  /** Whether reasoning comes before a text, or it has a phase of its own. */
  private beginsMessage(conversation: Conversation, text: number): boolean {
    const { thoughts, own } = this
    if (thoughts !== undefined && (thoughts.before(text).length > 0 || thoughts.with(text) !== undefined)) return true
    return own !== undefined && conversation.phases?.has(conversation.fromAt(text)) === true
  }

  /** In its entries, texts precede refusals, and these calls. */
  private turn(conversation: Conversation, first: number, end: number, ids: CallIds): void {
    const { json } = this
    const refusals = after(conversation, first, end, Kind.TEXT)
    const calls = after(conversation, refusals, end, Kind.REFUSAL)
    // A message without anything stays one, so that those around it do not follow each other.
    const isSpoken = first < calls || calls === end
    if (isSpoken) {
      for (let at = first; at < calls; at = conversation.next(at)) writeThoughtsBefore(at, this.thoughts, json)
      json.part(ASSISTANT_ITEM)
      this.spoken(conversation, first, refusals, calls)
      this.phase(conversation, first, calls)
      json.part(CLOSE)
    }
    for (let call = calls; call < end; ) {
      const name = conversation.next(call)
      const written = conversation.next(name)
      if (isSpoken || call > calls) json.part(COMMA)
      writeThoughtsBefore(call, this.thoughts, json)
      const isFree = this.freeCalls?.has(conversation.textAt(call)) === true
      json.part(isFree ? FREE_CALL_ITEM : CALL_ITEM)
      ids.write(json, call)
      json.part(CALL_NAME)
      const own = this.own?.lifted?.get(conversation.textAt(name))
      if (own === undefined) this.names.write(json, conversation, name)
      else json.inside(own.name)
      json.part(isFree ? CALL_INPUT : CALL_ARGUMENTS)
      if (isFree) this.freeText(conversation, written)
      else this.argumentsOf(conversation, written)
      if (own?.namespace !== undefined) json.text(`","namespace":${JSON.stringify(own.namespace).slice(0, -1)}`)
      json.part(END)
      call = conversation.next(written)
    }
  }

  /** The one that weir has kept, or that the caller sends back. */
  private phase(conversation: Conversation, first: number, end: number): void {
    const phases = this.own && conversation.phases
    if (this.thoughts === undefined && phases === undefined) return
    for (let at = first; at < end; at = conversation.next(at)) {
      const phase = this.thoughts?.with(at)
      if (phase !== undefined) return this.json.text(`,"phase":${phase}`)
      const sent = phases?.get(conversation.fromAt(at))
      if (sent !== undefined) return this.json.text(`,"phase":"${sent}"`)
    }
  }

  private spoken(conversation: Conversation, first: number, refusals: number, calls: number): void {
    const { json } = this
    let isMarked = false
    for (let at = first; at < calls; at = conversation.next(at)) isMarked ||= conversation.bitsAt(at) >= MARKED
    if (refusals === calls && !isMarked) return this.text(conversation, first, refusals, NOTHING)
    json.part(OPEN_LIST)
    for (let at = first; at < calls; at = conversation.next(at)) {
      if (at > first) json.part(COMMA)
      json.entryBetween(
        at < refusals ? OUTPUT_TEXT : REFUSAL_PART,
        conversation,
        at,
        PART_ENDS[conversation.markIndexAt(at)] ?? NOTHING,
      )
    }
    json.part(CLOSE_LIST)
  }

  /** The tools as their caller listed them. */
  listed(tools: readonly ListedTool[], arena: Arena): void {
    const { json } = this
    json.part(OPEN_LIST)
    for (const [index, { from, to, kind }] of tools.entries()) {
      const lacksStrictness = kind === 'strictness unknown'
      if (index > 0) json.part(COMMA)
      json.span(from, lacksStrictness ? to - 1 : to, arena)
      if (!lacksStrictness) continue
      json.part(FORMS.unknownStrictness)
      json.part(CLOSE)
    }
    json.part(CLOSE_LIST)
  }

  protected audio(): never {
    throw new ProviderError('rejected', 'The Responses API takes no parts of type "input_audio".', { unsent: true })
  }
}
