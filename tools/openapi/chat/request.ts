/** The schemas of a Chat Completions request: messages with their parts, tools, and the body. */

import { Type } from '@sinclair/typebox'
import { ChatBody } from '../../../src/dialects/chat/schema.ts'
import {
  anyObject,
  anyOf,
  COMMON_FIELDS,
  type Components,
  choice,
  FUNCTION_FIELDS,
  ignored,
  MARK_OR_DROPPED,
  oneOf,
  optional,
  ref,
  requestBody,
} from '../schema-parts.ts'

const parts: Components = {
  ChatTextPart: Type.Object(
    { type: Type.Literal('text'), text: Type.String(), cache_control: MARK_OR_DROPPED },
    { description: 'Text.' },
  ),
  ChatRefusalPart: Type.Object(
    { type: Type.Literal('refusal'), refusal: Type.String() },
    { description: 'A refusal of the model in an earlier turn.' },
  ),
  ChatImagePart: Type.Object(
    {
      type: Type.Literal('image_url'),
      image_url: anyOf(
        [
          Type.Object({
            url: Type.String({
              description: 'A `data:` URL with base64, or an `https` URL of a public host, which the provider fetches.',
            }),
            detail: optional(oneOf('auto', 'low', 'high'), 'How closely the model looks at the image.'),
          }),
          Type.String({ description: 'The URL alone.' }),
        ],
        'The image. Addresses of private networks and other protocols are a 400, unless the operator allows them.',
      ),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'An image. Only for models that support images.' },
  ),
  ChatAudioPart: Type.Object(
    {
      type: Type.Literal('input_audio'),
      input_audio: Type.Object({
        data: Type.String({ description: 'The audio as base64.' }),
        format: optional(Type.String(), 'Such as `wav` or `mp3`.'),
      }),
    },
    { description: 'Audio. It reaches providers that speak Chat Completions.' },
  ),
  ChatFilePart: Type.Object(
    {
      type: Type.Literal('file'),
      file: Type.Object({
        file_data: Type.String({ description: 'The file as base64 or a `data:` URL. Files by id are a 400.' }),
        filename: optional(Type.String(), 'The name that the model sees.'),
      }),
    },
    {
      description:
        'A file with its content. It reaches providers that speak Chat Completions; every one if the operator set ' +
        '[`content`](native.md#documents-and-images).',
    },
  ),
}

const texts = anyOf(
  [
    Type.String(),
    Type.Array(choice('type', { text: 'ChatTextPart', refusal: 'ChatRefusalPart' }, 'A part of the text.')),
  ],
  'Text, or parts of it.',
)

const messages: Components = {
  ChatSystemMessage: Type.Object(
    { role: oneOf('system', 'developer'), content: optional(texts), cache_control: MARK_OR_DROPPED },
    { description: 'An instruction. `developer` is the same as `system`.' },
  ),
  ChatUserMessage: Type.Object(
    {
      role: Type.Literal('user'),
      content: optional(
        anyOf([
          Type.String(),
          Type.Array(
            choice(
              'type',
              { text: 'ChatTextPart', image_url: 'ChatImagePart', input_audio: 'ChatAudioPart', file: 'ChatFilePart' },
              'A part of the message.',
            ),
          ),
        ]),
        'Text, or parts.',
      ),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'A message of the user.' },
  ),
  ChatAssistantMessage: Type.Object(
    {
      role: Type.Literal('assistant'),
      content: optional(texts, 'Text, or parts of it. May be null or absent, for example with tool calls.'),
      refusal: optional(Type.String(), 'The refusal, if the model refused.'),
      reasoning_content: Type.Optional(
        Type.Unknown({
          description:
            'What the model thought, for servers that want it back. Without effect unless the operator set ' +
            '[`reasoning`](native.md#thoughts).',
        }),
      ),
      tool_calls: optional(Type.Array(ref('ChatToolCall')), 'The calls that the model asked for.'),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'An earlier answer of the model.' },
  ),
  ChatToolMessage: Type.Object(
    {
      role: Type.Literal('tool'),
      tool_call_id: Type.String({ description: 'The `id` of the call that this is the result of.' }),
      content: optional(texts, 'The result as text.'),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'The result of a tool call.' },
  ),
  ChatMessage: choice(
    'role',
    {
      system: 'ChatSystemMessage',
      developer: 'ChatSystemMessage',
      user: 'ChatUserMessage',
      assistant: 'ChatAssistantMessage',
      tool: 'ChatToolMessage',
    },
    'A message of the conversation, by its role.',
  ),
  ChatToolCall: Type.Object(
    {
      id: Type.String({ description: 'The id, which the result names.' }),
      type: optional(Type.Literal('function')),
      function: Type.Object({
        name: Type.String(),
        arguments: optional(Type.String(), 'The arguments as JSON text. A call without arguments has `{}`.'),
      }),
    },
    {
      description:
        'A call of a function. If the operator set [`tools`](native.md), also one of a tool that takes a text: ' +
        '`type: custom` with `custom: {name, input}`.',
    },
  ),
}

