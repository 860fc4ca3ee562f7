/** The schemas of a Responses request: input items, tools, and the body. */

import { Type } from '@sinclair/typebox'
import { ResponsesBody } from '../../../src/dialects/responses/schema.ts'
import {
  anyOf,
  COMMON_FIELDS,
  type Components,
  FUNCTION_FIELDS,
  IGNORED,
  ignored,
  nativeOnly,
  oneOf,
  optional,
  ref,
  requestBody,
} from '../schema-parts.ts'
import { OWN_CALLS, OWN_RESULTS } from './own-items.ts'

const OWN_ITEM_TYPES = [...OWN_CALLS, ...OWN_RESULTS]

const cache = optional(
  ref('CacheControl'),
  'Marks the end of a prefix to cache. A model whose `prompt_cache` does not allow it is a 400 ' +
    '`unsupported_cache_control`.',
)

const NATIVE_TOOLS = 'Without effect unless the operator set [`tools`](native.md#tools-of-openai).'

const TEXT_TYPES = ['input_text', 'output_text', 'text']

const parts: Components = {
  ResponsesTextPart: Type.Object(
    { type: oneOf(...TEXT_TYPES), text: Type.String(), cache_control: cache },
    { description: 'Text. The three types mean the same.' },
  ),
  ResponsesImagePart: Type.Object(
    {
      type: Type.Literal('input_image'),
      image_url: optional(
        Type.String(),
        'A `data:` URL with base64, or an `https` URL of a public host, which the provider fetches.',
      ),
      detail: optional(Type.String(), '`auto`, `low`, `high` or `original`: how closely the model looks at the image.'),
      cache_control: cache,
    },
    { description: 'An image. Without effect unless the operator set [`content`](native.md#documents-and-images).' },
  ),
  ResponsesFilePart: Type.Object(
    {
      type: Type.Literal('input_file'),
      file_data: optional(Type.String(), 'A `data:` URL with base64, or base64 alone.'),
      file_url: optional(Type.String(), 'An `https` URL of a public host, which the provider fetches.'),
      filename: optional(Type.String(), 'The name that the model sees.'),
      cache_control: cache,
    },
    { description: 'A document. Without effect unless the operator set [`content`](native.md#documents-and-images).' },
  ),
  ResponsesOtherPart: {
    ...Type.Object({
      type: Type.Optional(Type.Unsafe({ not: { enum: [...TEXT_TYPES, 'input_image', 'input_file'] } })),
      cache_control: cache,
    }),
    description: 'Accepted without effect: all other parts are ignored.',
    [IGNORED]: true,
  },
  ResponsesContent: anyOf(
    [
      Type.String(),
      Type.Array(
        anyOf([
          ...['ResponsesTextPart', 'ResponsesImagePart', 'ResponsesFilePart', 'ResponsesOtherPart'].map((part) =>
            ref(part),
          ),
        ]),
      ),
    ],
    'Text, or parts.',
  ),
}

const name = Type.String({ minLength: 1 })

