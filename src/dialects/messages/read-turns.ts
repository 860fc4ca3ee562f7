/**
 * The system texts and messages of a Messages body → entries. Every block is read by its known members, so that unknown
 * ones never reach a provider.
 */

import type { Arena } from '../../core/arena.ts'
import { CONTINUED, Conversation, ENTRY_INTS, EXACT, FAILED, NEEDED } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { refuseForbiddenMembers } from '../forbidden-fields.ts'
import { invalid, missing } from '../invalid-field.ts'
import { MediaReader } from '../read-media.ts'
import { ThoughtPlaces } from '../thought-places.ts'
import { BlockCursor, blockMembers, MEMBERS, type ReadOptions, TYPES, unsupportedBlock } from './block-cursor.ts'
import { readDocument } from './read-document.ts'

const MESSAGE = words('role', 'content')
const [ROLE, CONTENT] = [0, 1]
const ROLES = words('user', 'assistant', 'system')
const ASSISTANT_ROLE = 1
const SYSTEM_ROLE = 2
/** What a result refers to: a tool that the request defines. */
const REFERENCES = words('tool_reference')
const CONTENT_NAME = words('content')
const SOURCE = words('type', 'media_type', 'data', 'url')
const SOURCE_TYPES = words('base64', 'url')
const [BASE64, URL_SOURCE] = [0, 1]
/** Those that every provider knows by these names. */
const MEDIA_TYPES = words('image/png', 'image/jpeg', 'image/gif', 'image/webp')
const IMAGE_TYPE = /^image\/[\w.+-]+$/

/** Members of the message that is read, and of the source of its current block. */
const found = new Int32Array(MESSAGE.length)
const source = new Int32Array(SOURCE.length)

/** Whether the schema of a body accepts these messages. */
export function areMessages(document: JsonDocument, messages: number): boolean {
  if (!document.isList(messages)) return false
  const first = document.firstItem(messages)
  for (let message = first; message !== NONE; message = document.nextItem(message)) {
    if (!document.isObject(message)) return false
    document.select(message, MESSAGE, found)
    const role = found[ROLE] ?? NONE
    const content = found[CONTENT] ?? NONE
    if (!document.isString(role)) return false
    if (!document.isString(content) && !document.isList(content)) return false
  }
  return first !== NONE
}

const entries = new EntryWriter()
/** Of the message that is being read: its calls, its own texts and images, and the images of its results. */
const calls = new EntryWriter()
const own = new EntryWriter()
const moved = new EntryWriter()

/**
 * `system` and `messages`, which the schema accepts. Throws `CallerError` with the path of the invalid field.
 *
 * A message is exact if Anthropic's writer makes the same value of it, as long as it changes neither ids, names nor
 * marks: it has no other members than those that are written, and no blank text.
 */
export function readConversation(
  document: JsonDocument,
  arena: Arena,
  { system, messages }: { readonly system: number; readonly messages: number },
  reading: ReadOptions,
): Conversation {
  entries.begin()
  const reader = new MessageReader(document, arena, reading)
  if (!document.isNull(system)) reader.system(system)
  for (let item = document.firstItem(messages); item !== NONE; item = document.nextItem(item)) reader.message(item)
  return new Conversation(arena, entries.take(), 'messages', undefined, reader.thoughts.whole, reader.blocks)
}

/** Reads one message after the other. */
class MessageReader extends BlockCursor {
  readonly thoughts = new ThoughtPlaces()
  private readonly media: MediaReader

  constructor(
    document: JsonDocument,
    private readonly arena: Arena,
    reading: ReadOptions,
  ) {
    super(document, reading)
    this.media = new MediaReader(document, arena, reading)
  }

  /** A system without text is left out. */
  system(system: number): void {
    const { document } = this
    const entry = entries.add(Kind.SYSTEM, 0, 0)
    const isList = document.isList(system)
    this.isExact = isList || (this.reading.passesOwn && this.isSolid(system))
    if (isList) this.texts(system)
    else this.string(system)
    if (entries.next === entry + ENTRY_INTS) entries.truncate(entry)
    else if (this.isExact) {
      const quote = document.isString(system) ? 1 : 0
      entries.set(entry, Kind.SYSTEM | EXACT, document.fromOf(system) - quote, document.toOf(system) + quote)
    }
  }

