/** The response resource, as a whole answer is and as a stream begins and ends with: every field that the public schemas require (wire.md A3.2). */

import type { Tool } from '../../core/chat-request.ts'
import type { JsonArray, JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'
import { jsonLine } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import type { ResponsesBody } from './schema.ts'
import { responsesUsage } from './usage.ts'

/** What the resource repeats of the request. */
export interface Echo {
  readonly instructions: string | null
  readonly maxOutputTokens: number | null
  readonly temperature: number
  readonly topP: number
  readonly toolChoice: 'auto' | 'none' | 'required'
  readonly tools: readonly JsonObject[]
  readonly promptCacheKey: string | null
  readonly serviceTier: string
  readonly truncation: 'auto' | 'disabled'
}

/** `tools` are those that the model is offered under the caller's own names. Forced tools and the like have no effect (4.4), so `tool_choice` says `auto` for them. */
export function echoOf(body: ResponsesBody, tools: readonly Tool[]): Echo {
  const choice = body.tool_choice
  return {
    instructions: body.instructions ?? null,
    maxOutputTokens: body.max_output_tokens ?? null,
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    toolChoice: choice === 'none' || choice === 'required' ? choice : 'auto',
    tools: tools.map(({ name, description = null, parameters, strict = null }) => {
      return { type: 'function', name, description, parameters, strict }
    }),
    promptCacheKey: body.prompt_cache_key ?? null,
    serviceTier: body.service_tier ?? 'default',
    truncation: body.truncation === 'auto' ? 'auto' : 'disabled',
  }
}

/** `response.compaction` is that of `POST /v1/responses/compact` alone: SDKs read its body as another type. */
export type ResourceObject = 'response' | 'response.compaction'

/** One answer's resource. What does not change between the events that carry it is serialised once. */
export class Resource {
  readonly id = mintId('resp')
  /** From `background` to `model`. */
  private readonly before: JsonObject
  /** From `parallel_tool_calls` to `truncation`. */
  private readonly behind: JsonObject
  private serialised: { readonly before: string; readonly behind: string } | undefined

  constructor(
    private readonly served: Served,
    echo: Echo,
    private readonly object: ResourceObject = 'response',
  ) {
    this.before = {
      background: false,
      error: null,
      incomplete_details: null,
      instructions: echo.instructions,
      max_output_tokens: echo.maxOutputTokens,
      max_tool_calls: null,
      model: served.model,
    }
    this.behind = {
      parallel_tool_calls: true,
      previous_response_id: null,
      presence_penalty: 0,
      frequency_penalty: 0,
      prompt_cache_key: echo.promptCacheKey,
      reasoning: { effort: null, summary: null },
      safety_identifier: null,
      service_tier: echo.serviceTier,
      store: false,
      temperature: echo.temperature,
      text: { format: { type: 'text' } },
      tool_choice: echo.toolChoice,
      tools: echo.tools,
      top_logprobs: 0,
      top_p: echo.topP,
      truncation: echo.truncation,
    }
  }

  /** The whole answer. */
  completed(output: JsonArray, usage: Usage): JsonObject {
    const ending = { usage: responsesUsage(usage), metadata: {} }
    return { ...this.opening('completed'), ...this.before, output, ...this.behind, ...ending }
  }

  /** The same as JSON text. `output` is that of its items. */
  completedJson(output: readonly string[], usage: Usage): string {
    return this.json(this.opening('completed'), output.join(), jsonLine(responsesUsage(usage)))
  }

  /** The resource before there is any output, as JSON text. */
  inProgressJson(): string {
    return this.json(this.opening('in_progress'), '', 'null')
  }

  private opening(status: 'in_progress' | 'completed'): JsonObject {
    const { createdAt } = this.served
    const completedAt = status === 'completed' ? Math.max(createdAt, Math.floor(Date.now() / 1000)) : null
    return { id: this.id, object: this.object, created_at: createdAt, completed_at: completedAt, status }
  }

  private json(opening: JsonObject, output: string, usage: string): string {
    this.serialised ??= { before: membersOf(this.before), behind: membersOf(this.behind) }
    const { before, behind } = this.serialised
    return `{${membersOf(opening)},${before},"output":[${output}],${behind},"usage":${usage},"metadata":{}}`
  }
}

/** The JSON text of an object without its braces. */
function membersOf(object: JsonObject): string {
  return jsonLine(object).slice(1, -1)
}
