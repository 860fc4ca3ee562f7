/** The schemas of a Messages request: content blocks, messages, tools, and the body. */

import { Type } from '@sinclair/typebox'
import { MessagesBody } from '../../../src/dialects/messages/schema.ts'
import {
  anyOf,
  COMMON_FIELDS,
  type Components,
  choice,
  IGNORED,
  ignored,
  MARK_OR_DROPPED,
  nativeOnly,
  oneOf,
  optional,
  ref,
  requestBody,
} from '../schema-parts.ts'

const blocks: Components = {
  TextBlock: Type.Object(
    { type: Type.Literal('text'), text: Type.String(), cache_control: MARK_OR_DROPPED },
    { description: 'Text.' },
  ),
  ImageBlock: Type.Object(
    {
      type: Type.Literal('image'),
      source: Type.Object(
        {
          type: Type.Literal('base64'),
          media_type: Type.String({ pattern: '^image/[\\w.+-]+$', description: 'Such as `image/png`.' }),
          data: Type.String({ minLength: 1, description: 'The image as base64.' }),
        },
        {
          description:
            'The image itself. A file id is a 400 `Unsupported Anthropic content block`, and so is a URL unless the ' +
            'operator set [`content`](native.md#documents-and-images).',
        },
      ),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'An image. Only for models that support images.' },
  ),
  ToolUseBlock: Type.Object(
    {
      type: Type.Literal('tool_use'),
      id: Type.String({ minLength: 1, description: 'The id, which the result names.' }),
      name: Type.String({ minLength: 1 }),
      input: optional(Type.Unsafe({ type: 'object', additionalProperties: true }), 'The arguments.'),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'A call that the model asked for in an earlier turn.' },
  ),
  ToolResultBlock: Type.Object(
    {
      type: Type.Literal('tool_result'),
      tool_use_id: Type.String({ minLength: 1, description: 'The `id` of the call that this is the result of.' }),
      content: optional(
        anyOf([
          Type.String(),
          Type.Array(choice('type', { text: 'TextBlock', image: 'ImageBlock' }, 'A block of the result.')),
        ]),
        'Text, or blocks. Images are a 400, unless the operator set `compatibility.tool_result_images: pass` or ' +
          '[`content`](native.md#documents-and-images), which takes documents, too.',
      ),
      is_error: Type.Optional(Type.Unknown({ description: 'True: the call failed.' })),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'The result of a call.' },
  ),
}

