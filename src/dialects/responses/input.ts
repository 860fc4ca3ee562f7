/**
 * `input` → a conversation: calls that belong together in one turn, each output after its turn. Every item is read by
 * its known members.
 */

import type { Arena } from '../../core/arena.ts'
import { CallerError } from '../../core/caller-error.ts'
import { Conversation, ENTRY_INTS } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { PART_SEAM } from '../../core/reasoning.ts'
import { SentItems } from '../../core/sent-items.ts'
import { FREE_CLOSING, FREE_OPENING } from '../../core/tool-list.ts'
import type { Sealer } from '../../items/sealer.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { readMark } from '../cache-mark.ts'
import type { Caller } from '../dialect.ts'
import { refuseForbiddenMembers } from '../forbidden-fields.ts'
import { readArguments } from '../history-arguments.ts'
import { invalid, missing } from '../invalid-field.ts'
import { detailBits, MediaReader, type MediaRules } from '../read-media.ts'
import { ThoughtPlaces } from '../thought-places.ts'
import { openSummary, SUMMARY_INSTRUCTION, summaryText } from './compaction.ts'
import type { EarlierInput, ReadState } from './earlier-input.ts'
import { ITEMS, type Items, isOfProgram, OWN_ITEMS, OWN_OUTPUTS } from './item-types.ts'
import type { Toolbox } from './toolbox.ts'
import { type OrderState, TurnOrder } from './turn-order.ts'

const MESSAGE = words('role', 'content', 'phase')
const CALL = words('call_id', 'name', 'arguments', 'namespace', 'input', 'caller')
const OUTPUT = words('call_id', 'output')
const COMPACTION = words('encrypted_content')
const ROLES = words('user', 'assistant', 'system', 'developer')
/** The kind of message of each role, by its index in `ROLES`; every other role counts as the user's. */
const ROLE_KINDS = [Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.SYSTEM]
const PART = words('type', 'text', 'cache_control')
const PART_TYPES = words('input_text', 'output_text', 'text', 'input_image', 'input_file')
const [INPUT_IMAGE, INPUT_FILE] = [3, 4]
const MEDIA = words('image_url', 'detail', 'file_data', 'file_url', 'filename', 'file_id')
const REASONING = words('encrypted_content', 'summary')
const SUMMARY_PART = words('text')

/** What converting items needs. */
interface Surroundings extends MediaRules {
  readonly document: JsonDocument
  readonly arena: Arena
  readonly toolbox: Toolbox
  readonly sealer: Sealer
  readonly caller: Caller
  /** Whether reasoning items have an effect. */
  readonly takesThoughts: boolean
  /** Whether calls of tools may come that take a text instead of arguments. */
  readonly takesFree: boolean
  /** What a turn on a socket continues. */
  readonly earlier?: EarlierInput | undefined
}

/** Members of the item that is read, and of its part. */
const message = new Int32Array(MESSAGE.length)
const called = new Int32Array(CALL.length)
const answered = new Int32Array(OUTPUT.length)
const partMembers = new Int32Array(PART.length)
const reasoned = new Int32Array(REASONING.length)
const mediaMembers = new Int32Array(MEDIA.length)
/** The entries of the instructions: their role and their text. */
const INSTRUCTION_INTS = 2 * ENTRY_INTS
/** Texts of the item that is read, its images and its documents, which may come to nothing. */
const texts = new EntryWriter()

/** Takes items in order; `conversation` returns all of it. One for each request. */
export class InputReader {
  private readonly order = new TurnOrder()
  /** A message without text was left out. */
  private hasEmpty = false
  /** A call has the name under which a tool of a namespace is sent. */
  private hasLifted = false
  /** The fields of cache marks, by the first byte of the text that carries each. */
  private paths: Map<number, string> | undefined
  /** How many items the turn continues. */
  private readonly first: number
  private index = 0
  private readonly thoughts = new ThoughtPlaces()
  private phases: Map<number, string> | undefined
  /** The ids of calls that programs of the model made. */
  private programCalls: Set<string> | undefined
  /** Absent: images and documents are ignored. */
  private readonly media: MediaReader | undefined

  constructor(private readonly surroundings: Surroundings) {
    const { document, arena, caller, earlier } = surroundings
    if (earlier !== undefined) this.order.restore(earlier.state.order, -earlier.bytes.size)
    this.hasEmpty = earlier?.state.hasEmpty === true
    this.hasLifted = earlier?.state.hasLifted === true
    this.first = earlier?.state.items ?? 0
    if (caller.compatibility?.content === 'pass') this.media = new MediaReader(document, arena, surroundings)
  }

