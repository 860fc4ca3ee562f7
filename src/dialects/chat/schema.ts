/** The schema of a Chat Completions request. Fields that are not listed are ignored. */

import { type Static, Type } from '@sinclair/typebox'
import { compile, nullable } from '../body-schema.ts'

const FunctionTool = Type.Object({
  type: Type.String(),
  function: nullable(
    Type.Object({
      name: Type.String({ minLength: 1 }),
      description: nullable(Type.String()),
      parameters: nullable(Type.Record(Type.String(), Type.Unknown())),
      strict: nullable(Type.Boolean()),
    }),
  ),
  cache_control: Type.Optional(Type.Unknown()),
})

const StreamOptions = Type.Object({
  include_usage: nullable(Type.Boolean()),
  include_obfuscation: Type.Optional(Type.Unknown()),
})

/** `request.ts` checks each message as it converts it, because its errors can name the invalid part. */
export const ChatBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  messages: Type.Array(Type.Unknown(), { minItems: 1 }),
  max_tokens: nullable(Type.Integer({ minimum: 1 })),
  max_completion_tokens: nullable(Type.Integer({ minimum: 1 })),
  stop: nullable(Type.Union([Type.String(), Type.Array(Type.String())])),
  tools: nullable(Type.Array(FunctionTool)),
  tool_choice: nullable(Type.Unknown()),
  parallel_tool_calls: nullable(Type.Boolean()),
  stream: nullable(Type.Boolean()),
  stream_options: nullable(StreamOptions),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  frequency_penalty: nullable(Type.Number({ minimum: -2, maximum: 2 })),
  presence_penalty: nullable(Type.Number({ minimum: -2, maximum: 2 })),
  seed: nullable(Type.Integer()),
  reasoning_effort: nullable(Type.String()),
  verbosity: nullable(Type.String()),
  logit_bias: nullable(Type.Record(Type.String(), Type.Number())),
  logprobs: nullable(Type.Boolean()),
  top_logprobs: nullable(Type.Integer({ minimum: 0, maximum: 20 })),
  response_format: nullable(Type.Object({ type: Type.String() })),
  user: nullable(Type.String()),
  safety_identifier: nullable(Type.String()),
  service_tier: nullable(Type.String()),
  prompt_cache_key: nullable(Type.String()),
  prompt_cache_retention: nullable(Type.String()),
  prompt_cache_options: nullable(Type.Record(Type.String(), Type.Unknown())),
})

export type ChatBody = Static<typeof ChatBody>

/** The typed body. Throws `CallerError` with the path of the invalid field. */
export const checkChatBody = compile(ChatBody)
