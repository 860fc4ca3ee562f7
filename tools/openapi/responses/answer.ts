/** The schemas of a Responses answer: output items, usage and the response resource. */

import { type TSchema, Type } from '@sinclair/typebox'
import { anyObject, anyOf, type Components, choice, count, id, oneOf, orNull, ref } from '../schema-parts.ts'
import { OWN_CALLS } from './own-items.ts'

const noItems = (description: string) => Type.Array(Type.Unknown(), { maxItems: 0, description })
const always = (value: boolean | number | string) => Type.Literal(value)

const status = oneOf('in_progress', 'completed', 'incomplete')

const items: Components = {
  OutputText: Type.Object(
    {
      type: Type.Literal('output_text'),
      annotations: Type.Array(anyObject('As the provider sent it.'), {
        description: "Empty, but for citations of OpenAI's own tools that pass.",
      }),
      logprobs: noItems('Always empty.'),
      text: Type.String({ description: 'The text. A refusal is text, too.' }),
    },
    { description: 'The text of a message.' },
  ),
  OutputMessage: Type.Object(
    {
      id: id('msg_', 'The id of the item.'),
      type: Type.Literal('message'),
      status,
      phase: Type.Optional(
        Type.String({
          description: "As the provider sent it, if tools of OpenAI's own pass: `commentary`, `final_answer`.",
        }),
      ),
      role: Type.Literal('assistant'),
      content: Type.Array(ref('OutputText'), {
        maxItems: 1,
        description: 'One text; none while the item is in progress.',
      }),
    },
    { description: "The message of the model. An answer has at most one, unless it has items of OpenAI's own tools." },
  ),
  OutputCall: Type.Object(
    {
      id: id('fc_', 'The id of the item. Not the `call_id`.'),
      type: Type.Literal('function_call'),
      status,
      arguments: Type.String({ description: 'JSON text. Not whole if the output limit cut the call.' }),
      call_id: Type.String({ minLength: 1, description: 'The id, for the item with the output.' }),
      name: Type.String({ minLength: 1 }),
      namespace: Type.Optional(Type.String({ minLength: 1, description: 'The namespace of the tool, if it has one.' })),
    },
    { description: 'A call that the model asks for. The caller runs it.' },
  ),
  OutputCustomCall: Type.Object(
    {
      id: id('ctc_', 'The id of the item. Not the `call_id`.'),
      type: Type.Literal('custom_tool_call'),
      status,
      input: Type.String({ description: 'The text.' }),
      call_id: Type.String({ minLength: 1, description: 'The id, for the item with the output.' }),
      name: Type.String({ minLength: 1 }),
      namespace: Type.Optional(Type.String({ minLength: 1, description: 'The namespace of the tool, if it has one.' })),
    },
    { description: 'A call of a tool that takes a text. The caller runs it.' },
  ),
  OutputOwnItem: Type.Object(
    { type: oneOf(...OWN_CALLS) },
    {
      description:
        "What a tool of OpenAI's own did, as the provider sent it ([native mode](native.md#tools-of-openai)).",
    },
  ),
  SummaryText: Type.Object(
    { type: Type.Literal('summary_text'), text: Type.String() },
    { description: 'A part of the words of a thought.' },
  ),
  OutputReasoning: Type.Object(
    {
      id: id('rs_', 'The id of the item.'),
      type: Type.Literal('reasoning'),
      summary: Type.Array(ref('SummaryText'), { description: 'The words, if the request asks for a summary.' }),
      encrypted_content: Type.Optional(
        Type.String({
          minLength: 1,
          description: 'Sealed by weir, if `include` asks for it. Send the item back unchanged.',
        }),
      ),
    },
    { description: 'A thought, if the operator set [`reasoning`](native.md#thoughts) and the request asks for any.' },
  ),
  OutputCompaction: Type.Object(
    {
      id: id('cmp_', 'The id of the item.'),
      type: Type.Literal('compaction'),
      encrypted_content: Type.String({
        minLength: 1,
        description: 'The sealed summary. Send the item back unchanged.',
      }),
    },
    { description: 'The result of a compaction.' },
  ),
  OutputItem: choice(
    'type',
    {
      message: 'OutputMessage',
      function_call: 'OutputCall',
      custom_tool_call: 'OutputCustomCall',
      reasoning: 'OutputReasoning',
      compaction: 'OutputCompaction',
      ...Object.fromEntries(OWN_CALLS.map((type) => [type, 'OutputOwnItem'])),
    },
    'An item of the output, by its type.',
  ),
}