  /** An input that is a string. */
  text(input: number): void {
    texts.begin()
    this.string(input)
    this.addMessage(Kind.USER)
  }

  /** Throws `CallerError` with the path of the invalid field. */
  items({ items, types }: Items): void {
    for (let index = 0; index < items.length; index++) {
      this.index = this.first + index
      this.item(items[index] ?? NONE, types[index] ?? NONE)
    }
  }

  /**
   * `instructions` first, then the leading system messages, the summaries, and the rest. The summaries follow the
   * system messages because many chat templates accept system messages only at the start. With `compact`, the last
   * message asks for a summary. Throws `CallerError` if no item had any content. `continues`: the
   * state, if other turns may continue it.
   */
  conversation(instructions: number, compact: boolean, continues: OrderState | undefined): Conversation {
    const { document, arena } = this.surroundings
    const { order } = this
    if (order.isEmpty && !this.hasEmpty && !compact) throw invalid('input', 'holds no item that a model could answer')
    const hasInstructions = document.isFilled(instructions)
    if (hasInstructions) order.instructions(document.fromOf(instructions), document.toOf(instructions))
    if (!order.isSpoken && this.hasEmpty) order.userText(0, 0)
    if (compact) order.userText(arena.addText(SUMMARY_INSTRUCTION), arena.end)
    const entries = order.take()
    const first = hasInstructions ? INSTRUCTION_INTS : 0
    const sent = continues && new SentItems(first, entries.length - first, this.surroundings.earlier?.sent)
    const { paths, thoughts, phases } = this
    return new Conversation(arena, entries, 'responses', paths, thoughts.whole, undefined, sent, phases)
  }

  /** What was read, if nothing of it has to be read again for a turn that continues it. Before `conversation`. */
  get state(): Pick<ReadState, 'order' | 'hasEmpty' | 'hasLifted'> | undefined {
    const { toolbox } = this.surroundings
    if (this.paths !== undefined || this.thoughts.isUsed || this.phases !== undefined) return undefined
    if (this.programCalls !== undefined) return undefined
    if (toolbox.hasUnlisted) return undefined
    const { order, hasEmpty, hasLifted } = this
    const { state } = order
    return state && { order: state, hasEmpty, hasLifted }
  }

  private item(item: number, type: number): void {
    switch (type) {
      case ITEMS.message:
        return this.readMessage(item)
      case ITEMS.call:
        return this.readCall(item)
      case ITEMS.output:
        return this.readOutput(item)
      case ITEMS.freeCall:
        if (this.surroundings.takesFree) this.readCall(item, true)
        return
      case ITEMS.freeOutput:
        if (this.surroundings.takesFree) this.readOutput(item)
        return
      case ITEMS.compaction:
      case ITEMS.summary:
        return this.readSummary(item)
      case ITEMS.reasoning:
        if (this.surroundings.takesThoughts) this.readThought(item)
        return
      default:
        if (type >= OWN_ITEMS && this.surroundings.takesFree)
          this.readOwn(item, type < OWN_OUTPUTS ? Kind.ASSISTANT : Kind.USER)
    }
  }

  private get path(): string {
    return `input[${this.index}]`
  }

  /** A message without text is left out, because several providers reject it. */
  private readMessage(item: number): void {
    const { document } = this.surroundings
    document.select(item, MESSAGE, message)
    const role = ROLE_KINDS[document.word(message[0] ?? NONE, ROLES)] ?? Kind.USER
    this.content(message[1] ?? NONE, 'content', role === Kind.USER)
    if (role === Kind.ASSISTANT && this.surroundings.takesFree) this.readPhase(message[2] ?? NONE)
    this.addMessage(role)
  }

  /** Whether the message that is read is a comment or the answer. */
  private readPhase(phase: number): void {
    const { document } = this.surroundings
    if (texts.isEmpty || !document.isString(phase)) return
    this.phases ??= new Map()
    this.phases.set(texts.fromAt(0), document.written(phase))
  }

  private addMessage(role: number): void {
    if (texts.isEmpty) this.hasEmpty = true
    else if (role === Kind.ASSISTANT) {
      this.thoughts.place(texts.fromAt(0))
      this.order.answer(texts)
    } else {
      this.thoughts.begin()
      this.order.message(role, texts)
    }
  }

  /** An item of OpenAI's own tools: it passes as it is. */
  private readOwn(item: number, role: number): void {
    const { document, limits } = this.surroundings
    limits.count('tool calls', () => this.path)
    refuseForbiddenMembers(document, item, () => this.path)
    texts.begin()
    texts.addValue(Kind.OWN_BLOCK, document, item)
    this.addMessage(role)
  }

