/**
 * The messages of a Chat Completions body → entries. Every part is read by its known members, so that unknown
 * ones never reach a provider.
 */

import type { Arena } from '../../core/arena.ts'
import { Conversation, DETAILED, EXACT } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { FREE_CLOSING, FREE_OPENING } from '../../core/tool-list.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { readMark } from '../cache-mark.ts'
import { readArguments } from '../history-arguments.ts'
import { checkImageUrl, isAddress } from '../image-url.ts'
import { invalid, missing } from '../invalid-field.ts'
import { DATA_URL, DATA_URL_HEAD_CHARS_MAX, MediaReader, type MediaRules } from '../read-media.ts'
import { ThoughtPlaces } from '../thought-places.ts'

const MESSAGE = words(
  ...['role', 'content', 'tool_calls', 'tool_call_id', 'cache_control', 'refusal', 'reasoning_content'],
)
const [ROLE, CONTENT, TOOL_CALLS, TOOL_CALL_ID, CACHE_CONTROL, REFUSED, THOUGHTS] = [0, 1, 2, 3, 4, 5, 6]
const ROLES = words('system', 'user', 'assistant', 'tool', 'developer')
/** The kind of message of each role, by its index in `ROLES`. */
const ROLE_KINDS = [Kind.SYSTEM, Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.SYSTEM] as const
const DEVELOPER = 4
const PART = words('type', 'text', 'cache_control', 'refusal', 'image_url', 'input_audio', 'file')
const PARTS = { type: 0, text: 1, cache: 2, refusal: 3, image: 4, audio: 5, file: 6 } as const
const PART_TYPES = words('text', 'refusal', 'image_url', 'input_audio', 'file')
const TYPES = { text: 0, refusal: 1, image: 2, audio: 3, file: 4 } as const
const IMAGE_MEMBERS = words('url', 'detail')
const IMAGE_DETAILS = words('auto', 'low', 'high')
const ALL_DETAILS = words('auto', 'low', 'high', 'original')
const AUDIO_MEMBERS = words('data', 'format')
const FILE_MEMBERS = words('file_data', 'filename')
const CALL = words('id', 'function', 'type', 'custom')
const CALLED = words('name', 'arguments')
const CALLED_FREE = words('name', 'input')
const CALL_TYPES = words('function', 'custom')
const CALL_IDS = words('id')

/** What reading a conversation needs besides the body. */
export interface ReadOptions extends MediaRules {
  /** Whether every provider gets documents, and results of tools may have them and images. Absent: no. */
  readonly takesContent?: boolean
  /** Whether answers of the assistant may have thoughts. Absent: those have no effect. */
  readonly takesThoughts?: boolean
  /** Whether calls of tools may come that take a text. Absent: no. */
  readonly takesFree?: boolean
}

const entries = new EntryWriter()
/** Members of the message that is read, of its part, of a call and of what that calls: an object at a time is read. */
const found = new Int32Array(MESSAGE.length)
const partMembers = new Int32Array(PART.length)
const callMembers = new Int32Array(CALL.length)
const members = new Int32Array(2)

/** `messages`: a list. Throws `CallerError` with the path of the invalid field. */
export function readMessages(
  document: JsonDocument,
  arena: Arena,
  messages: number,
  reading: ReadOptions,
): Conversation {
  entries.begin()
  const reader = new MessageReader(document, arena, reading)
  for (let item = document.firstItem(messages); item !== NONE; item = document.nextItem(item)) reader.message(item)
  return new Conversation(arena, entries.take(), 'chat', undefined, reader.thoughts?.whole)
}

/** Reads one message after the other. A path is made of the indexes when an error needs it. */
class MessageReader {
  private index = -1
  /** Whether OpenAI would get the same message as it came. */
  private isExact = false
  /** Made for a key whose thoughts pass. */
  thoughts: ThoughtPlaces | undefined

  constructor(
    private readonly document: JsonDocument,
    private readonly arena: Arena,
    private readonly reading: ReadOptions,
  ) {}

