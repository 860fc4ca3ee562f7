/**
 * The response resource: the body of a whole answer, and the first and last event of a stream. It has every field that
 * the official schema requires.
 */

import type { Arena } from '../../core/arena.ts'
import type { Compatibility } from '../../core/compatibility.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { FinishReason } from '../../core/event.ts'
import { isObject, type JsonObject, objectOf } from '../../core/json.ts'
import { CLOSE, CLOSE_LIST, COMMA, JsonBuilder, OPEN_LIST, part } from '../../core/json-builder.ts'
import type { ListedTool, OwnFields } from '../../core/own-fields.ts'
import type { Reasoning } from '../../core/reasoning.ts'
import { RepeatedTexts } from '../../core/repeated-texts.ts'
import { openaiTier } from '../../core/service-tier.ts'
import type { Usage } from '../../core/token-usage.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { joined, lineOf } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import type { ResponsesBody } from './schema.ts'

/** What of the request's bytes the resource repeats. */
interface Repeated {
  readonly arena: Arena
  /** The list of tools in the body, if the tools depend on it alone; empty if not. */
  readonly toolsFrom: number
  readonly toolsTo: number
  /** Whether tools that take a text are among them. */
  readonly takesFree: boolean
  /** The instructions with their quotes; empty if there are none. */
  readonly instructionsFrom: number
  readonly instructionsTo: number
  /** The tools that the model gets under the caller's own names. */
  readonly tools: ToolList
  /** Of the API's own tools, if the provider got them. */
  readonly own?: RepeatedOwn | undefined
}

interface RepeatedOwn {
  /** JSON, or its place among the bytes. */
  readonly tools: readonly (string | ListedTool)[]
  /** As JSON. */
  readonly toolChoice?: string | undefined
  readonly callsMax: number | null
}

/** What the answer repeats of them: no credentials. */
export function repeatedOwn(own: OwnFields | undefined): RepeatedOwn | undefined {
  if (own === undefined) return undefined
  const { tool_choice: choice } = own.members
  return {
    tools: [
      ...own.tools.map(({ kind, json }) => (kind === 'mcp' ? withoutCredentials(json) : json)),
      ...(own.listed?.filter(({ kind }) => kind === 'namespace') ?? []),
    ],
    toolChoice: choice === undefined ? undefined : JSON.stringify(choice),
    callsMax: own.callsMax ?? null,
  }
}

function withoutCredentials(json: string): string {
  const { authorization: _, headers: __, ...others } = objectOf(JSON.parse(json)) ?? {}
  return JSON.stringify(others)
}

/** How an answer ended. `reason`: of an incomplete one. */
export interface Ending {
  readonly status: 'completed' | 'incomplete'
  readonly reason: string | null
}

/** Every answer that ended is completed, unless the caller gets the provider's status: agents fail on others. */
export const COMPLETED: Ending = { status: 'completed', reason: null }

/** The ending of an answer for a caller who gets this kind of status. */
export function endingOf(reason: FinishReason, status: Compatibility['status']): Ending {
  if (status === 'completed') return COMPLETED
  if (reason === 'length') return { status: 'incomplete', reason: 'max_output_tokens' }
  return reason === 'content-filter' ? { status: 'incomplete', reason: 'content_filter' } : COMPLETED
}

/** The fields of the request that the resource repeats. */
export interface Echo extends Repeated {
  readonly maxOutputTokens: number | null
  readonly temperature: number
  readonly topP: number
  readonly toolChoice: 'auto' | 'none' | 'required'
  readonly promptCacheKey: string | null
  readonly serviceTier: string
  readonly truncation: 'auto' | 'disabled'
  /** What a turn on a socket continues. */
  readonly previousResponseId: string | null
  /** `text.format` as JSON. */
  readonly textFormat: string
  /** `reasoning` as JSON. */
  readonly reasoning: string
}