  /** `isFree`: a tool that takes a text instead of arguments. */
  private readCall(item: number, isFree = false): void {
    const { document, limits, toolbox, arena } = this.surroundings
    limits.count('tool calls', () => this.path)
    document.select(item, CALL, called)
    const id = this.required(called[0] ?? NONE, 'call_id')
    const namespace = called[3] ?? NONE
    const name = this.required(called[1] ?? NONE, 'name')
    if (this.surroundings.takesFree && isOfProgram(document, called[5] ?? NONE)) {
      this.programCalls ??= new Set()
      this.programCalls.add(document.text(id))
      return this.readOwn(item, Kind.ASSISTANT)
    }
    this.thoughts.placeCall(document.fromOf(id))
    const calls = this.order.call(document.fromOf(id), document.toOf(id))
    if (!document.isFilled(namespace)) calls.addValue(Kind.NAME, document, name)
    else {
      // A tool in a namespace has another name for the provider.
      this.hasLifted = true
      const own = { name: document.text(name), namespace: document.text(namespace) }
      calls.addText(Kind.NAME, arena, toolbox.sentName(own))
    }
    if (isFree) return this.freeText(calls, called[4] ?? NONE)
    readArguments(document, called[2] ?? NONE, { entries: calls, arena, limits }, () => `${this.path}.arguments`)
  }

  private freeText(calls: EntryWriter, input: number): void {
    const { document, arena, limits } = this.surroundings
    if (!document.isNull(input) && !document.isString(input)) throw invalid(`${this.path}.input`, 'must be a string')
    limits.addCallValues(1, () => this.path)
    const inside = document.isNull(input) ? '' : document.written(input)
    calls.add(Kind.INPUT, arena.addJson(FREE_OPENING + inside + FREE_CLOSING), arena.end)
  }

  private readOutput(item: number): void {
    const { document, limits, arena } = this.surroundings
    limits.count('results of tool calls', this.path)
    document.select(item, OUTPUT, answered)
    const id = this.required(answered[0] ?? NONE, 'call_id')
    if (this.programCalls?.has(document.text(id)) === true) return this.readOwn(item, Kind.USER)
    const output = answered[1] ?? NONE
    const isContent = document.isNull(output) || document.isString(output) || document.isList(output)
    if (isContent) this.content(output, 'output', true)
    else {
      // Any other value that a caller's function returned goes to the model as JSON.
      texts.begin()
      texts.addText(Kind.TEXT, arena, JSON.stringify(document.value(output)))
    }
    this.thoughts.results()
    this.order.output(arena, document.fromOf(id), document.toOf(id), texts)
  }

  /** One without a seal of ours has no effect. */
  private readThought(item: number): void {
    const { document } = this.surroundings
    document.select(item, REASONING, reasoned)
    const seal = reasoned[0] ?? NONE
    const summary = reasoned[1] ?? NONE
    if (!document.isString(seal)) return
    const words: string[] = []
    const first = document.isList(summary) ? document.firstItem(summary) : NONE
    for (let part = first; part !== NONE; part = document.nextItem(part)) {
      const text = document.isObject(part) ? document.member(part, SUMMARY_PART) : NONE
      if (document.isString(text)) words.push(document.text(text))
    }
    this.thoughts.add({ text: words.join(PART_SEAM), seal: document.text(seal) })
  }

  private readSummary(item: number): void {
    const { document, limits, sealer, caller, arena } = this.surroundings
    limits.count('compaction items', this.path)
    const content = document.member(item, COMPACTION)
    const sealed = document.isString(content) ? document.text(content) : undefined
    const summary = openSummary(sealer, caller.organization, sealed)
    if (summary === undefined) throw unreadable(`${this.path}.encrypted_content`)
    this.order.summary(arena.addText(summaryText(summary)), arena.end)
  }

  private required(value: number, field: string): number {
    const { document } = this.surroundings
    if (document.isNull(value)) throw missing(`${this.path}.${field}`)
    if (!document.isString(value)) throw invalid(`${this.path}.${field}`, 'must be a string')
    if (!document.isFilled(value)) throw missing(`${this.path}.${field}`)
    return value
  }