  message(message: number): void {
    const { document } = this
    this.index++
    this.thoughts.begin()
    const members = document.select(message, MESSAGE, found)
    const role = document.word(found[ROLE] ?? NONE, ROLES)
    const content = found[CONTENT] ?? NONE
    const isList = document.isList(content)
    const first = entries.next
    if (this.reading.passesOwn && members > MESSAGE.length)
      refuseForbiddenMembers(document, message, () => `messages[${this.index}]`, CONTENT_NAME)
    this.isExact = this.reading.passesOwn
      ? role !== NONE && (isList || this.isSolid(content))
      : isList && members === MESSAGE.length && role !== NONE && role !== SYSTEM_ROLE
    // Every other role counts as the user's.
    if (isList) role === ASSISTANT_ROLE ? this.answer(content) : this.turn(content)
    else {
      entries.add(role === ASSISTANT_ROLE ? Kind.ASSISTANT : Kind.USER, 0, 0)
      if (role === ASSISTANT_ROLE) this.string(content)
      else entries.addValue(Kind.TEXT, document, content)
    }
    if (this.isExact)
      entries.set(first, entries.kindAt(first) | EXACT, document.fromOf(message), document.toOf(message))
  }

  /** An empty text is left out, because Anthropic rejects it. */
  private string(value: number): void {
    const { document } = this
    if (document.isFilled(value)) entries.addValue(Kind.TEXT, document, value)
  }

  /** Text after a call moves before it, because other APIs have no order between the two. */
  private answer(content: number): void {
    const { document } = this
    const answer = entries.add(Kind.ASSISTANT, 0, 0)
    const takesThoughts = this.reading.takesThoughts === true
    calls.begin()
    this.block = 0
    for (let block = document.firstItem(content); block !== NONE; block = document.nextItem(block), this.block++) {
      const type = this.typeOf(block)
      if (takesThoughts && (type === TYPES.thinking || type === TYPES.redacted)) this.thought(type)
      else if (type === TYPES.text) {
        if (!calls.isEmpty && !this.reading.passesOwn) this.isExact = false
        this.text(block, entries)
      } else if (type === TYPES.call) this.call(block)
      else if (this.passes(block)) this.own(block, entries, Kind.OWN_BLOCK)
      else throw unsupportedBlock(`${this.path()}.type`)
    }
    entries.addAll(calls)
    // Such a message is left out.
    if (entries.next === answer + ENTRY_INTS) this.isExact = false
  }

  /**
   * A user's content: first the results of tools, because other APIs require them right after the calls, then the
   * images of these, then the user's own text and images. A message without any content becomes one with an empty text.
   */
  private turn(content: number): void {
    const { document } = this
    const first = entries.next
    own.begin()
    moved.begin()
    this.block = 0
    for (let block = document.firstItem(content); block !== NONE; block = document.nextItem(block), this.block++) {
      const type = this.typeOf(block)
      if (type === TYPES.text) this.text(block, own)
      else if (type === TYPES.result) this.result(block, entries.next === first ? Kind.TOOL : Kind.TOOL | CONTINUED)
      else if (type === TYPES.image) this.image(own)
      else if (type === TYPES.document && this.reading.takesContent) this.documentBlock(own, block)
      else if (this.passes(block)) this.own(block, own, Kind.OWN_BLOCK | NEEDED)
      else throw unsupportedBlock(`${this.path()}.type`)
    }
    const hasResults = entries.next > first
    const isEmpty = own.isEmpty && moved.isEmpty
    if (hasResults && isEmpty) return
    entries.add(hasResults ? Kind.USER | CONTINUED : Kind.USER, 0, 0)
    entries.addAll(moved)
    entries.addAll(own)
    if (!isEmpty) return
    this.isExact = false
    entries.add(Kind.TEXT, 0, 0)
  }

  private own(block: number, into: EntryWriter, kind: number): void {
    this.reading.limits.count('tool calls', this.path)
    const mark = this.mark()
    const from = this.document.fromOf(block)
    into.add(kind + mark * MARKED, from, this.document.toOf(block))
    this.hasMore = true
    this.note(block, from, mark)
    this.thoughts.place(from)
  }

