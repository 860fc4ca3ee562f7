/**
 * The response resource: the body of a whole answer, and the first and last event of a stream. It has every field that
 * the official schema requires.
 */

import type { Tool } from '../../core/chat-request.ts'
import type { JsonArray, JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'
import { jsonLine } from '../../wire/sse.ts'
import { mintId } from '../answer-ids.ts'
import type { Served } from '../dialect.ts'
import type { ResponsesBody } from './schema.ts'
import { responsesUsage } from './usage.ts'

/** The fields of the request that the resource repeats. */
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

/**
 * `tools` are the tools that the model gets under the caller's own names. Forced tools have no effect, so `tool_choice`
 * is `auto` for them.
 */
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

/** `response.compaction` is for `POST /v1/responses/compact` only, whose body SDKs read as another type. */
export type ResourceObject = 'response' | 'response.compaction'

/** The resource of one answer. What does not change from event to event is serialised once. */
export class Resource {
  readonly id = mintId('resp')
  /** From `background` to `model`. */
  private readonly before: JsonObject
  /** From `parallel_tool_calls` to `truncation`. */
  private readonly after: JsonObject
  private serialised: { readonly before: string; readonly after: string } | undefined

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
    this.after = {
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
    return { ...this.opening('completed'), ...this.before, output, ...this.after, ...ending }
  }

  /** The whole answer as JSON text. `output` is the JSON of its items. */
  completedJson(output: readonly string[], usage: Usage): string {
    return this.json(this.opening('completed'), output.join(), jsonLine(responsesUsage(usage)))
  }

  /** The resource before any output, as JSON text. */
  inProgressJson(): string {
    return this.json(this.opening('in_progress'), '', 'null')
  }

  private opening(status: 'in_progress' | 'completed'): JsonObject {
    const { createdAt } = this.served
    const completedAt = status === 'completed' ? Math.max(createdAt, Math.floor(Date.now() / 1000)) : null
    return { id: this.id, object: this.object, created_at: createdAt, completed_at: completedAt, status }
  }

  private json(opening: JsonObject, output: string, usage: string): string {
    this.serialised ??= { before: membersOf(this.before), after: membersOf(this.after) }
    const { before, after } = this.serialised
    return `{${membersOf(opening)},${before},"output":[${output}],${after},"usage":${usage},"metadata":{}}`
  }
}

/** The JSON text of an object without its braces. */
function membersOf(object: JsonObject): string {
  return jsonLine(object).slice(1, -1)
}