  message(message: number): void {
    const { document } = this
    this.index++
    if (!document.isObject(message)) throw invalid(this.path, 'must be an object')
    const members = document.select(message, MESSAGE, found)
    const role = found[ROLE] ?? NONE
    const word = document.word(role, ROLES)
    const kind = ROLE_KINDS[word]
    if (kind === undefined) {
      if (document.isNull(role)) throw missing(`${this.path}.role`)
      throw invalid(`${this.path}.role`, "must be one of 'system', 'developer', 'user', 'assistant' and 'tool'")
    }
    // Beside the role and the content, a call's id or calls.
    this.isExact = word !== DEVELOPER && members === this.usualMembers(kind)
    const entry = entries.add(kind, 0, 0)
    if (kind === Kind.SYSTEM) this.texts()
    else if (kind === Kind.USER) this.userParts()
    else if (kind === Kind.ASSISTANT) this.answer()
    else this.result()
    if (this.isExact) entries.set(entry, kind | EXACT, document.fromOf(message), document.toOf(message))
  }

  /** How many members a message has that has nothing which OpenAI would not get as it is. */
  private usualMembers(kind: number): number {
    if (kind === Kind.TOOL) return 3
    return kind === Kind.ASSISTANT && found[TOOL_CALLS] !== NONE ? 3 : 2
  }

  private get path(): string {
    return `messages[${this.index}]`
  }

  /** Several callers set `cache_control` on the message. */
  private messageMark(): number {
    const value = found[CACHE_CONTROL] ?? NONE
    return value === NONE ? 0 : this.markOf(value)
  }

  /** Apart, because a method with a function in it makes its surroundings an object whenever it is called. */
  private markOf(value: number): number {
    return readMark(this.document, value, () => this.path)
  }

  /**
   * The content of a role that has only text. Agents send it absent, null, as a string or as parts, for every role.
   * Refusals are left out. `hasMedia`: images and documents may be among the parts.
   */
  private texts(hasMedia = false): void {
    const { document } = this
    const content = found[CONTENT] ?? NONE
    const mark = this.messageMark()
    if (document.isNull(content)) {
      // An answer has no content if it has calls, or else an empty one.
      if (content === NONE || found[TOOL_CALLS] === NONE) this.isExact = false
    } else if (document.isFilled(content)) entries.addValue(Kind.TEXT + mark * MARKED, document, content)
    else if (!document.isString(content)) this.parts(content, mark, hasMedia, false)
    else if (found[TOOL_CALLS] !== NONE) this.isExact = false
  }

  private userParts(): void {
    const { document } = this
    const content = found[CONTENT] ?? NONE
    const mark = this.messageMark()
    if (document.isString(content)) entries.addValue(Kind.TEXT + mark * MARKED, document, content)
    else if (document.isNull(content)) {
      this.isExact = false
      entries.add(Kind.TEXT + mark * MARKED, 0, 0)
    } else this.parts(content, mark, true, true)
  }

  /** `isUser`: parts may be of any type. The mark of the message applies to the last part. */
  private parts(content: number, mark: number, hasMedia: boolean, isUser: boolean): void {
    const { document } = this
    this.isExact = false
    if (!document.isList(content)) throw invalid(`${this.path}.content`, 'must be a string or an array of parts')
    let last = NONE
    let index = 0
    for (let part = document.firstItem(content); part !== NONE; part = document.nextItem(part), index++) {
      const type = this.partType(part)
      if (type === TYPES.refusal && !isUser) continue
      if (type === TYPES.text) last = this.text(index)
      else if (isUser || (hasMedia && (type === TYPES.image || type === TYPES.file)))
        last = this.userPart(part, type, index)
      else throw invalid(`${this.path}.content[${index}].type`, "must be 'text'")
    }
    if (mark > 0 && last !== NONE) entries.mark(last, mark)
  }

  /** Its type among `PART_TYPES`, or `NONE`. Its members are in `partMembers` then. */
  private partType(part: number): number {
    const { document } = this
    if (!document.isObject(part)) return NONE
    document.select(part, PART, partMembers)
    return document.word(partMembers[PARTS.type] ?? NONE, PART_TYPES)
  }

  /** The entry of a part that is no text, if it may carry a cache mark, or `NONE`. */
  private userPart(part: number, type: number, index: number): number {
    const path = `${this.path}.content[${index}]`
    if (!this.document.isObject(part)) throw invalid(path, 'must be an object')
    switch (type) {
      case TYPES.image:
        this.reading.limits.count('images', path)
        return this.image(path)
      case TYPES.audio:
        this.audio(path)
        return NONE
      case TYPES.file:
        if (this.reading.takesContent === true) return this.documentPart(path)
        this.file(path)
        return NONE
      default:
        throw invalid(`${path}.type`, "must be one of 'text', 'image_url', 'input_audio' and 'file'")
    }
  }

