/**
 * The response resource: the body of a whole answer, and the first and last event of a stream. It has every field that
 * the official schema requires.
 */

import type { Tool } from '../../core/chat-request.ts'
import type { Usage } from '../../core/token-usage.ts'
import { lineOf } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import type { ResponsesBody } from './schema.ts'
import { responsesUsageJson } from './usage.ts'

/** The fields of the request that the resource repeats. */
export interface Echo {
  /** As JSON. */
  readonly instructions: string
  readonly maxOutputTokens: number | null
  readonly temperature: number
  readonly topP: number
  readonly toolChoice: 'auto' | 'none' | 'required'
  /** As JSON: the tools that the model gets under the caller's own names. */
  readonly tools: string
  readonly promptCacheKey: string | null
  readonly serviceTier: string
  readonly truncation: 'auto' | 'disabled'
}

/** Forced tools have no effect, so `tool_choice` is `auto` for them. */
export function echoOf(body: ResponsesBody, instructions: string, tools: string): Echo {
  const choice = body.tool_choice
  return {
    instructions,
    maxOutputTokens: body.max_output_tokens ?? null,
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    toolChoice: choice === 'none' || choice === 'required' ? choice : 'auto',
    tools,
    promptCacheKey: body.prompt_cache_key ?? null,
    serviceTier: body.service_tier ?? 'default',
    truncation: body.truncation === 'auto' ? 'auto' : 'disabled',
  }
}

/** The tools of an echo. */
export function toolsJson(tools: readonly Tool[]): string {
  if (tools.length === 0) return NO_TOOLS_JSON
  return JSON.stringify(
    tools.map(({ name, description = null, parameters, strict = null }) => {
      return { type: 'function', name, description, parameters, strict }
    }),
  )
}

export const NO_TOOLS_JSON = '[]'

/** `response.compaction` is for `POST /v1/responses/compact` only, whose body SDKs read as another type. */
export type ResourceObject = 'response' | 'response.compaction'

/** The members before and after the output, safe on one line of SSE. */
interface LineMembers {
  readonly model: string
  readonly echo: Echo
  readonly before: string
  readonly after: string
}

/** The members of the last stream: the next one most often has the same, and making them takes 2 µs. */
let lastLine: LineMembers | undefined
/** Longer members are not kept for the next stream. */
const KEPT_CHARS_MAX = 4096

/** The resource of one answer as JSON text. The text of events is safe on one line of SSE (`lineOf`). */
export class Resource {
  readonly id = mintId('resp')
  private line: LineMembers | undefined

  constructor(
    private readonly served: Served,
    private readonly echo: Echo,
    private readonly object: ResourceObject = 'response',
  ) {}

  /** The body of a whole answer. `output` is the JSON of its items. */
  completed(output: string, usage: Usage): string {
    const [before, after] = this.members()
    return this.opening('completed') + around(before, output, after, responsesUsageJson(usage))
  }

  /** The same within an event. */
  completedLine(output: string, usage: Usage): string {
    const { before, after } = this.lineMembers
    return this.opening('completed') + around(before, output, after, responsesUsageJson(usage))
  }

  /** The resource before any output, within an event. */
  inProgressLine(): string {
    const { before, after } = this.lineMembers
    return this.opening('in_progress') + around(before, '', after, 'null')
  }

  private opening(status: 'in_progress' | 'completed'): string {
    const { createdAt } = this.served
    const completedAt = status === 'completed' ? Math.max(createdAt, Math.floor(Date.now() / 1000)) : 'null'
    return (
      `{"id":"${this.id}","object":"${this.object}","created_at":${createdAt},"completed_at":${completedAt},` +
      `"status":"${status}",`
    )
  }

  private get lineMembers(): LineMembers {
    this.line ??= this.knownLine() ?? this.newLine()
    return this.line
  }

  private knownLine(): LineMembers | undefined {
    const isKnown = lastLine?.model === this.served.model && isSameEcho(lastLine.echo, this.echo)
    return isKnown ? lastLine : undefined
  }

  private newLine(): LineMembers {
    const [before, after] = this.members()
    const line = { model: this.served.model, echo: this.echo, before: lineOf(before), after: lineOf(after) }
    if (before.length + after.length <= KEPT_CHARS_MAX) lastLine = line
    return line
  }

  /** From `background` to `model`, and from `parallel_tool_calls` to `truncation`. */
  private members(): readonly [string, string] {
    const { instructions, maxOutputTokens, promptCacheKey, serviceTier, temperature, toolChoice, topP } = this.echo
    const before =
      `"background":false,"error":null,"incomplete_details":null,"instructions":${instructions},` +
      `"max_output_tokens":${maxOutputTokens},"max_tool_calls":null,` +
      `"model":${JSON.stringify(this.served.model)}`
    const { truncation, tools } = this.echo
    const after =
      '"parallel_tool_calls":true,"previous_response_id":null,"presence_penalty":0,"frequency_penalty":0,' +
      `"prompt_cache_key":${JSON.stringify(promptCacheKey)},"reasoning":{"effort":null,"summary":null},` +
      `"safety_identifier":null,"service_tier":${JSON.stringify(serviceTier)},"store":false,` +
      `"temperature":${temperature},"text":{"format":{"type":"text"}},"tool_choice":"${toolChoice}","tools":${tools},` +
      `"top_logprobs":0,"top_p":${topP},"truncation":"${truncation}"`
    return [before, after]
  }
}

function around(before: string, output: string, after: string, usage: string): string {
  return `${before},"output":[${output}],${after},"usage":${usage},"metadata":{}}`
}

function isSameEcho(one: Echo, other: Echo): boolean {
  return (
    one.instructions === other.instructions &&
    one.maxOutputTokens === other.maxOutputTokens &&
    one.temperature === other.temperature &&
    one.topP === other.topP &&
    one.toolChoice === other.toolChoice &&
    one.tools === other.tools &&
    one.promptCacheKey === other.promptCacheKey &&
    one.serviceTier === other.serviceTier &&
    one.truncation === other.truncation
  )
}
