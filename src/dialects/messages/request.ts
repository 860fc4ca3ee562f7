/** A Messages body → the canonical request. Fields that are not named here never reach a provider. */

import { Arena } from '../../core/arena.ts'
import { CallerError } from '../../core/caller-error.ts'
import { type ChatRequest, NO_TEXTS, type ToolChoice } from '../../core/chat-request.ts'
import { MARKED, markOf } from '../../core/entry-marks.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { isInterleaving, type OwnFields, type OwnTool } from '../../core/own-fields.ts'
import { NONE, words } from '../../wire/json-document.ts'
import type { RequestBody, UnparsedMembers } from '../../wire/request-body.ts'
import { hintsOf } from '../body-schema.ts'
import { readMark } from '../cache-mark.ts'
import type { Caller, CallerHeaders } from '../dialect.ts'
import type { ImageUrls } from '../image-url.ts'
import { invalid, missing } from '../invalid-field.ts'
import { messagesReasoning, outputConfig } from '../read-reasoning.ts'
import { RequestLimits } from '../request-limits.ts'
import type { ToolResultImages } from './block-cursor.ts'
import { NO_OWN_FIELDS, readOwnFields } from './passed-fields.ts'
import { readTools } from './read-tools.ts'
import { areMessages, readConversation } from './read-turns.ts'
import { checkMessagesBody, type MessagesBody } from './schema.ts'

/** The schema is asked about them only if it may reject them. A cache mark of the request is parsed, too. */
export const UNPARSED: UnparsedMembers = {
  names: words('messages', 'tools', 'system', 'cache_control'),
  members: [
    {
      placeholder: (document, value) => (areMessages(document, value) ? '[{"role":"user","content":""}]' : undefined),
    },
    { placeholder: (document, value) => (document.isList(value) ? '[]' : undefined) },
    { placeholder: (document, value) => (document.isList(value) || document.isString(value) ? '[]' : undefined) },
  ],
}

/** The path of the body. */
const WHOLE = () => ''

export interface MessagesOptions {
  readonly toolResultImages: ToolResultImages
  /** Absent: public ones. */
  readonly imageUrls?: ImageUrls
  /** Whether documents, images by address, and both within results may come. Absent: no. */
  readonly takesContent?: boolean
  /** Whether the caller may ask for an answer by a schema. Absent: no. */
  readonly takesFormat?: boolean
  /** Whether the caller may state how much the model thinks. Absent: no. */
  readonly takesReasoning?: boolean
  /** What passes to Anthropic's own API beyond the specification. Absent: nothing. */
  readonly passes?: Passes | undefined
}

export interface Passes {
  /** Headers, fields, blocks and members that are not read. */
  readonly betas: boolean
  /** Tools that are no functions, and the blocks that come of them. */
  readonly tools: boolean
  readonly headers?: CallerHeaders | undefined
}

/** What passes for a caller. */
export function passesOf({ compatibility, headers }: Caller): Passes | undefined {
  const betas = compatibility?.betas === 'pass'
  const tools = compatibility?.tools === 'pass'
  return betas || tools ? { betas, tools, headers } : undefined
}

/** Throws `CallerError` with the path of the invalid field. */
export function acceptMessages(body: RequestBody, options: MessagesOptions): ChatRequest {
  const { toolResultImages, takesFormat, takesReasoning, takesContent = false, imageUrls = 'public', passes } = options
  const { document, settings, values, bytes } = body
  const checked = checkMessagesBody(settings)
  const limits = new RequestLimits()
  const arena = new Arena(bytes)
  const passedTools = { members: passes?.betas === true, others: passes?.tools === true }
  const { tools, own: ownTools } = readTools(document, arena, values[1] ?? NONE, limits, passedTools)
  const choice = tools.isEmpty && ownTools.length === 0 ? undefined : acceptToolChoice(checked.tool_choice)
  const lists = { messages: values[0] ?? NONE, system: values[2] ?? NONE }
  const own = passes && ownFields(settings, passes, ownTools)
  const interleaves = !tools.isEmpty && own !== undefined && own.betas.some(isInterleaving)
  const request: ChatRequest = {
    model: checked.model,
    stream: checked.stream === true,
    conversation: readConversation(document, arena, lists, {
      ...{ limits, toolResultImages, takesContent, imageUrls },
      takesThoughts: takesReasoning === true,
      passesOwn: passes !== undefined,
    }),
    tools,
    toolChoice: choice?.toolChoice,
    parallelToolCalls: choice?.parallelToolCalls,
    maxOutputTokens: outputLimit(checked),
    limitsOutput: true,
    stop: checked.stop_sequences ?? NO_TEXTS,
    sampling: {
      temperature: checked.temperature ?? undefined,
      topP: checked.top_p ?? undefined,
      ...(takesFormat === true && { responseFormat: acceptFormat(settings), requiresFormat: true, passesFormat: true }),
    },
    hints: hintsOf(checked),
    cache: markOf(readMark(document, values[3] ?? NONE, WHOLE) * MARKED),
    cacheStrict: false,
    ...(takesReasoning === true && { reasoning: messagesReasoning(settings, interleaves) }),
    own,
  }
  refuseThread(checked.thread)
  return request
}