  private text(index: number): number {
    const { document } = this
    const path = () => `${this.path}.content[${index}]`
    const text = partMembers[PARTS.text] ?? NONE
    if (!document.isString(text)) throw missing(`${path()}.text`)
    const mark = readMark(document, partMembers[PARTS.cache] ?? NONE, path)
    return entries.addValue(Kind.TEXT + mark * MARKED, document, text)
  }

  private image(path: string): number {
    const { document, arena } = this
    const image = partMembers[PARTS.image] ?? NONE
    const isObject = document.isObject(image)
    if (isObject) document.select(image, IMAGE_MEMBERS, members)
    const url = isObject ? (members[0] ?? NONE) : image
    if (!document.isString(url)) throw missing(`${path}.image_url.url`)
    const details = this.reading.takesContent === true ? ALL_DETAILS : IMAGE_DETAILS
    const detail = 1 + (isObject ? document.word(members[1] ?? NONE, details) : NONE)
    const mark = readMark(document, partMembers[PARTS.cache] ?? NONE, () => path)
    const added = detail * DETAILED + mark * MARKED
    // An escape within the head is rare, and within the data rarer.
    const isAsWritten = !document.hasEscape(url)
    const text = isAsWritten ? document.written(url) : document.text(url)
    const inline = DATA_URL.exec(text.slice(0, DATA_URL_HEAD_CHARS_MAX))
    if (inline === null) {
      checkImageUrl(text, `${path}.image_url.url`, this.reading.imageUrls)
      return entries.addValue(Kind.IMAGE_URL + added, document, url)
    }
    const [head, type = ''] = inline
    const from = isAsWritten ? document.fromOf(url) + head.length : arena.addText(text.slice(head.length))
    const entry = entries.add(Kind.IMAGE + added, from, isAsWritten ? document.toOf(url) : arena.end)
    entries.addText(Kind.MEDIA_TYPE, arena, type)
    return entry
  }

  private audio(path: string): void {
    const { document } = this
    const [data, format] = this.native(partMembers[PARTS.audio] ?? NONE, AUDIO_MEMBERS)
    if (data === NONE) throw missing(`${path}.input_audio.data`)
    this.refuseAddress(data, `${path}.input_audio.data`)
    entries.addValue(Kind.AUDIO, document, data)
    if (format !== NONE) entries.addValue(Kind.FORMAT, document, format)
  }

  /** Inline files only, because an id would name a file of the operator's own account at the provider. */
  private file(path: string): void {
    const { document } = this
    const [data, name] = this.native(partMembers[PARTS.file] ?? NONE, FILE_MEMBERS)
    if (data === NONE) throw invalid(`${path}.file.file_data`, 'must hold the file; files by id are not supported')
    this.refuseAddress(data, `${path}.file.file_data`)
    entries.addValue(Kind.FILE, document, data)
    if (name !== NONE) entries.addValue(Kind.FILE_NAME, document, name)
  }

  private documentPart(path: string): number {
    const { document } = this
    const mark = readMark(document, partMembers[PARTS.cache] ?? NONE, () => path)
    const [data, name] = this.native(partMembers[PARTS.file] ?? NONE, FILE_MEMBERS)
    if (data === NONE) throw invalid(`${path}.file.file_data`, 'must hold the file; files by id are not supported')
    const media = new MediaReader(document, this.arena, this.reading)
    return media.file(entries, { data, url: NONE, name }, mark * MARKED, (field) =>
      field === 'type' ? `${path}.type` : `${path}.file.${field}`,
    )
  }

  /** The strings of these names in an object; `NONE` for anything else. */
  private native(object: number, names: typeof AUDIO_MEMBERS): readonly [number, number] {
    const { document } = this
    if (!document.isObject(object)) return [NONE, NONE]
    document.select(object, names, members)
    const stringOf = (value = NONE) => (document.isString(value) ? value : NONE)
    return [stringOf(members[0]), stringOf(members[1])]
  }

  /** Some servers fetch a URL in place of data. */
  private refuseAddress(data: number, path: string): void {
    const text = this.document.text(data)
    if (isAddress(text)) checkImageUrl(text, path, this.reading.imageUrls)
  }