const items: Components = {
  ResponsesInputMessage: Type.Object(
    {
      type: optional(Type.Literal('message')),
      role: Type.String({
        description: '`assistant`; `system` or `developer` for instructions; every other role is the user.',
      }),
      content: optional(ref('ResponsesContent')),
    },
    { description: 'A message. `type` may be left out.' },
  ),
  ResponsesInputCall: Type.Object(
    {
      type: Type.Literal('function_call'),
      call_id: Type.String({ minLength: 1, description: 'The id, which the output names.' }),
      name: name,
      namespace: optional(Type.String(), 'The namespace of the tool, if it has one.'),
      arguments: optional(Type.String(), 'JSON text.'),
    },
    { description: 'A call that the model asked for in an earlier turn.' },
  ),
  ResponsesInputOutput: Type.Object(
    {
      type: Type.Literal('function_call_output'),
      call_id: Type.String({ minLength: 1, description: 'The call that this is the output of.' }),
      output: anyOf(
        [ref('ResponsesContent'), Type.Unsafe({ type: ['object', 'number', 'boolean', 'null'] })],
        'Text or parts. Any other value goes to the model as JSON text.',
      ),
    },
    { description: 'The output of a call.' },
  ),
  ResponsesItemReference: Type.Object(
    {
      type: optional(Type.Literal('item_reference')),
      id: Type.String({ minLength: 1, description: 'The id of an output item of an earlier answer.' }),
      role: Type.Optional(Type.Null()),
      content: Type.Optional(Type.Null()),
    },
    {
      description:
        'Stands for an output item that weir sent before. Items are kept for a limited time (an hour by default); ' +
        'one that is not found is a 400. Send the items themselves to be independent of that.',
    },
  ),
  ResponsesInputCompaction: Type.Object(
    {
      type: oneOf('compaction', 'compaction_summary'),
      encrypted_content: Type.String({ description: 'Unchanged, as an earlier answer had it.' }),
    },
    {
      description:
        'The result of a compaction. The summary in it is restored at the start of the conversation, for any model. ' +
        'Only the organisation that got it can send it back; anything else is a 400.',
    },
  ),
  ResponsesCompactionTrigger: Type.Object(
    { type: Type.Literal('compaction_trigger') },
    {
      description:
        'Anywhere in the input, it makes the request a compaction: the model summarises the conversation, and the ' +
        'answer is one `compaction` item.',
    },
  ),
  ResponsesAdditionalTools: Type.Object(
    { type: Type.Literal('additional_tools'), tools: optional(Type.Array(ref('ResponsesTool'))) },
    { description: 'More tools. Codex sends its tools so for some names of models.' },
  ),
  ResponsesInputReasoning: Type.Object(
    {
      type: Type.Literal('reasoning'),
      summary: Type.Optional(Type.Unknown({ description: 'As the answer had it.' })),
      encrypted_content: Type.Optional(Type.Unknown({ description: 'As the answer had it. Any other is left out.' })),
    },
    {
      description:
        'A thought of an earlier answer, unchanged: its issuer gets it back. Without effect unless the operator set ' +
        '[`reasoning`](native.md#thoughts).',
    },
  ),
  ResponsesReasoning: Type.Object(
    {
      effort: optional(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'), 'How much the model thinks.'),
      summary: optional(oneOf('auto', 'concise', 'detailed'), 'Asks for the words of the thoughts.'),
    },
    { description: 'How much the model thinks, and what the caller sees of it.' },
  ),
  ResponsesInputCustomCall: Type.Object(
    {
      type: Type.Literal('custom_tool_call'),
      call_id: Type.Optional(Type.Unknown({ description: 'The id, which the output names.' })),
      name: Type.Optional(Type.Unknown()),
      namespace: Type.Optional(Type.Unknown({ description: 'The namespace of the tool, if it has one.' })),
      input: Type.Optional(Type.Unknown({ description: 'The text.' })),
    },
    { description: `A call of a tool that takes a text. ${NATIVE_TOOLS}` },
  ),
  ResponsesInputCustomOutput: Type.Object(
    {
      type: Type.Literal('custom_tool_call_output'),
      call_id: Type.Optional(Type.Unknown({ description: 'The call that this is the output of.' })),
      output: Type.Optional(Type.Unknown({ description: 'Text or parts.' })),
    },
    { description: `The output of such a call. ${NATIVE_TOOLS}` },
  ),
  ResponsesInputOwnItem: Type.Object(
    { type: oneOf(...OWN_ITEM_TYPES) },
    {
      description:
        `An item of OpenAI's own tools, as an answer had it, or what its caller answers. ${NATIVE_TOOLS} ` +
        'Other providers than those of the Responses API never get it.',
    },
  ),
  ResponsesOtherItem: {
    ...Type.Object({ type: Type.Unsafe({ type: 'string', not: { enum: knownItems() } }) }),
    description: 'Accepted without effect: items of all other types are skipped.',
    [IGNORED]: true,
  },
  ResponsesInputItem: anyOf(
    [
      'ResponsesInputMessage',
      'ResponsesInputCall',
      'ResponsesInputOutput',
      'ResponsesItemReference',
      'ResponsesInputCompaction',
      'ResponsesCompactionTrigger',
      'ResponsesAdditionalTools',
      'ResponsesInputReasoning',
      'ResponsesInputCustomCall',
      'ResponsesInputCustomOutput',
      'ResponsesInputOwnItem',
      'ResponsesOtherItem',
    ].map(ref),
    'An item of the input, by its `type`.',
  ),
}

function knownItems(): readonly string[] {
  return [
    ...['message', 'function_call', 'function_call_output', 'item_reference', 'compaction', 'compaction_summary'],
    ...['compaction_trigger', 'additional_tools', 'reasoning', 'custom_tool_call', 'custom_tool_call_output'],
    ...OWN_ITEM_TYPES,
  ]
}

const tools: Components = {
  ResponsesFunctionTool: Type.Object(
    {
      type: Type.Literal('function'),
      ...FUNCTION_FIELDS,
    },
    { description: 'A function that the caller runs when the model asks for it.' },
  ),
  ResponsesNamespaceTool: Type.Object(
    { type: Type.Literal('namespace'), name: name, tools: optional(Type.Array(ref('ResponsesTool'))) },
    {
      description:
        "Functions under a common name. Calls have the function's own name, and the namespace in `namespace`. A " +
        'namespace within a namespace is dropped.',
    },
  ),
  ResponsesCustomTool: Type.Object(
    {
      type: Type.Literal('custom'),
      name: Type.Optional(Type.Unknown({ description: 'The name that the model calls.' })),
      description: Type.Optional(Type.Unknown({ description: 'What the tool does, for the model.' })),
      format: Type.Optional(
        Type.Unknown({ description: '`{"type": "text"}`, or a grammar with its `syntax` and `definition`.' }),
      ),
    },
    { description: `A tool whose calls have a text instead of arguments. ${NATIVE_TOOLS}` },
  ),
  ResponsesOtherTool: {
    ...Type.Object({ type: Type.Unsafe({ type: 'string', not: { enum: ['function', 'namespace', 'custom'] } }) }),
    description:
      "A tool of OpenAI's own, such as `web_search`. It goes as it came to providers of the Responses API if the " +
      'operator set [`tools`](native.md#tools-of-openai), and is dropped otherwise.',
    [IGNORED]: true,
  },
  ResponsesTool: anyOf(
    ['ResponsesFunctionTool', 'ResponsesNamespaceTool', 'ResponsesCustomTool', 'ResponsesOtherTool'].map(ref),
    'A tool.',
  ),
}

const body = requestBody(
  ResponsesBody,
  {
    ...COMMON_FIELDS,
    input: anyOf(
      [Type.String(), Type.Array(ref('ResponsesInputItem'), { minItems: 1 })],
      'Text of the user, or the items of the whole conversation: conversations are not stored.',
    ),
    instructions: 'Becomes the first system message.',
    max_output_tokens:
      "The most output tokens. Without it, the model's `default_output_tokens` applies, which is 4,096 unless the " +
      "operator set another one. Above the model's own limit it is lowered to that.",
    tools: optional(Type.Array(ref('ResponsesTool')), 'At most 2,048 functions.'),
    tool_choice: optional(
      anyOf([
        oneOf('required', 'none', 'auto'),
        Type.Unsafe({
          type: 'object',
          additionalProperties: true,
          description: "Accepted without effect: a forced tool, unless it is one of OpenAI's own that passes.",
          [IGNORED]: true,
        }),
      ]),
      '`required`: the model must call a tool. `none`: it must not. `auto` is the default.',
    ),
    parallel_tool_calls: ignored(
      "Answers always have `true`. With OpenAI's own tools or namespaces it passes to providers of the same API.",
      optional(Type.Boolean()),
    ),
    reasoning: nativeOnly(
      'Unless the operator set [`reasoning`](native.md#how-much-a-model-thinks): then every provider gets it, and ' +
        'a wrong value is a 400.',
      ref('ResponsesReasoning'),
    ),
    text: ignored('`text.format` and `text.verbosity` are not passed on.'),
    truncation: ignored('The answer repeats it.', optional(Type.String())),
    stream: 'True: the answer is a stream of server-sent events. No effect on `/v1/responses/compact`.',
    user: ignored('It is not passed on.', optional(Type.String())),
  },
  {
    previous_response_id: 'weir stores no conversations: send the whole history in `input`.',
    conversation: 'weir stores no conversations: send the whole history in `input`.',
    store: 'weir stores no answers.',
    background: 'Answers are made while the caller waits.',
    prompt: 'Prompt templates are not supported.',
    include:
      'Nothing can be added to an answer, but `reasoning.encrypted_content` if the operator set ' +
      '[`reasoning`](native.md#thoughts).',
    context_management: 'Send a `compaction_trigger` item instead.',
    max_tool_calls: "The caller runs the tools. With OpenAI's own, it passes with them.",
    top_logprobs: 'Answers have no log probabilities.',
    safety_identifier: 'It is not passed on.',
    prompt_cache_options: 'They are not passed on.',
    stop: 'The Responses API has no stop sequences.',
    stream_options: 'Streams have no options.',
  },
  { description: 'A request of Responses.', not: { $ref: '#/components/schemas/ForbiddenFields' } },
)

export const responsesRequestComponents: Components = { ...parts, ...items, ...tools, ResponsesRequest: body }