function ownFields(settings: JsonObject, passes: Passes, tools: readonly OwnTool[]): OwnFields {
  const fields = passes.betas ? readOwnFields(settings, passes.headers) : NO_OWN_FIELDS
  return { ...fields, form: 'messages', tools }
}

/** The member of `output_config`, or that of the beta before it, as Chat Completions has it. */
function acceptFormat(settings: JsonObject): JsonObject | undefined {
  const config = outputConfig(settings)
  const [path, format] =
    (config?.['format'] ?? null) === null
      ? ['output_format', settings['output_format']]
      : ['output_config.format', config?.['format']]
  if (format === undefined || format === null) return undefined
  if (!isObject(format) || format['type'] !== 'json_schema') throw invalid(`${path}.type`, "must be 'json_schema'")
  if (!isObject(format['schema'])) throw missing(`${path}.schema`)
  return { type: 'json_schema', json_schema: { name: FORMAT_NAME, schema: format['schema'] } }
}

/** Other APIs want a name for the schema. */
const FORMAT_NAME = 'answer'

/** The settings without those that `takesFormat` gives an effect. */
export function withoutFormat(settings: JsonObject): JsonObject {
  if (settings['output_format'] === undefined && settings['output_config'] === undefined) return settings
  const { output_format: _, output_config: config, ...others } = settings
  if (!isObject(config)) return others
  const { format: __, ...rest } = config
  return { ...others, output_config: rest }
}

/** The body of `count_tokens`. Its fields for output and streaming have no effect. */
export function acceptCount(body: RequestBody, options: MessagesOptions): ChatRequest {
  return { ...acceptMessages(body, options), stream: false, maxOutputTokens: undefined, limitsOutput: false }
}

/** 0 asks newer Anthropic APIs to fill the cache and write nothing. Other providers need at least one token. */
function outputLimit(body: MessagesBody): number | undefined {
  const limit = body.max_tokens ?? undefined
  return limit === undefined ? undefined : Math.max(1, limit)
}

interface AcceptedChoice {
  readonly toolChoice: ToolChoice
  readonly parallelToolCalls: false | undefined
}

function acceptToolChoice(choice: unknown): AcceptedChoice | undefined {
  if (choice === undefined || choice === null) return undefined
  if (!isObject(choice)) throw invalid('tool_choice', 'must be an object')
  const parallelToolCalls = choice['disable_parallel_tool_use'] === true ? false : undefined
  switch (choice['type']) {
    case 'auto':
      return { toolChoice: { mode: 'auto' }, parallelToolCalls }
    case 'any':
      return { toolChoice: { mode: 'required' }, parallelToolCalls }
    case 'none':
      return { toolChoice: { mode: 'none' }, parallelToolCalls: undefined }
    case 'tool': {
      const name = choice['name']
      if (typeof name !== 'string' || name === '') throw missing('tool_choice.name')
      return { toolChoice: { mode: 'tool', name }, parallelToolCalls }
    }
    case undefined:
    case null:
      throw missing('tool_choice.type')
    default:
      throw invalid('tool_choice.type', "must be one of 'auto', 'any', 'tool' and 'none'")
  }
}

/**
 * Newer Anthropic SDKs let the service store the conversation as a thread. weir stores none. A request that creates a
 * thread is served; one that continues a thread holds only the newest messages, and this error code makes the SDK send
 * the whole history.
 */
function refuseThread(thread: unknown): void {
  if (!isObject(thread) || thread['type'] !== 'continue') return
  throw new CallerError(
    'thread_not_found',
    'No such thread: this service keeps no conversations. Send the whole history.',
    {
      param: 'thread',
      details: { error_code: 'thread_not_found' },
    },
  )
}