/** Forced tools have no effect, so `tool_choice` is `auto` for them. */
export function echoOf(
  body: ResponsesBody,
  repeated: Repeated,
  previousResponseId: string | null,
  format: JsonObject | undefined,
  reasoning?: Pick<Reasoning, 'effort' | 'summary'>,
): Echo {
  const choice = body.tool_choice
  return {
    ...repeated,
    maxOutputTokens: body.max_output_tokens ?? null,
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    toolChoice: choice === 'none' || choice === 'required' ? choice : 'auto',
    promptCacheKey: body.prompt_cache_key ?? null,
    serviceTier: body.service_tier ?? 'default',
    truncation: body.truncation === 'auto' ? 'auto' : 'disabled',
    previousResponseId,
    textFormat: format === undefined ? PLAIN_TEXT : formatJson(format),
    reasoning: JSON.stringify({ effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null }),
  }
}

const PLAIN_TEXT = '{"type":"text"}'

/** A format of Chat Completions as Responses has it, with every member that its schema requires. */
function formatJson({ type = null, json_schema: schema }: JsonObject): string {
  if (!isObject(schema)) return JSON.stringify({ type })
  return JSON.stringify({ type, description: null, strict: false, ...schema })
}

const TOOL = part('{"type":"function","name":"')
const DESCRIPTION = part('","description":"')
const NO_DESCRIPTION = part('","description":null')
const AFTER_DESCRIPTION = part('"')
const PARAMETERS = part(',"parameters":')
const STRICTNESS = part(',"strict":')
const NO_STRICTNESS = part(',"strict":null}')
/** Bytes around an entry. */
const AROUND_ENTRY = 32

/** Writes the tools as the answer repeats them: functions before others. */
function writeTools(json: JsonBuilder, { tools, own, arena }: Repeated): void {
  json.part(OPEN_LIST)
  writeFunctions(json, tools)
  for (const [index, tool] of (own?.tools ?? []).entries()) {
    if (index > 0 || !tools.isEmpty) json.part(COMMA)
    if (typeof tool === 'string') json.text(tool)
    else json.span(tool.from, tool.to, arena)
  }
  json.part(CLOSE_LIST)
}

function writeFunctions(json: JsonBuilder, tools: ToolList): void {
  for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
    const description = tools.memberOf(tool, Kind.TEXT)
    const strict = tools.memberOf(tool, Kind.STRICT)
    if (tool > 0) json.part(COMMA)
    const free = tools.memberOf(tool, Kind.FREE_FORM)
    if (free !== -1) {
      json.entry(tools, free)
      continue
    }
    json.part(TOOL)
    json.entry(tools, tool)
    json.part(description === -1 ? NO_DESCRIPTION : DESCRIPTION)
    if (description !== -1) {
      json.entry(tools, description)
      json.part(AFTER_DESCRIPTION)
    }
    json.part(PARAMETERS)
    json.entry(tools, tools.memberOf(tool, Kind.INPUT))
    json.part(strict === -1 ? NO_STRICTNESS : STRICTNESS)
    if (strict === -1) continue
    json.entry(tools, strict)
    json.part(CLOSE)
  }
}

/** The tools as text on one line: the caller's JSON may have line ends outside of strings. */
function toolsText(echo: Repeated): string {
  if (!hasTools(echo)) return '[]'
  const json = new JsonBuilder(echo.arena, AROUND_ENTRY * echo.tools.end)
  writeTools(json, echo)
  const whole = json.take()
  const text = typeof whole === 'string' ? whole : whole.joined().toString('utf8')
  return text.replace(/[\n\r]+/g, ' ')
}

function instructionsText({ arena, instructionsFrom, instructionsTo }: Repeated): string {
  return instructionsFrom === instructionsTo ? 'null' : arena.writtenAt(instructionsFrom, instructionsTo)
}

const repeatedLines = new RepeatedTexts()
/** How lines of it are made: of instructions, of tools, and of tools for callers who get those that take a text. */
const [INSTRUCTIONS_LINE, TOOLS_LINE, FREE_TOOLS_LINE] = [0, 1, 2]

function instructionsLine(repeated: Repeated): string {
  const { arena, instructionsFrom: from, instructionsTo: to } = repeated
  const line = () => lineOf(instructionsText(repeated))
  return to - from > TEXT_BYTES_MAX ? repeatedLines.of(INSTRUCTIONS_LINE, arena, from, to, line) : line()
}

