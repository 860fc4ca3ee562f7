/** The schemas of a Chat Completions answer: the body, its message and its usage. */

import { Type } from '@sinclair/typebox'
import { type Components, count, described, id, oneOf, orNull, ref } from '../schema-parts.ts'

export const finishReason = oneOf('stop', 'length', 'tool_calls', 'content_filter')

const FINISH =
  '`stop`: the model ended. `length`: the output limit ended it. `tool_calls`: it asks for calls. `content_filter`: ' +
  "the provider's filter ended it."

const tokenLogprob = Type.Unsafe({
  type: 'object',
  additionalProperties: true,
  description: 'A token as the provider reports it.',
  properties: {
    token: { type: 'string' },
    logprob: { type: 'number' },
    bytes: { type: ['array', 'null'], items: { type: 'integer' } },
    top_logprobs: { type: 'array', items: { type: 'object', additionalProperties: true } },
  },
})

export const chatAnswerComponents: Components = {
  ChatLogprobs: Type.Unsafe({
    type: 'object',
    additionalProperties: true,
    description: 'The log probabilities as the provider reports them.',
    properties: {
      content: orNull(Type.Array(tokenLogprob)),
      refusal: orNull(Type.Array(tokenLogprob)),
    },
  }),
  ChatUsage: Type.Object(
    {
      prompt_tokens: count('Input tokens, with those that were read from a cache or written to it.'),
      completion_tokens: count('Output tokens, with those of the reasoning.'),
      total_tokens: count('The sum of both.'),
      prompt_tokens_details: Type.Object({
        cached_tokens: count("Input tokens read from the provider's cache."),
        audio_tokens: count('Always 0.'),
        cache_write_tokens: count("Input tokens written to the provider's cache."),
      }),
      completion_tokens_details: Type.Object({
        reasoning_tokens: count('Output tokens of the reasoning.'),
        audio_tokens: count('Always 0.'),
        accepted_prediction_tokens: count('Always 0.'),
        rejected_prediction_tokens: count('Always 0.'),
      }),
    },
    { description: "The provider's figures; our own count for those that it does not report." },
  ),
  ChatAnswerCall: Type.Object(
    {
      id: Type.String({ minLength: 1, description: 'The id, for the message with the result.' }),
      type: Type.Literal('function'),
      function: Type.Object({
        name: Type.String({ minLength: 1 }),
        arguments: Type.String({
          description: 'JSON text, `{}` without arguments. Not whole if the output limit cut the call.',
        }),
      }),
    },
    { description: 'A call that the model asks for. The caller runs it.' },
  ),
  ChatAnswer: Type.Object(
    {
      id: id('chatcmpl-', 'The id of the answer.'),
      object: Type.Literal('chat.completion'),
      created: count('Unix seconds.'),
      model: Type.String({ minLength: 1, description: 'The public name of the model that answered.' }),
      choices: Type.Array(
        Type.Object({
          index: Type.Literal(0),
          message: Type.Object({
            role: Type.Literal('assistant'),
            content: orNull(Type.String(), 'The text. Null if there is none and the answer has calls or a refusal.'),
            refusal: orNull(Type.String(), "The model's refusal, if it refused in so many words."),
            reasoning_content: Type.Optional(
              Type.String({
                description: 'What the model thought, if the operator set [`reasoning`](native.md#thoughts).',
              }),
            ),
            annotations: Type.Array(Type.Unknown(), { maxItems: 0, description: 'Always empty.' }),
            tool_calls: Type.Optional(
              Type.Array(ref('ChatAnswerCall'), { minItems: 1, description: 'Absent without calls.' }),
            ),
          }),
          logprobs: orNull(ref('ChatLogprobs')),
          finish_reason: described(finishReason, FINISH),
        }),
        { minItems: 1, maxItems: 1, description: 'Always one choice.' },
      ),
      usage: ref('ChatUsage'),
      service_tier: Type.String({ description: 'The tier that served the request.' }),
    },
    { description: 'A whole answer of Chat Completions.' },
  ),
}