  /**
   * A string, or parts. Those that are no text are ignored, unless they are images or documents that may pass. The mark
   * of an ignored part moves to the part before it, because a mark covers everything before it, or to the part after it
   * if there is none before.
   */
  private content(content: number, field: string, hasMedia: boolean): void {
    const { document } = this.surroundings
    texts.begin()
    if (document.isNull(content)) return
    if (document.isString(content)) return this.string(content)
    if (!document.isList(content)) throw invalid(`${this.path}.${field}`, 'must be a string or an array of parts')
    const moved: Moved = { entry: NONE, mark: 0, path: '' }
    let index = 0
    for (let part = document.firstItem(content); part !== NONE; part = document.nextItem(part), index++)
      this.readPart(part, moved, hasMedia, () => `${this.path}.${field}[${index}]`)
  }

  private readPart(part: number, moved: Moved, hasMedia: boolean, path: () => string): void {
    const { document } = this.surroundings
    if (!document.isObject(part)) throw invalid(path(), 'must be an object')
    document.select(part, PART, partMembers)
    const mark = readMark(document, partMembers[2] ?? NONE, path)
    const type = document.word(partMembers[0] ?? NONE, PART_TYPES)
    const isText = type !== NONE && type < INPUT_IMAGE
    if (this.media !== undefined && hasMedia && type !== NONE && !isText) {
      const own = this.markOf(mark, moved)
      const entry = this.readMedia(this.media, part, type, own * MARKED, path)
      this.place(entry, moved, mark, path)
      return
    }
    const text = partMembers[1] ?? NONE
    if (isText && text === NONE) throw missing(`${path()}.text`)
    if (isText && !document.isString(text)) throw invalid(`${path()}.text`, 'must be a string')
    const from = isText ? document.fromOf(text) : 0
    const to = isText ? document.toOf(text) : 0
    if (from === to) {
      if (mark === 0) return
      if (moved.entry === NONE) {
        moved.mark = mark
        moved.path = path()
      } else {
        texts.mark(moved.entry, mark)
        this.notePath(moved.from ?? 0, path())
      }
      return
    }
    const entry = texts.add(Kind.TEXT + this.markOf(mark, moved) * MARKED, from, to)
    this.place(entry, moved, mark, path)
  }

  /** The mark of a part: its own, or that of ignored parts before all others. */
  private markOf(mark: number, moved: Moved): number {
    return mark > 0 ? mark : moved.entry === NONE ? moved.mark : 0
  }

  /** Notes the entry of a part that was added. */
  private place(entry: number, moved: Moved, mark: number, path: () => string): void {
    const from = texts.fromAt(entry)
    if (this.markOf(mark, moved) > 0) this.notePath(from, mark > 0 ? path() : moved.path)
    moved.entry = entry
    moved.from = from
  }

  /** An image or a document; none by an id, which would name a file of the operator's own account. */
  private readMedia(media: MediaReader, part: number, type: number, added: number, path: () => string): number {
    const { document } = this.surroundings
    document.select(part, MEDIA, mediaMembers)
    const stringOf = (index: number, field: string) => {
      const value = mediaMembers[index] ?? NONE
      if (document.isNull(value)) return NONE
      if (!document.isString(value)) throw invalid(`${path()}.${field}`, 'must be a string')
      return document.isFilled(value) ? value : NONE
    }
    const [id, isImage] = [stringOf(5, 'file_id'), type !== INPUT_FILE]
    const url = isImage ? stringOf(0, 'image_url') : stringOf(3, 'file_url')
    const data = isImage ? NONE : stringOf(2, 'file_data')
    if (url === NONE && data === NONE) {
      const instead = isImage ? 'image_url' : 'file_data or file_url'
      if (id === NONE) throw missing(`${path()}.${isImage ? 'image_url' : 'file_data'}`)
      throw invalid(`${path()}.file_id`, `files by id are not supported; send ${instead}`)
    }
    if (!isImage)
      return media.file(texts, { data, url, name: stringOf(4, 'filename') }, added, (field) => `${path()}.${field}`)
    const detail = stringOf(1, 'detail')
    const bits = detail === NONE ? 0 : detailBits(document.text(detail))
    return media.image(texts, url, bits + added, () => `${path()}.image_url`)
  }

  private notePath(from: number, path: string): void {
    this.paths ??= new Map()
    this.paths.set(from, `${path}.cache_control`)
  }

  private string(value: number): void {
    const { document } = this.surroundings
    if (document.isFilled(value)) texts.addValue(Kind.TEXT, document, value)
  }
}

/** Where the mark of an ignored part goes: to the last text, or from before the first one. */
interface Moved {
  entry: number
  from?: number
  mark: number
  path: string
}

/** One message for all causes: naming the check that failed would help only a forger. */
function unreadable(param: string): CallerError {
  return new CallerError(
    'invalid_field',
    `'${param}' could not be read. Send the item back unchanged, or start from the original conversation.`,
    { param },
  )
}
