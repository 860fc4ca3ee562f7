/**
 * The schema of a Messages request. Fields that are not listed are ignored, among them `top_k`, `thinking` and
 * `metadata`.
 */

import { type Static, Type } from '@sinclair/typebox'
import { compile, nullable } from '../body-schema.ts'

const Content = Type.Union([Type.String(), Type.Array(Type.Unknown())])

/** Blocks and tools are checked as they are converted, because those errors can name the invalid one. */
export const MessagesBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  messages: Type.Array(Type.Object({ role: Type.String(), content: Content }), { minItems: 1 }),
  system: nullable(Content),
  max_tokens: nullable(Type.Integer({ minimum: 0 })),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  stop_sequences: nullable(Type.Array(Type.String())),
  tools: nullable(Type.Array(Type.Unknown())),
  tool_choice: nullable(Type.Unknown()),
  stream: nullable(Type.Boolean()),
  service_tier: nullable(Type.String()),
  cache_control: Type.Optional(Type.Unknown()),
  prompt_cache_key: nullable(Type.String()),
  prompt_cache_retention: nullable(Type.String()),
  thread: nullable(Type.Unknown()),
})

export type MessagesBody = Static<typeof MessagesBody>

/** The typed body. Throws `CallerError` with the path of the invalid field. */
export const checkMessagesBody = compile(MessagesBody)