const tools: Components = {
  ChatFunctionTool: Type.Object(
    { type: Type.Literal('function'), function: Type.Object(FUNCTION_FIELDS), cache_control: MARK_OR_DROPPED },
    { description: 'A function that the caller runs when the model asks for it.' },
  ),
  ChatOtherTool: {
    ...Type.Object({
      type: Type.Unsafe({ type: 'string', not: { const: 'function' } }),
      function: optional(Type.Object(FUNCTION_FIELDS)),
    }),
    description:
      'Accepted without effect: a tool of any other type is dropped, because most providers have no counterpart. If ' +
      'the operator set [`tools`](native.md), `type: custom` with `custom: {name, description, format}` is a tool ' +
      'whose calls have a text instead of arguments.',
    'x-weir-ignored': true,
  },
  ChatTool: anyOf([ref('ChatFunctionTool'), ref('ChatOtherTool')], 'A tool.'),
  ChatToolChoice: anyOf(
    [
      oneOf('none', 'auto', 'required'),
      Type.Object(
        { type: Type.Literal('function'), function: Type.Object({ name: Type.String() }) },
        { description: 'The model must call this function.' },
      ),
      Type.Object(
        {
          type: Type.Literal('allowed_tools'),
          allowed_tools: Type.Object({
            mode: optional(oneOf('auto', 'required')),
            tools: Type.Array(
              Type.Object({
                type: optional(Type.Literal('function')),
                function: Type.Object({ name: Type.String() }),
              }),
            ),
          }),
        },
        { description: 'The model may call these functions only.' },
      ),
    ],
    'Whether and what the model calls. Dropped if the request has no tools.',
  ),
  ChatResponseFormat: Type.Object(
    {
      type: Type.String({ description: '`text`, `json_object` or `json_schema`.' }),
      json_schema: Type.Optional(
        Type.Unsafe({
          type: 'object',
          description: 'With `json_schema`: the schema of the answer.',
          properties: {
            name: { type: 'string' },
            description: { type: 'string' },
            schema: { $ref: '#/components/schemas/JsonSchema' },
            strict: { type: ['boolean', 'null'] },
          },
        }),
      ),
    },
    { description: 'The form of the answer, as far as the provider supports it.' },
  ),
}

const body = requestBody(
  ChatBody,
  {
    ...COMMON_FIELDS,
    messages: Type.Array(ref('ChatMessage'), { minItems: 1, description: 'The conversation, oldest message first.' }),
    max_tokens: "The most output tokens. Above the model's own limit it is lowered to that.",
    max_completion_tokens: 'The same under its newer name; wins over `max_tokens`.',
    stop: 'Texts at which the output stops. All are passed on; providers limit their number.',
    tools: optional(Type.Array(ref('ChatTool')), 'At most 2,048 tools.'),
    tool_choice: optional(ref('ChatToolChoice'), 'Whether and what the model calls.'),
    parallel_tool_calls: 'False: at most one call in an answer. Dropped if the request has no tools.',
    stream_options: optional(
      Type.Object({
        include_usage: optional(Type.Boolean(), 'True: the last chunk before `[DONE]` has the usage.'),
        include_obfuscation: ignored("weir's own events have no padding. True asks OpenAI to pad its events to weir."),
      }),
      'Options of a stream.',
    ),
    frequency_penalty: 'Lowers the probability of tokens by how often they occurred.',
    presence_penalty: 'Lowers the probability of tokens that occurred at all.',
    seed: 'Asks for repeatable output, if the provider supports it.',
    reasoning_effort:
      "How much the model reasons, in the provider's own words: `low`, `medium`, `high`, …. In [native " +
      'mode](native.md#how-much-a-model-thinks) it holds for every provider.',
    verbosity: "How long answers are, in the provider's own words: `low`, `medium`, `high`.",
    logit_bias: 'Token ids, and what is added to their logits.',
    logprobs: 'True: the answer has the log probabilities of its tokens, if the provider has them.',
    top_logprobs: 'How many alternatives each token has in `logprobs`.',
    response_format: optional(ref('ChatResponseFormat'), 'The form of the answer, as far as the provider supports it.'),
    user: 'An id of your end user, passed on.',
    safety_identifier: "An id of your end user for the provider's abuse detection, passed on.",
    prompt_cache_options: optional(
      anyObject('The options as the provider defines them.'),
      "Passed on if the model's `prompt_cache` allows it.",
    ),
  },
  {
    n: 'Every answer has one choice.',
    store: 'weir stores no answers.',
    modalities: 'Answers are text.',
    audio: 'Answers are text.',
    prediction: 'Predicted output is not passed on.',
    web_search_options: "Providers' own tools are not passed on.",
    moderation: 'The provider decides about moderation.',
    functions: 'Use `tools`.',
    function_call: 'Use `tool_choice`.',
  },
  { description: 'A request of Chat Completions.', not: { $ref: '#/components/schemas/ForbiddenFields' } },
)

export const chatRequestComponents: Components = { ...parts, ...messages, ...tools, ChatRequest: body }