  /** A list of nothing but texts, of the system. */
  private texts(list: number): void {
    const { document } = this
    for (let block = document.firstItem(list); block !== NONE; block = document.nextItem(block), this.block++) {
      if (this.typeOf(block) !== TYPES.text) throw unsupportedBlock(`${this.path()}.type`)
      this.text(block, entries)
    }
  }

  /** An empty text is left out here, a blank one by most providers. */
  private text(block: number, into: EntryWriter): void {
    const { document } = this
    const text = blockMembers[MEMBERS.text] ?? NONE
    if (!document.isString(text)) throw missing(`${this.path()}.text`)
    const mark = this.mark()
    const from = document.fromOf(text)
    const to = document.toOf(text)
    this.expect(mark === 0 ? 2 : 3)
    this.expectSolid(text)
    if (from === to) return
    into.add(Kind.TEXT + mark * MARKED, from, to)
    if (this.inner === NONE && this.nested === NONE) this.note(block, from, mark)
    this.thoughts.place(from)
  }

  /** One without words or a seal of ours has no effect. */
  private thought(type: number): void {
    const isRedacted = type === TYPES.redacted
    this.isExact = false
    const seal = this.stringOf(blockMembers[isRedacted ? MEMBERS.data : MEMBERS.signature] ?? NONE)
    const text = isRedacted ? '' : this.stringOf(blockMembers[MEMBERS.thinking] ?? NONE)
    if (seal !== undefined && text !== undefined) this.thoughts.add({ text, seal })
  }

  /** The marks of the texts of a result, the entry of whose id this is, by their indexes in `MARKS`. */
  private innerMarks(result: number): number {
    let marks = 0
    for (let text = result + ENTRY_INTS; text < entries.next; text += ENTRY_INTS) marks += entries.markAt(text)
    return marks
  }

  private documentBlock(into: EntryWriter, block: number): void {
    const { document, media, path } = this
    const surroundings = { document, media, limits: this.reading.limits, unsupported: unsupportedBlock }
    if (!this.reading.passesOwn) this.isExact = false
    readDocument(surroundings, into, block, this.mark() * MARKED, path, (list) => this.documentParts(list, into))
  }

  /** Texts and images. */
  private documentParts(list: number, into: EntryWriter): void {
    const { document } = this
    this.nested = 0
    for (let block = document.firstItem(list); block !== NONE; block = document.nextItem(block), this.nested++) {
      const type = this.typeOf(block)
      if (type === TYPES.text) this.text(block, into)
      else if (type === TYPES.image) this.image(into)
      else throw unsupportedBlock(`${this.path()}.type`)
    }
    this.nested = NONE
  }

  /** No id of a file of the operator's own account; by default no address, either. */
  private image(into: EntryWriter): void {
    const { document, path } = this
    this.reading.limits.count('images', path)
    // Whether the writer changes the media type is up to it.
    if (!this.reading.passesOwn) this.isExact = false
    const object = blockMembers[MEMBERS.source] ?? NONE
    if (!document.isObject(object)) throw missing(`${path()}.source`)
    document.select(object, SOURCE, source)
    const how = document.word(source[0] ?? NONE, SOURCE_TYPES)
    if (how === URL_SOURCE && this.reading.takesContent) {
      const url = source[3] ?? NONE
      if (!document.isFilled(url)) throw missing(`${path()}.source.url`)
      this.media.address(into, Kind.IMAGE_URL + this.mark() * MARKED, url, () => `${path()}.source.url`)
      return
    }
    if (how !== BASE64) throw unsupportedBlock(`${path()}.source.type`)
    const type = source[1] ?? NONE
    if (!document.isString(type)) throw missing(`${path()}.source.media_type`)
    if (!IMAGE_TYPE.test(document.text(type)))
      throw invalid(`${path()}.source.media_type`, 'must be the media type of an image, such as image/png')
    if (document.word(type, MEDIA_TYPES) === NONE) this.isExact = false
    const data = source[2] ?? NONE
    if (!document.isFilled(data)) throw missing(`${path()}.source.data`)
    if (this.reading.takesContent) {
      const kind = Kind.IMAGE + this.mark() * MARKED
      this.media.base64(into, kind, data, document.text(type), () => `${path()}.source.data`)
      return
    }
    into.addValue(Kind.IMAGE + this.mark() * MARKED, document, data)
    into.addValue(Kind.MEDIA_TYPE, document, type)
  }