function toolsLine(repeated: Repeated): string {
  const { arena, own, toolsFrom: from, toolsTo: to, takesFree } = repeated
  const line = () => lineOf(toolsText(repeated))
  if (to - from <= TEXT_BYTES_MAX || own?.tools.length) return line()
  return repeatedLines.of(takesFree ? FREE_TOOLS_LINE : TOOLS_LINE, arena, from, to, line)
}

/** Whether what is repeated is better copied as bytes than as text. */
function isLong(echo: Repeated): boolean {
  return echo.instructionsTo - echo.instructionsFrom > TEXT_BYTES_MAX || hasTools(echo)
}

function hasTools({ tools, own }: Repeated): boolean {
  return !tools.isEmpty || (own !== undefined && own.tools.length > 0)
}

const TEXT_BYTES_MAX = 1024

/** `response.compaction` is for `POST /v1/responses/compact` only, whose body SDKs read as another type. */
export type ResourceObject = 'response' | 'response.compaction'

/** The members before and after the output, safe on one line of SSE. */
interface LineMembers {
  readonly before: string
  readonly after: string
}

/** Members as text, and what they were made of. */
interface KnownLine extends LineMembers {
  readonly of: string
}

/** The members of the last stream: the next one most often has the same, and making them takes 2 µs. */
let lastLine: KnownLine | undefined
/** Longer members are not kept for the next stream. */
const KEPT_CHARS_MAX = 4096

/** The resource of one answer as JSON text. The text of events is safe on one line of SSE (`lineOf`). */
export class Resource {
  readonly id = mintId('resp')
  private line: LineMembers | undefined
  /** Absent once a stream has begun: it would hold the bytes of the request for minutes. */
  private echo: Echo | undefined

  constructor(
    private readonly served: Served,
    echo: Echo,
    private readonly object: ResourceObject = 'response',
  ) {
    this.echo = served.takesOwn === true || echo.own === undefined ? echo : { ...echo, own: undefined }
  }

  /** The body of a whole answer, as bytes if it repeats many. `output` is the JSON of its items. */
  whole(output: string, usage: Usage, { status, reason }: Ending): string | Uint8Array {
    const echo = kept(this.echo)
    const beginning = this.opening(status) + withReason(BEFORE_INSTRUCTIONS, reason)
    const middle = `${this.afterInstructions(echo)},"output":[${output}],${withTier(beforeTools(echo), usage)}`
    const end = `${afterTools(echo)},"usage":${responsesUsageJson(usage)},"metadata":{}}`
    if (!isLong(echo)) return beginning + instructionsText(echo) + middle + toolsText(echo) + end
    const { arena, instructionsFrom, instructionsTo, tools } = echo
    const chars = beginning.length + middle.length + end.length
    const json = new JsonBuilder(arena, chars + instructionsTo - instructionsFrom + AROUND_ENTRY * tools.end)
    json.text(beginning)
    if (instructionsFrom === instructionsTo) json.part(NULL)
    else json.span(instructionsFrom, instructionsTo)
    json.text(middle)
    writeTools(json, echo)
    json.text(end)
    const whole = json.take()
    return typeof whole === 'string' ? whole : whole.joined()
  }

  /** The same within an event. */
  endedLine(output: string, usage: Usage, { status, reason }: Ending): string {
    const { before, after } = this.lineMembers
    return (
      this.opening(status) +
      around(withReason(before, reason), output, withTier(after, usage), responsesUsageJson(usage))
    )
  }

  /** The resource before any output, within an event. */
  inProgressLine(): string {
    const { before, after } = this.lineMembers
    return this.opening('in_progress') + around(before, '', after, 'null')
  }

  /** The resource of a stream that broke off, within an event. */
  failedLine(code: string, message: string): string {
    const { before, after } = this.lineMembers
    const error = `"error":${lineOf(JSON.stringify({ code, message }))}`
    return (
      this.opening('failed') +
      around(
        before.replace('"error":null', () => error),
        '',
        after,
        'null',
      )
    )
  }

  private opening(status: 'in_progress' | 'failed' | Ending['status']): string {
    const { createdAt } = this.served
    const completedAt = status === 'completed' ? Math.max(createdAt, Math.floor(Date.now() / 1000)) : 'null'
    return (
      `{"id":"${this.id}","object":"${this.object}","created_at":${createdAt},"completed_at":${completedAt},` +
      `"status":"${status}",`
    )
  }

