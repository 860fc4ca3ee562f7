/** A Responses body → the canonical request, and what the answer repeats of it. */

import { Arena } from '../../core/arena.ts'
import { type ChatRequest, NO_TEXTS, type ToolChoice } from '../../core/chat-request.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { Later } from '../../core/later.ts'
import { NO_OWN_TOOLS } from '../../core/own-fields.ts'
import { NO_TOOLS } from '../../core/tool-list.ts'
import type { ItemStore } from '../../items/item-store.ts'
import type { Sealer } from '../../items/sealer.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import type { RequestBody, UnparsedMembers } from '../../wire/request-body.ts'
import { hintsOf } from '../body-schema.ts'
import type { Caller } from '../dialect.ts'
import type { ImageUrls } from '../image-url.ts'
import { invalid, missing } from '../invalid-field.ts'
import { responsesReasoning } from '../read-reasoning.ts'
import { RequestLimits } from '../request-limits.ts'
import { type EarlierInput, type ReadInput, type ReadState, readRights } from './earlier-input.ts'
import { InputReader } from './input.ts'
import { ITEMS, type Items, itemsOf } from './item-types.ts'
import { ownFields } from './own-tools.ts'
import { withoutReferences } from './references.ts'
import { type Echo, echoOf, repeatedOwn } from './resource.ts'
import { checkResponsesBody, type ResponsesBody } from './schema.ts'
import { type ListedTools, Toolbox } from './toolbox.ts'

/** The schema is asked about instructions and tools only if it may reject them. */
export const UNPARSED: UnparsedMembers = {
  names: words('input', 'tools', 'instructions'),
  members: [
    { placeholder: () => '""' },
    { placeholder: (document, value) => (document.isList(value) ? '[]' : undefined) },
    { placeholder: (document, value) => (document.isString(value) ? '""' : undefined) },
  ],
}
/** The index of the input in them. */
export const INPUT = 0
const [TOOLS, INSTRUCTIONS] = [1, 2]
const ITEM_TOOLS = words('tools')
const NO_ITEMS: Items = { items: [], types: [] }
const NO_OFFERED = { own: NO_OWN_TOOLS, listed: undefined }

/** What accepting needs besides the body. */
export interface Surroundings {
  readonly sealer: Sealer
  /** Absent: no items are stored. */
  readonly itemStore?: ItemStore | undefined
  /** Absent: public ones. */
  readonly imageUrls?: ImageUrls | undefined
}

export interface AcceptedResponses {
  readonly request: ChatRequest
  readonly echo: Echo
  readonly toolbox: Toolbox
  /** True if the answer must be a sealed summary. */
  readonly compaction: boolean
}

/** One request beside its body. */
interface Case extends Surroundings {
  readonly caller: Caller
  /** The body asks for a compaction without a trigger in its input, and the answer is never streamed. */
  readonly compact: boolean
  /** A turn on a socket; a `POST` continues nothing. */
  readonly turn: ReadTurn | undefined
}

/** What reading needs of a turn on a socket. */
export interface ReadTurn {
  readonly previousResponseId: string | null
  /** What it continues, if its body has not all of that. */
  readonly earlier: EarlierInput | undefined
  /** Its input was read, and a turn that continues it need not read it again. */
  read(input: ReadInput): void
}

/** Throws or rejects with `CallerError` with the path of the invalid field. */
export function acceptResponses(body: RequestBody, one: Case): AcceptedResponses | Later<AcceptedResponses> {
  const checked = checkResponsesBody(body.settings)
  const items = itemsIn(body)
  const first = one.turn?.earlier?.state.items ?? 0
  const whole = withoutReferences(body, items, UNPARSED, first, one.caller, one.itemStore)
  if (!(whole instanceof Later)) return accepted(whole, checked, items, one)
  // Items in place of references are not in the body that the connection keeps.
  const { turn } = one
  const unkept = turn && { previousResponseId: turn.previousResponseId, earlier: turn.earlier, read() {} }
  return whole.map((read) => accepted(read, checked, itemsIn(read), { ...one, turn: unkept }))
}

/** `text.format` as Chat Completions has it; undefined for plain text. */
function acceptFormat(text: unknown): JsonObject | undefined {
  if (text === undefined || text === null) return undefined
  if (!isObject(text)) throw invalid('text', 'must be an object')
  const format = text['format'] ?? null
  if (format === null) return undefined
  if (!isObject(format)) throw invalid('text.format', 'must be an object')
  const { type, name, schema, description, strict } = format
  if (type === 'text') return undefined
  if (type === 'json_object') return { type }
  if (type !== 'json_schema') throw invalid('text.format.type', "must be 'text', 'json_object' or 'json_schema'")
  if (typeof name !== 'string' || name === '') throw missing('text.format.name')
  if (!isObject(schema)) throw missing('text.format.schema')
  return {
    type,
    json_schema: {
      ...{ name, schema },
      ...(typeof description === 'string' && { description }),
      ...(typeof strict === 'boolean' && { strict }),
    },
  }
}

/** The settings without those that a schema for the answer makes of effect. */
export function withoutFormat(settings: JsonObject): JsonObject {
  const { text, ...others } = settings
  if (!isObject(text)) return settings
  const { format: _, ...rest } = text
  return { ...others, text: rest }
}

/** None if the input is a string. */
function itemsIn({ document, values }: RequestBody): Items {
  const input = values[INPUT] ?? NONE
  return document.isString(input) ? NO_ITEMS : itemsOf(document, input)
}