const thoughts: Components = {
  ThinkingBlock: Type.Object(
    {
      type: Type.Literal('thinking'),
      thinking: Type.String(),
      signature: Type.Optional(Type.Unknown({ description: 'As the answer had it. Any other is left out.' })),
    },
    {
      description:
        'A thought of an earlier answer, unchanged: its issuer gets it back. A 400 `Unsupported Anthropic content ' +
        'block` unless the operator set [`reasoning`](native.md#thoughts).',
    },
  ),
  RedactedThinkingBlock: Type.Object(
    { type: Type.Literal('redacted_thinking'), data: Type.String() },
    { description: 'The same for a thought whose words the provider does not show.' },
  ),
  Thinking: Type.Object(
    {
      type: oneOf('enabled', 'adaptive', 'disabled'),
      budget_tokens: optional(Type.Integer({ minimum: 1024 }), 'With `enabled`: the most tokens to think.'),
      display: optional(oneOf('summarized', 'omitted'), '`omitted`: thoughts come without their words.'),
    },
    { description: 'Whether the model thinks, and how many tokens.' },
  ),
  MessagesOutputConfig: Type.Object(
    {
      effort: optional(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'), 'How much the model thinks.'),
      format: optional(
        Type.Object({ type: Type.Literal('json_schema'), schema: ref('JsonSchema') }),
        'The schema of the answer, if the operator set `structured_output`.',
      ),
    },
    { description: 'Settings of the answer.' },
  ),
}

const messages: Components = {
  AssistantMessage: Type.Object(
    {
      role: Type.Literal('assistant'),
      content: anyOf([
        Type.String(),
        Type.Array(
          choice(
            'type',
            {
              text: 'TextBlock',
              tool_use: 'ToolUseBlock',
              thinking: 'ThinkingBlock',
              redacted_thinking: 'RedactedThinkingBlock',
            },
            'A block of the answer.',
          ),
        ),
      ]),
    },
    { description: 'An earlier answer of the model.' },
  ),
  UserMessage: Type.Object(
    {
      role: Type.Unsafe({
        type: 'string',
        not: { const: 'assistant' },
        description: 'Every role other than `assistant` is the user.',
      }),
      content: anyOf([
        Type.String(),
        Type.Array(
          choice(
            'type',
            { text: 'TextBlock', image: 'ImageBlock', tool_result: 'ToolResultBlock' },
            'A block. Blocks of any other type are a 400 `Unsupported Anthropic content block`; so is `document`, ' +
              'unless the operator set [`content`](native.md#documents-and-images).',
          ),
        ),
      ]),
    },
    { description: 'A message of the user, with the results of calls.' },
  ),
  InputMessage: anyOf([ref('UserMessage'), ref('AssistantMessage')], 'A message of the conversation.'),
}

const tools: Components = {
  CustomTool: Type.Object(
    {
      type: optional(Type.Literal('custom')),
      name: Type.String({ minLength: 1, description: 'The name that the model calls.' }),
      description: optional(Type.String(), 'What the tool does, for the model.'),
      input_schema: optional(ref('JsonSchema'), 'The schema of the input. Without it, an object without properties.'),
      strict: Type.Optional(Type.Unknown({ description: 'True: the provider must follow the schema exactly.' })),
      cache_control: MARK_OR_DROPPED,
    },
    { description: 'A tool that the caller runs when the model asks for it.' },
  ),
  ServerTool: {
    ...Type.Object({ type: Type.Unsafe({ not: { enum: ['custom', null] } }) }),
    description:
      'Accepted without effect: tools that Anthropic itself runs, such as `web_search_20250305`, are dropped.',
    [IGNORED]: true,
  },
  MessagesTool: anyOf([ref('CustomTool'), ref('ServerTool')], 'A tool.'),
  MessagesToolChoice: anyOf(
    [
      Type.Object({
        type: oneOf('auto', 'any', 'none'),
        disable_parallel_tool_use: Type.Optional(Type.Unknown({ description: 'True: at most one call in an answer.' })),
      }),
      Type.Object({
        type: Type.Literal('tool'),
        name: Type.String({ minLength: 1, description: 'The tool that the model must call.' }),
        disable_parallel_tool_use: Type.Optional(Type.Unknown({ description: 'True: at most one call in an answer.' })),
      }),
    ],
    '`auto`: the model decides. `any`: it must call a tool. `tool`: it must call this one. `none`: it must not. ' +
      'Dropped if the request has no tools.',
  ),
}

const body = requestBody(
  MessagesBody,
  {
    ...COMMON_FIELDS,
    messages: Type.Array(ref('InputMessage'), { minItems: 1, description: 'The conversation, oldest message first.' }),
    system: optional(
      anyOf([Type.String(), Type.Array(ref('TextBlock'))]),
      'Instructions. They become the first system message.',
    ),
    max_tokens:
      "The most output tokens; 0 counts as 1. Without it, the model's `default_output_tokens` applies, which is " +
      "4,096 unless the operator set another one. Above the model's own limit it is lowered to that.",
    stop_sequences: 'Texts at which the output stops. All are passed on; providers limit their number.',
    tools: optional(Type.Array(ref('MessagesTool')), 'At most 2,048 tools.'),
    tool_choice: optional(ref('MessagesToolChoice'), 'Whether and what the model calls.'),
    cache_control: MARK_OR_DROPPED,
    thread: ignored(
      'weir stores no conversations. `{"type": "continue"}` is a 404 `thread_not_found`, whereupon SDKs send the ' +
        'whole history.',
    ),
  },
  {
    top_k: 'It is not passed on.',
    thinking: nativeOnly(
      'Unless the operator set [`reasoning`](native.md#how-much-a-model-thinks): then every provider gets it, and ' +
        'a wrong value is a 400.',
      ref('Thinking'),
    ),
    metadata: 'It is not passed on.',
    output_config: nativeOnly(
      'Unless the operator set [native mode](native.md): then `effort` and `format` hold for every provider.',
      ref('MessagesOutputConfig'),
    ),
    output_format: 'It is not passed on.',
    context_management: 'It is not passed on.',
    container: "Providers' own tools are not passed on.",
    mcp_servers: "Providers' own tools are not passed on.",
    speed: 'It is not passed on.',
    inference_geo: 'It is not passed on.',
  },
  { description: 'A request of Messages.', not: { $ref: '#/components/schemas/ForbiddenMessagesFields' } },
)

export const messagesRequestComponents: Components = {
  ...blocks,
  ...thoughts,
  ...messages,
  ...tools,
  MessagesRequest: body,
}