const usage: Components = {
  ResponsesUsage: Type.Object(
    {
      input_tokens: count('Input tokens, with those that were read from a cache or written to it.'),
      input_tokens_details: Type.Object({
        cached_tokens: count("Input tokens read from the provider's cache."),
        cache_write_tokens: count("Input tokens written to the provider's cache."),
      }),
      output_tokens: count('Output tokens, with those of the reasoning.'),
      output_tokens_details: Type.Object({
        reasoning_tokens: count('Output tokens of the reasoning.'),
      }),
      total_tokens: count('The sum of both.'),
    },
    { description: "The provider's figures; our own count for those that it does not report." },
  ),
}

const echoedTool = Type.Object({
  type: Type.Literal('function'),
  name: Type.String({ minLength: 1 }),
  description: orNull(Type.String()),
  parameters: anyObject('The schema of the arguments.'),
  strict: orNull(Type.Boolean()),
})

const echoedOther = Type.Object({ type: Type.Unsafe({ type: 'string', not: { const: 'function' } }) })

/** A response with what changes between its states. */
function resource(
  state: Readonly<Record<'object' | 'completed_at' | 'status' | 'output' | 'usage', TSchema>>,
  description: string,
) {
  return Type.Object(
    {
      id: id('resp_', 'The id of the response.'),
      object: state.object,
      created_at: count('Unix seconds.'),
      completed_at: state.completed_at,
      status: state.status,
      background: always(false),
      error: Type.Null(),
      incomplete_details: orNull(
        Type.Object({ reason: oneOf('max_output_tokens', 'content_filter') }),
        'Why the answer is incomplete, if the operator set [`status`](native.md).',
      ),
      instructions: orNull(Type.String(), 'As in the request.'),
      max_output_tokens: orNull(Type.Integer({ minimum: 1 }), 'As in the request.'),
      max_tool_calls: orNull(Type.Integer({ minimum: 1 }), "As in the request, with OpenAI's own tools that pass."),
      model: Type.String({ minLength: 1, description: 'The public name of the model that answers.' }),
      output: state.output,
      parallel_tool_calls: always(true),
      previous_response_id: Type.Null(),
      presence_penalty: always(0),
      frequency_penalty: always(0),
      prompt_cache_key: orNull(Type.String(), 'As in the request.'),
      reasoning: Type.Object(
        { effort: orNull(Type.String()), summary: orNull(Type.String()) },
        { description: 'As in the request, if the operator set `reasoning`; null otherwise.' },
      ),
      safety_identifier: Type.Null(),
      service_tier: Type.String({ description: 'As in the request; `default` without it.' }),
      store: always(false),
      temperature: Type.Number({ minimum: 0, maximum: 2, description: 'As in the request; 1 without it.' }),
      text: Type.Object({ format: Type.Object({ type: always('text') }) }),
      tool_choice: anyOf([
        oneOf('auto', 'none', 'required'),
        anyObject("A forced tool of OpenAI's own that passes, as in the request."),
      ]),
      tools: Type.Array(anyOf([echoedTool, echoedOther]), {
        description:
          'The functions of the request outside of namespaces. Then, if they pass, tools that take a text, ' +
          "OpenAI's own, without credentials, and namespaces.",
      }),
      top_logprobs: always(0),
      top_p: Type.Number({ minimum: 0, maximum: 1, description: 'As in the request; 1 without it.' }),
      truncation: oneOf('auto', 'disabled'),
      usage: state.usage,
      metadata: Type.Unsafe({ type: 'object', properties: {}, description: 'Always empty.' }),
    },
    { description },
  )
}

const completed = {
  completed_at: count('Unix seconds.'),
  status: oneOf('completed', 'incomplete'),
  usage: ref('ResponsesUsage'),
}

const resources: Components = {
  Response: resource(
    {
      ...completed,
      object: always('response'),
      output: Type.Array(ref('OutputItem'), {
        minItems: 1,
        description:
          'The message, if there is text, then the calls; with thoughts, in the order in which they began. One empty ' +
          'message if there is neither text nor calls.',
      }),
    },
    'A whole answer of Responses. `status` is `completed` also if the output limit or a filter ended the answer, ' +
      'unless the operator set [`status`](native.md).',
  ),
  CompactionResponse: resource(
    {
      ...completed,
      object: always('response.compaction'),
      output: Type.Array(ref('OutputCompaction'), { minItems: 1, maxItems: 1, description: 'One compaction item.' }),
    },
    'The answer of `POST /v1/responses/compact`.',
  ),
  StartedResponse: resource(
    {
      object: always('response'),
      completed_at: Type.Null(),
      status: always('in_progress'),
      output: noItems('Empty at the start.'),
      usage: Type.Null(),
    },
    'The response at the start of a stream.',
  ),
}

export const responsesAnswerComponents: Components = { ...items, ...usage, ...resources }
