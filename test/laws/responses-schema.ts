/**
 * What the Open Responses schema and OpenAI's require of a response resource and its items, as a strict
 * schema of our own: every key is required and no other may be there, so that a field that goes missing or appears is
 * noticed.
 */

import { type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Value } from '@sinclair/typebox/value'

const strict = <T extends Record<string, TSchema>>(properties: T) =>
  Type.Object(properties, { additionalProperties: false })
const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()])
const count = Type.Integer({ minimum: 0 })
const id = (prefix: string) => Type.String({ pattern: `^${prefix}_[A-Za-z0-9_-]{4,59}$` })

const OutputText = strict({
  type: Type.Literal('output_text'),
  annotations: Type.Array(Type.Never(), { maxItems: 0 }),
  logprobs: Type.Array(Type.Never(), { maxItems: 0 }),
  text: Type.String(),
})

const MessageItem = strict({
  id: id('msg'),
  type: Type.Literal('message'),
  status: Type.Literal('completed'),
  role: Type.Literal('assistant'),
  content: Type.Array(OutputText, { minItems: 1, maxItems: 1 }),
})

const call = {
  id: id('fc'),
  type: Type.Literal('function_call'),
  status: Type.Literal('completed'),
  arguments: Type.String({ minLength: 1 }),
  call_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }),
  name: Type.String({ minLength: 1 }),
}
const CallItem = Type.Union([strict(call), strict({ ...call, namespace: Type.String({ minLength: 1 }) })])

const CompactionItem = strict({
  id: id('cmp'),
  type: Type.Literal('compaction'),
  encrypted_content: Type.String({ minLength: 1 }),
})

/** A finished item of `output`. */
export const OutputItem = Type.Union([MessageItem, CallItem, CompactionItem])

const FunctionTool = strict({
  type: Type.Literal('function'),
  name: Type.String({ minLength: 1 }),
  description: orNull(Type.String()),
  parameters: Type.Record(Type.String(), Type.Unknown()),
  strict: orNull(Type.Boolean()),
})

const Usage = strict({
  input_tokens: count,
  input_tokens_details: strict({ cached_tokens: count, cache_write_tokens: count }),
  output_tokens: count,
  output_tokens_details: strict({ reasoning_tokens: count }),
  total_tokens: count,
})

const resource = {
  id: id('resp'),
  object: Type.Literal('response'),
  created_at: count,
  background: Type.Literal(false),
  error: Type.Null(),
  incomplete_details: Type.Null(),
  instructions: orNull(Type.String()),
  max_output_tokens: orNull(Type.Integer({ minimum: 1 })),
  max_tool_calls: Type.Null(),
  model: Type.String({ minLength: 1 }),
  parallel_tool_calls: Type.Boolean(),
  previous_response_id: Type.Null(),
  presence_penalty: Type.Number(),
  frequency_penalty: Type.Number(),
  prompt_cache_key: orNull(Type.String()),
  reasoning: strict({ effort: Type.Null(), summary: Type.Null() }),
  safety_identifier: Type.Null(),
  service_tier: Type.String({ minLength: 1 }),
  store: Type.Literal(false),
  temperature: Type.Number({ minimum: 0, maximum: 2 }),
  text: strict({ format: strict({ type: Type.Literal('text') }) }),
  tool_choice: Type.Union([Type.Literal('auto'), Type.Literal('none'), Type.Literal('required')]),
  tools: Type.Array(FunctionTool),
  top_logprobs: count,
  top_p: Type.Number({ minimum: 0, maximum: 1 }),
  truncation: Type.Union([Type.Literal('auto'), Type.Literal('disabled')]),
  metadata: strict({}),
}

/** The resource of a whole answer and of `response.completed`. */
export const CompletedResponse = strict({
  ...resource,
  completed_at: count,
  status: Type.Literal('completed'),
  output: Type.Array(OutputItem, { minItems: 1 }),
  usage: Usage,
})

/** The resource of `response.created` and `response.in_progress`. */
export const StartedResponse = strict({
  ...resource,
  completed_at: Type.Null(),
  status: Type.Literal('in_progress'),
  output: Type.Array(Type.Never(), { maxItems: 0 }),
  usage: Type.Null(),
})

/** A check that throws with the path at fault. */
function checking(schema: TSchema): (value: unknown) => void {
  const compiled = TypeCompiler.Compile(schema)
  return (value) => {
    if (compiled.Check(value)) return
    const first = Value.Errors(schema, value).First()
    throw new Error(`${first?.path || '/'}: ${first?.message} (${JSON.stringify(first?.value)?.slice(0, 100)})`)
  }
}

export const checkCompletedResponse = checking(CompletedResponse)
export const checkStartedResponse = checking(StartedResponse)
export const checkOutputItem = checking(OutputItem)
