/** The schemas of a Messages answer, and of a count of tokens. */

import { Type } from '@sinclair/typebox'
import { type Components, choice, count, described, id, oneOf, ref } from '../schema-parts.ts'

const STOP =
  '`end_turn`: the model ended. `max_tokens`: the output limit ended it. `tool_use`: it asks for calls. ' +
  "`stop_sequence`: the provider's filter ended it."

export const stopReason = described(oneOf('end_turn', 'max_tokens', 'tool_use', 'stop_sequence'), STOP)

export const messagesAnswerComponents: Components = {
  AnswerText: Type.Object({ type: Type.Literal('text'), text: Type.String() }, { description: 'Text.' }),
  AnswerToolUse: Type.Object(
    {
      type: Type.Literal('tool_use'),
      id: Type.String({ minLength: 1, description: 'The id, for the block with the result.' }),
      name: Type.String({ minLength: 1 }),
      input: Type.Unsafe({ type: 'object', additionalProperties: true, description: 'The arguments.' }),
    },
    { description: 'A call that the model asks for. The caller runs it.' },
  ),
  AnswerThinking: Type.Object(
    {
      type: Type.Literal('thinking'),
      thinking: Type.String({ description: 'The words of the thought. Empty if the request omits them.' }),
      signature: Type.String({
        description: 'Sealed by weir. Send the block back unchanged. Empty in a stream at first.',
      }),
    },
    { description: 'A thought, if the operator set [`reasoning`](native.md#thoughts) and the request turns it on.' },
  ),
  AnswerRedactedThinking: Type.Object(
    {
      type: Type.Literal('redacted_thinking'),
      data: Type.String({ minLength: 1, description: 'Sealed by weir. Send the block back unchanged.' }),
    },
    { description: 'A thought whose words the provider does not show.' },
  ),
  AnswerBlock: choice(
    'type',
    {
      text: 'AnswerText',
      tool_use: 'AnswerToolUse',
      thinking: 'AnswerThinking',
      redacted_thinking: 'AnswerRedactedThinking',
    },
    'A block of the answer.',
  ),
  MessagesUsage: Type.Object(
    {
      input_tokens: count('Input tokens, without those that were read from a cache or written to it.'),
      service_tier: Type.Optional(Type.String({ description: 'The tier that served the request.' })),
      cache_creation_input_tokens: Type.Optional(
        count("Input tokens written to the provider's cache. Absent if no cache was used."),
      ),
      cache_read_input_tokens: Type.Optional(
        count("Input tokens read from the provider's cache. Absent if no cache was used."),
      ),
      cache_creation: Type.Optional(
        Type.Object(
          {
            ephemeral_5m_input_tokens: count('Written for 5 minutes.'),
            ephemeral_1h_input_tokens: count('Written for an hour.'),
          },
          { description: 'The writes by TTL, if the provider reports them.' },
        ),
      ),
      output_tokens: count('Output tokens, with those of the reasoning.'),
    },
    { description: "The provider's figures; our own count for those that it does not report." },
  ),
  Message: Type.Object(
    {
      id: id('msg_', 'The id of the message.'),
      type: Type.Literal('message'),
      role: Type.Literal('assistant'),
      model: Type.String({ minLength: 1, description: 'The public name of the model that answered.' }),
      content: Type.Array(ref('AnswerBlock'), {
        description:
          'The text, if there is any, then the calls; thoughts in their places. One empty text if there is neither.',
      }),
      stop_reason: stopReason,
      stop_sequence: Type.Null(),
      usage: ref('MessagesUsage'),
    },
    { description: 'A whole answer of Messages.' },
  ),
  StartedMessage: Type.Object(
    {
      id: id('msg_', 'The id of the message.'),
      type: Type.Literal('message'),
      role: Type.Literal('assistant'),
      model: Type.String({ minLength: 1, description: 'The public name of the model that answers.' }),
      content: Type.Array(Type.Unknown(), { maxItems: 0, description: 'Empty at the start.' }),
      stop_reason: Type.Null(),
      stop_sequence: Type.Null(),
      usage: ref('MessagesUsage'),
    },
    { description: 'The message at the start of a stream. Its `input_tokens` may be an estimate.' },
  ),
  TokenCount: Type.Object(
    { input_tokens: count('Input tokens of the request.') },
    { description: "The provider's count if it has a counter and answers within 10 s, else weir's estimate." },
  ),
}