function accepted(
  { document, settings, values, bytes }: RequestBody,
  body: ResponsesBody,
  items: Items,
  { sealer, caller, compact, turn, imageUrls = 'public' }: Case,
): AcceptedResponses {
  const format = caller.compatibility?.structured_output === 'pass' ? acceptFormat(body.text) : undefined
  const reasoning = caller.compatibility?.reasoning === 'pass' ? responsesReasoning(settings) : undefined
  const compaction = compact || items.types.includes(ITEMS.trigger)
  const earlier = turn?.earlier
  const limits = new RequestLimits(earlier?.state.counts)
  const arena = new Arena(bytes, earlier?.bytes)
  const takesFree = caller.compatibility?.tools === 'pass'
  const lists = toolListsOf(document, values[TOOLS] ?? NONE, items, earlier?.state.items ?? 0)
  const toolbox = new Toolbox(document, arena, lists, limits, takesFree)
  const reader = new InputReader({
    ...{ document, arena, toolbox, sealer, caller, limits, imageUrls },
    takesThoughts: reasoning !== undefined,
    takesFree,
    earlier,
  })
  if (items === NO_ITEMS) reader.text(values[INPUT] ?? NONE)
  else reader.items(items)
  const instructions = values[INSTRUCTIONS] ?? NONE
  const state = turn === undefined || !maySkip(items, compaction) ? undefined : reader.state
  const conversation = reader.conversation(instructions, compaction, state?.order)
  if (turn !== undefined && state !== undefined)
    turn.read({
      ...{ state: readState(earlier, state, items, document, limits), arena, sent: conversation.sent },
      ...{ rights: readRights(caller.compatibility, imageUrls), tools: listedTools({ bytes, document, values }) },
    })
  const toolList = compaction ? NO_TOOLS : toolbox.tools
  const offered = compaction ? { ...NO_OFFERED, lifted: toolbox.lifted } : toolbox
  const own = takesFree ? ownFields(settings, offered, conversation, reasoning !== undefined) : undefined
  const hasTools = !toolList.isEmpty || (own !== undefined && own.tools.length > 0)
  const request: ChatRequest = {
    model: body.model,
    stream: body.stream === true && !compact,
    conversation,
    tools: toolList,
    toolChoice: hasTools ? toolChoiceOf(body.tool_choice) : undefined,
    maxOutputTokens: body.max_output_tokens ?? undefined,
    limitsOutput: true,
    stop: NO_TEXTS,
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      ...(format !== undefined && !compaction && { responseFormat: format, requiresFormat: true, passesFormat: true }),
    },
    hints: hintsOf(body),
    cacheStrict: true,
    reasoning,
    own,
  }
  const echo = echoOf(
    body,
    {
      arena,
      tools: compaction ? toolList : toolbox.unlifted,
      own: repeatedOwn(own),
      ...repeatedSpans(document, values, !compaction && lists.length === 1),
      takesFree,
    },
    turn?.previousResponseId ?? null,
    format,
    reasoning,
  )
  return { request: request, echo, toolbox, compaction }
}

/** The list of tools in a body; empty if it has none. */
export function listedTools({ bytes, document, values }: Omit<RequestBody, 'settings'>): Uint8Array {
  const list = values[TOOLS] ?? NONE
  return document.isNull(list) ? bytes.subarray(0, 0) : bytes.subarray(document.fromOf(list), document.toOf(list))
}

/** Where the instructions are with their quotes, and the list of tools, if it is the only one. */
function repeatedSpans(document: JsonDocument, values: Int32Array, isOnly: boolean) {
  const [instructions, list] = [values[INSTRUCTIONS] ?? NONE, values[TOOLS] ?? NONE]
  const isRepeated = !document.isNull(instructions)
  const isListed = isOnly && !document.isNull(list)
  return {
    instructionsFrom: isRepeated ? document.fromOf(instructions) - 1 : 0,
    instructionsTo: isRepeated ? document.toOf(instructions) + 1 : 0,
    toolsFrom: isListed ? document.fromOf(list) : 0,
    toolsTo: isListed ? document.toOf(list) : 0,
  }
}

/** What was read of a turn, and of those that it continues. */
function readState(
  earlier: EarlierInput | undefined,
  state: Pick<ReadState, 'order' | 'hasEmpty' | 'hasLifted'>,
  { items }: Items,
  document: JsonDocument,
  limits: RequestLimits,
): ReadState {
  const before = earlier?.state
  return {
    ...state,
    // A text is one item.
    items: (before?.items ?? 0) + Math.max(1, items.length),
    counts: limits.counted,
    structure: (before?.structure ?? 0) + document.structure,
    longNumbers: (before?.longNumbers ?? 0) + document.longNumbers,
  }
}

/** Whether these items are read once, and not again by each turn that continues them. */
function maySkip({ types }: Items, compaction: boolean): boolean {
  return !compaction && !types.includes(ITEMS.tools)
}

/** The body's list of tools, and those within the input, whose first item has the number `first`. */
function toolListsOf(
  document: JsonDocument,
  tools: number,
  { items, types }: Items,
  first: number,
): readonly ListedTools[] {
  const isListed = !document.isNull(tools)
  if (!isListed && !types.includes(ITEMS.tools)) return NO_LISTS
  const lists: ListedTools[] = isListed ? [{ list: tools, path: 'tools' }] : []
  for (const [index, type] of types.entries())
    if (type === ITEMS.tools)
      lists.push({ list: document.member(items[index] ?? NONE, ITEM_TOOLS), path: `input[${first + index}].tools` })
  return lists
}

const NO_LISTS: readonly ListedTools[] = []

/** Only these two are passed on: `auto` is the default, and forced tools have no effect. */
function toolChoiceOf(choice: unknown): ToolChoice | undefined {
  return choice === 'required' || choice === 'none' ? { mode: choice } : undefined
}
