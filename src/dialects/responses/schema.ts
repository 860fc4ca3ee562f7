/** The schema of a Responses request. Fields that are not listed are ignored. */

import { type Static, Type } from '@sinclair/typebox'
import { compile, nullable } from '../body-schema.ts'

/**
 * `input` and `tools` are checked as they are converted, because those errors can name the invalid part. `reasoning`,
 * `text`, `truncation`, `parallel_tool_calls` and `user` have no effect.
 */
export const ResponsesBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  input: Type.Unknown({ description: 'A string, or an array of input items.' }),
  instructions: nullable(Type.String()),
  max_output_tokens: nullable(Type.Integer({ minimum: 1 })),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  tools: nullable(Type.Array(Type.Unknown())),
  tool_choice: nullable(Type.Unknown()),
  parallel_tool_calls: nullable(Type.Boolean()),
  reasoning: nullable(Type.Unknown()),
  text: nullable(Type.Unknown()),
  truncation: nullable(Type.String()),
  stream: nullable(Type.Boolean()),
  service_tier: nullable(Type.String()),
  user: nullable(Type.String()),
  prompt_cache_key: nullable(Type.String()),
  prompt_cache_retention: nullable(Type.String()),
})

export type ResponsesBody = Static<typeof ResponsesBody>

/** The typed body. Throws `CallerError` with the path of the invalid field. */
export const checkResponsesBody = compile(ResponsesBody)