  private call(block: number): void {
    const { document, path } = this
    this.reading.limits.count('tool calls', path)
    const id = blockMembers[MEMBERS.id] ?? NONE
    const name = blockMembers[MEMBERS.name] ?? NONE
    const input = blockMembers[MEMBERS.input] ?? NONE
    if (!document.isFilled(id)) throw missing(`${path()}.id`)
    if (!document.isFilled(name)) throw missing(`${path()}.name`)
    const hasInput = !document.isNull(input)
    if (hasInput && !document.isObject(input)) throw invalid(`${path()}.input`, 'must be an object')
    const mark = this.mark()
    this.expect(mark === 0 ? 4 : 5)
    calls.addValue(Kind.CALL_ID + mark * MARKED, document, id)
    this.thoughts.placeCall(document.fromOf(id))
    calls.addValue(Kind.NAME, document, name)
    this.note(block, document.fromOf(id), mark)
    if (hasInput) {
      calls.addValue(Kind.INPUT, document, input)
      return
    }
    this.isExact = false
    calls.add(Kind.INPUT, this.arena.addJson('{}'), this.arena.end)
  }

  /** `kind`: that of the message which it becomes. */
  private result(block: number, kind: number): void {
    const { document, path } = this
    this.reading.limits.count('results of tool calls', path)
    const id = blockMembers[MEMBERS.callId] ?? NONE
    if (!document.isFilled(id)) throw missing(`${path()}.tool_use_id`)
    const isFailed = document.isTrue(blockMembers[MEMBERS.isError] ?? NONE)
    const mark = this.mark()
    const content = blockMembers[MEMBERS.content] ?? NONE
    this.expect(2 + (mark === 0 ? 0 : 1) + (isFailed ? 1 : 0) + (content === NONE ? 0 : 1))
    if (!own.isEmpty && !this.reading.passesOwn) this.isExact = false
    entries.add(kind, 0, 0)
    const entry = entries.next
    entries.addValue(Kind.RESULT_ID + (isFailed ? FAILED : 0) + mark * MARKED, document, id)
    const hasMore = this.hasMore
    if (document.isNull(content)) {
      if (content !== NONE) this.isExact = false
    } else if (document.isString(content)) {
      this.expectSolid(content)
      this.string(content)
    } else if (document.isList(content)) this.resultBlocks(content, entry, mark)
    else throw invalid(`${path()}.content`, 'must be a string or an array of blocks')
    this.hasMore ||= hasMore
    this.note(block, document.fromOf(id), mark + this.innerMarks(entry))
  }

  /**
   * Unless all content passes, images are taken out of the result, because most providers allow only text there. Its
   * cache mark moves to the last of them, because a mark covers everything before it. `result` is the entry that has
   * it.
   */
  private resultBlocks(list: number, result: number, mark: number): void {
    const { document } = this
    let image = NONE
    let hasMore = false
    this.inner = 0
    for (let block = document.firstItem(list); block !== NONE; block = document.nextItem(block), this.inner++) {
      const type = this.typeOf(block)
      if (type === TYPES.text) this.text(block, entries)
      else if (document.word(blockMembers[MEMBERS.type] ?? NONE, REFERENCES) !== NONE && this.passes(block))
        this.lacks()
      else if (type === TYPES.image && this.reading.takesContent) this.image(entries)
      else if (type === TYPES.document && this.reading.takesContent) this.documentBlock(entries, block)
      else if (type === TYPES.image && this.reading.toolResultImages === 'pass') {
        image = moved.next
        this.image(moved)
      } else if (this.passes(block)) this.own(block, entries, Kind.OWN_BLOCK | NEEDED)
      else throw unsupportedBlock(`${this.path()}.type`)
      hasMore ||= this.hasMore
    }
    this.inner = NONE
    this.hasMore = hasMore
    // A single text without a mark is written as a string, an empty list not at all.
    const first = result + ENTRY_INTS
    const isSingle = entries.next === first + ENTRY_INTS
    const isWrittenSo = entries.next > first && !(isSingle && !entries.isMarkedAt(first))
    if (!isWrittenSo && !(this.reading.passesOwn && document.firstItem(list) !== NONE)) this.isExact = false
    if (image === NONE || mark === 0) return
    entries.mark(result, 0)
    moved.mark(image, mark)
  }
}
