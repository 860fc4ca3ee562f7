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

/** The resource of one answer as JSON text. The text of events is safe on one line of SSE (`lineOf`). */
export class Resource {
  readonly id = mintId('resp')
  /** The members before and after the output, for events. */
  private line: readonly [before: string, after: string] | undefined

  constructor(
    private readonly served: Served,
    private readonly echo: Echo,
    private readonly object: ResourceObject = 'response',
  ) {}

  /** The body of a whole answer. `output` is the JSON of its items. */
  completed(output: string, usage: Usage): string {
    return this.opening('completed') + this.around(this.members(), output, responsesUsageJson(usage))
  }

  /** The same within an event. */
  completedLine(output: string, usage: Usage): string {
    return this.opening('completed') + this.around(this.lineMembers, output, responsesUsageJson(usage))
  }

  /** The resource before any output, within an event. */
  inProgressLine(): string {
    return this.opening('in_progress') + this.around(this.lineMembers, '', 'null')
  }

  private opening(status: 'in_progress' | 'completed'): string {
    const { createdAt } = this.served
    const completedAt = status === 'completed' ? Math.max(createdAt, Math.floor(Date.now() / 1000)) : 'null'
    return (
      `{"id":"${this.id}","object":"${this.object}","created_at":${createdAt},"completed_at":${completedAt},` +
      `"status":"${status}",`
    )
  }

  private around([before, after]: readonly [string, string], output: string, usage: string): string {
    return `${before},"output":[${output}],${after},"usage":${usage},"metadata":{}}`
  }

  private get lineMembers(): readonly [string, string] {
    if (this.line === undefined) {
      const [before, after] = this.members()
      this.line = [lineOf(before), lineOf(after)]
    }
    return this.line
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