  private get lineMembers(): LineMembers {
    if (this.line === undefined) {
      this.line = this.lineOf(kept(this.echo))
      this.echo = undefined
    }
    return this.line
  }

  private lineOf(echo: Echo): LineMembers {
    if (Math.max(echo.instructionsTo - echo.instructionsFrom, echo.toolsTo - echo.toolsFrom) > TEXT_BYTES_MAX) {
      const before = joined(BEFORE_INSTRUCTIONS, instructionsLine(echo), lineOf(this.afterInstructions(echo)))
      return { before, after: joined(lineOf(beforeTools(echo)), toolsLine(echo), afterTools(echo)) }
    }
    const before = BEFORE_INSTRUCTIONS + instructionsText(echo) + this.afterInstructions(echo)
    const after = beforeTools(echo) + toolsText(echo) + afterTools(echo)
    const of = `${before}\n${after}`
    if (lastLine?.of === of) return lastLine
    const line = { of, before: lineOf(before), after: lineOf(after) }
    if (of.length <= KEPT_CHARS_MAX) lastLine = line
    return line
  }

  private afterInstructions({ maxOutputTokens, own }: Echo): string {
    const model = JSON.stringify(this.served.model)
    return `,"max_output_tokens":${maxOutputTokens},"max_tool_calls":${own?.callsMax ?? null},"model":${model}`
  }
}

const NULL = part('null')
const BEFORE_INSTRUCTIONS = '"background":false,"error":null,"incomplete_details":null,"instructions":'

/** From `parallel_tool_calls` to the name of `tools`. */
function beforeTools(echo: Echo): string {
  const { promptCacheKey, serviceTier, temperature, toolChoice, previousResponseId, textFormat, reasoning, own } = echo
  return (
    `"parallel_tool_calls":true,"previous_response_id":${JSON.stringify(previousResponseId)},` +
    '"presence_penalty":0,"frequency_penalty":0,' +
    `"prompt_cache_key":${JSON.stringify(promptCacheKey)},"reasoning":${reasoning},` +
    `"safety_identifier":null,"service_tier":${JSON.stringify(serviceTier)},"store":false,` +
    `"temperature":${temperature},"text":{"format":${textFormat}},` +
    `"tool_choice":${own?.toolChoice ?? `"${toolChoice}"`},"tools":`
  )
}

/** From `top_logprobs` to `truncation`. */
function afterTools({ topP, truncation }: Echo): string {
  return `,"top_logprobs":0,"top_p":${topP},"truncation":"${truncation}"`
}

/** The first members of a response with the reason why it is incomplete. */
function withReason(members: string, reason: string | null): string {
  return reason === null ? members : members.replace(NO_DETAILS, `"incomplete_details":{"reason":"${reason}"}`)
}

const NO_DETAILS = '"incomplete_details":null'

const TIER = '"service_tier":"'

/**
 * Members with the tier that served the answer in place of the one that was asked for. Within a string the quotation
 * marks are escaped, so the first match is the member.
 */
function withTier(members: string, { serviceTier }: Usage): string {
  if (serviceTier === undefined) return members
  const at = members.indexOf(TIER)
  const end = members.indexOf(',"store"', at)
  return `${members.slice(0, at)}"service_tier":${lineOf(JSON.stringify(openaiTier(serviceTier)))}${members.slice(end)}`
}

function around(before: string, output: string, after: string, usage: string): string {
  return `${before},"output":[${output}],${after},"usage":${usage},"metadata":{}}`
}

function kept(echo: Echo | undefined): Echo {
  if (echo === undefined) throw new Error('a stream has begun, and what it repeats was dropped')
  return echo
}

/**
 * Three integers and both details, which the official schema and Codex require. `input_tokens` includes cached tokens.
 */
function responsesUsageJson(usage: Usage): string {
  const input = usage.input ?? 0
  const output = usage.output ?? 0
  const written = (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0)
  return (
    `{"input_tokens":${input},"input_tokens_details":{"cached_tokens":${usage.cachedInput ?? 0},` +
    `"cache_write_tokens":${written}},"output_tokens":${output},` +
    `"output_tokens_details":{"reasoning_tokens":${usage.reasoning ?? 0}},"total_tokens":${input + output}}`
  )
}