  private result(): void {
    const { document } = this
    const id = found[TOOL_CALL_ID] ?? NONE
    if (!document.isString(id)) throw missing(`${this.path}.tool_call_id`)
    this.reading.limits.count('results of tool calls', this.path)
    entries.addValue(Kind.RESULT_ID, document, id)
    this.texts(this.reading.takesContent === true)
  }

  private answer(): void {
    const { document } = this
    const first = entries.next
    this.texts()
    const calls = found[TOOL_CALLS] ?? NONE
    const hasCalls = !document.isNull(calls)
    if (!hasCalls && calls !== NONE) this.isExact = false
    if (hasCalls && !document.isList(calls)) throw invalid(`${this.path}.tool_calls`, 'must be an array')
    this.refusals()
    if (this.reading.takesThoughts === true) this.thought(first, hasCalls ? document.firstItem(calls) : NONE)
    if (!hasCalls) return
    if (document.firstItem(calls) === NONE) this.isExact = false
    let index = 0
    for (let call = document.firstItem(calls); call !== NONE; call = document.nextItem(call), index++)
      this.call(call, index)
  }

  /** Before the first text, or else the first call. Without a seal, only servers get it that sign no thoughts. */
  private thought(first: number, call: number): void {
    const { document } = this
    const words = found[THOUGHTS] ?? NONE
    if (!document.isFilled(words)) return
    this.thoughts ??= new ThoughtPlaces()
    const { thoughts } = this
    thoughts.begin()
    thoughts.add({ text: document.text(words), seal: undefined })
    if (entries.next > first) return thoughts.place(entries.fromAt(first))
    const id = document.isObject(call) ? document.member(call, CALL_IDS) : NONE
    if (document.isString(id)) thoughts.placeCall(document.fromOf(id))
  }

  private refusals(): void {
    const { document } = this
    const refusal = found[REFUSED] ?? NONE
    if (document.isString(refusal)) return void entries.addValue(Kind.REFUSAL, document, refusal)
    const content = found[CONTENT] ?? NONE
    if (!document.isList(content)) return
    for (let item = document.firstItem(content); item !== NONE; item = document.nextItem(item)) {
      if (this.partType(item) !== TYPES.refusal) continue
      const text = partMembers[PARTS.refusal] ?? NONE
      if (document.isString(text)) entries.addValue(Kind.REFUSAL, document, text)
    }
  }

  private call(call: number, index: number): void {
    const { document, reading } = this
    const path = () => `${this.path}.tool_calls[${index}]`
    reading.limits.count('tool calls', path)
    if (!document.isObject(call)) throw invalid(path(), 'must be an object')
    const count = document.select(call, CALL, callMembers)
    const id = callMembers[0] ?? NONE
    const called = callMembers[1] ?? NONE
    const type = document.word(callMembers[2] ?? NONE, CALL_TYPES)
    if (count !== 3 || type !== 0) this.isExact = false
    if (!document.isString(id)) throw missing(`${path()}.id`)
    if (type === 1 && reading.takesFree === true) return this.freeCall(id, callMembers[3] ?? NONE, path)
    if (!document.isObject(called)) throw missing(`${path()}.function`)
    if (document.select(called, CALLED, members) !== 2) this.isExact = false
    const name = members[0] ?? NONE
    const written = members[1] ?? NONE
    if (!document.isString(name)) throw missing(`${path()}.function.name`)
    entries.addValue(Kind.CALL_ID, document, id)
    entries.addValue(Kind.NAME, document, name)
    const place = { entries, arena: this.arena, limits: reading.limits }
    if (!readArguments(document, written, place, () => `${path()}.function.arguments`)) this.isExact = false
  }

  /** A call of a tool that takes a text. */
  private freeCall(id: number, called: number, path: () => string): void {
    const { document, arena } = this
    if (!document.isObject(called)) throw missing(`${path()}.custom`)
    document.select(called, CALLED_FREE, members)
    const [name = NONE, input = NONE] = members
    if (!document.isString(name)) throw missing(`${path()}.custom.name`)
    if (!document.isString(input)) throw missing(`${path()}.custom.input`)
    this.reading.limits.addCallValues(1, path)
    entries.addValue(Kind.CALL_ID, document, id)
    entries.addValue(Kind.NAME, document, name)
    entries.add(Kind.INPUT, arena.addJson(FREE_OPENING + document.written(input) + FREE_CLOSING), arena.end)
  }
}
