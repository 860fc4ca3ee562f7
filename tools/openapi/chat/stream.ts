/** The schemas of the chunks of a Chat Completions stream. */

import { Type } from '@sinclair/typebox'
import { type Components, count, id, orNull, ref } from '../schema-parts.ts'
import { finishReason } from './answer.ts'

const call = Type.Object(
  {
    index: count('Which call of the answer, from 0 on.'),
    id: Type.Optional(Type.String({ minLength: 1 })),
    type: Type.Optional(Type.Literal('function')),
    function: Type.Object({
      name: Type.Optional(Type.String({ minLength: 1 })),
      arguments: Type.String({ description: 'The next piece of the JSON text.' }),
    }),
  },
  { description: 'The first piece of a call has `id`, `type` and `name`; later ones only have more of the arguments.' },
)

export const chatStreamComponents: Components = {
  ChatDelta: Type.Object(
    {
      role: Type.Optional(Type.Literal('assistant')),
      content: Type.Optional(orNull(Type.String(), 'The next piece of the text.')),
      refusal: Type.Optional(orNull(Type.String(), 'The next piece of the refusal.')),
      reasoning_content: Type.Optional(
        Type.String({
          description: 'The next piece of a thought, if the operator set [`reasoning`](native.md#thoughts).',
        }),
      ),
      tool_calls: Type.Optional(Type.Array(call, { minItems: 1 })),
    },
    { description: 'The first chunk has `role`; the last one before the usage is `{}`.' },
  ),
  ChatChunk: Type.Object(
    {
      id: id('chatcmpl-', 'The id of the answer, the same in all chunks.'),
      object: Type.Literal('chat.completion.chunk'),
      created: count('Unix seconds, the same in all chunks.'),
      model: Type.String({ minLength: 1, description: 'The public name of the model that answers.' }),
      choices: Type.Array(
        Type.Object({
          index: Type.Literal(0),
          delta: ref('ChatDelta'),
          logprobs: orNull(ref('ChatLogprobs')),
          finish_reason: orNull(finishReason, 'Null until the finish.'),
        }),
        { maxItems: 1, description: 'One choice; none in the chunk with the usage.' },
      ),
      service_tier: Type.Optional(
        Type.String({ description: 'The tier that served the request, in the last chunks.' }),
      ),
      usage: Type.Optional(
        orNull(
          ref('ChatUsage'),
          'With `stream_options.include_usage`: null in all chunks but the last, which has no choices. Else absent.',
        ),
      ),
    },
    {
      description:
        'One event of a Chat Completions stream: a line `data: JSON` and an empty line. The stream ends with ' +
        '`data: [DONE]`, which is not JSON.',
    },
  ),
}
