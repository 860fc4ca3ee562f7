/** The paths of the reference: each operation with its body, its answers, its errors and its examples. */

import { COUNTED_HEADERS, PLAIN_HEADERS, SERVED_HEADERS } from './answer-headers.ts'
import { samplesOf } from './code-samples.ts'
import {
  CONVERSATION,
  type ErrorKind,
  type ErrorTexts,
  EVERYWHERE,
  errorResponses,
  type Family,
  INFERENCE,
  MESSAGES_INFERENCE,
  UNPRICED,
} from './error-responses.ts'
import { PARAMETERS } from './request-headers.ts'
import type { SampleRequest } from './sample-request.ts'

/** What the document takes from other files of the repository. */
export interface Sources {
  readonly errorTexts: ErrorTexts
  /** A whole answer and a stream of each dialect, as the gateway sends them. */
  readonly answers: Readonly<
    Record<'chat' | 'responses' | 'messages', { readonly json: unknown; readonly sse: string }>
  >
}

interface Operation {
  readonly method: 'get' | 'post'
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  readonly family: Family
  readonly errors: readonly ErrorKind[]
  /** The names of the schemas of the body, by content type. */
  readonly body?: Readonly<Record<string, string>>
  readonly bodyExample?: unknown
  readonly answer: string
  readonly answerDescription: string
  readonly answerExample?: unknown
  /** The name of the schema of one event. */
  readonly event?: string
  readonly streamExample?: string
  readonly headers: object
  readonly samples: SampleRequest
  /** Those of the query; without them a query string is ignored. */
  readonly query?: readonly object[]
}

const JSON_BODY = 'application/json'

function schema(name: string): object {
  return { $ref: `#/components/schemas/${name}` }
}

function example(value: unknown): object {
  return value === undefined ? {} : { example: value }
}

function answerContent(operation: Operation): object {
  const { answer, answerExample, event, streamExample } = operation
  const json = { [JSON_BODY]: { schema: schema(answer), ...example(answerExample) } }
  if (event === undefined) return json
  const stream = { schema: streamSchema(event), ...example(streamExample) }
  return { ...json, 'text/event-stream': stream }
}

/** The body of a stream is text. With the schema of an event's data, tools found every stream invalid. */
function streamSchema(event: string): object {
  const description =
    `Server-sent events. The \`data\` of each event is JSON of the schema \`${event}\`; comments, ` +
    '`ping` events and the final `[DONE]` have none.'
  return { type: 'string', contentMediaType: 'text/event-stream', description, 'x-weir-event-data': schema(event) }
}

function operationObject(operation: Operation, texts: ErrorTexts): object {
  const { operationId, tag, summary, description, body, bodyExample, answerDescription, headers } = operation
  const requestBody = body && {
    required: true,
    content: Object.fromEntries(
      Object.entries(body).map(([type, name]) => [
        type,
        { schema: schema(name), ...(type === JSON_BODY ? example(bodyExample) : {}) },
      ]),
    ),
  }
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    parameters: [...PARAMETERS, ...(operation.query ?? [])],
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: {
      200: { description: answerDescription, headers, content: answerContent(operation) },
      ...errorResponses(operation.errors, operation.family, texts),
    },
    'x-codeSamples': samplesOf(operation.samples),
  }
}

const STREAM = 'With `stream: true` the answer is a stream of server-sent events, each of the schema shown.'

/** The operations by path. `operationId` of the second Messages prefix has a suffix, because ids are unique. */
function operations({ answers }: Sources): Readonly<Record<string, Operation>> {
  return {
    '/v1/models': models,
    '/anthropic/v1/models': anthropicModels,
    '/v1/chat/completions': chatCompletions(answers.chat),
    '/v1/responses': responses(answers.responses),
    '/v1/responses/compact': compact,
    '/v1/messages': messages(answers.messages, ''),
    '/anthropic/v1/messages': messages(answers.messages, 'UnderAnthropic'),
    '/v1/messages/count_tokens': countTokens(''),
    '/anthropic/v1/messages/count_tokens': countTokens('UnderAnthropic'),
    '/v1/images/generations': generations,
    '/v1/images/edits': edits,
    '/v1/embeddings': embeddings,
  }
}

const models: Operation = {
  method: 'get',
  operationId: 'listModels',
  tag: 'Models',
  summary: 'List the models',
  description:
    'The models that the key may use. This list decides: do not write names of models into programs. `auto` comes ' +
    'first if it is available to the key, and alone if the key must use it. Aliases are not listed.',
  family: 'chat',
  errors: EVERYWHERE,
  answer: 'ModelList',
  answerDescription: 'The models.',
  answerExample: {
    object: 'list',
    data: ['gpt-5-mini', 'claude-sonnet'].map((id) => ({ id, object: 'model', created: 0, owned_by: 'weir' })),
  },
  headers: PLAIN_HEADERS,
  samples: { kind: 'models' },
}

const pageParameter = (name: string, description: string, schema: object) => ({
  ...{ name, in: 'query', required: false },
  ...{ description, schema },
})

const anthropicModels: Operation = {
  method: 'get',
  operationId: 'listModelsUnderAnthropic',
  tag: 'Models',
  summary: 'List the models, in the form of Anthropic',
  description: 'The same models in the same order as `GET /v1/models`, in the form that SDKs of Anthropic read.',
  family: 'messages',
  errors: [...EVERYWHERE, 'invalid_field'],
  answer: 'AnthropicModelList',
  answerDescription: 'The models, or a page of them.',
  answerExample: {
    data: ['gpt-5-mini', 'claude-sonnet'].map((id) => ({
      ...{ type: 'model', id, display_name: id },
      created_at: '1970-01-01T00:00:00Z',
    })),
    ...{ has_more: false, first_id: 'gpt-5-mini', last_id: 'claude-sonnet' },
  },
  headers: PLAIN_HEADERS,
  samples: { kind: 'anthropic models' },
  query: [
    pageParameter('limit', 'The most models of a page.', { type: 'integer', minimum: 1, maximum: 1000, default: 1000 }),
    pageParameter('after_id', 'The page begins after this model.', { type: 'string' }),
    pageParameter('before_id', 'The page ends before this model.', { type: 'string' }),
  ],
}

const HELLO = [{ role: 'user', content: 'Hello!' }] as const

function chatCompletions(answers: Sources['answers']['chat']): Operation {
  const body = { model: 'gpt-5-mini', messages: HELLO, max_completion_tokens: 200 }
  return {
    method: 'post',
    operationId: 'createChatCompletion',
    tag: 'Chat Completions',
    summary: 'Create a chat completion',
    description: `An answer in the form of Chat Completions. ${STREAM} It ends with \`data: [DONE]\`.`,
    family: 'chat',
    errors: CONVERSATION,
    body: { [JSON_BODY]: 'ChatRequest' },
    bodyExample: body,
    answer: 'ChatAnswer',
    answerDescription: 'The answer, whole or as a stream.',
    answerExample: answers.json,
    event: 'ChatChunk',
    streamExample: answers.sse,
    headers: SERVED_HEADERS,
    samples: { kind: 'chat', path: '/v1/chat/completions', body },
  }
}

function responses(answers: Sources['answers']['responses']): Operation {
  const body = { model: 'gpt-5-mini', instructions: 'Answer in one sentence.', input: 'Hello!' }
  return {
    method: 'post',
    operationId: 'createResponse',
    tag: 'Responses',
    summary: 'Create a response',
    description:
      `An answer to a conversation, in the form of Responses. ${STREAM} It ends with \`response.completed\`. ` +
      'Conversations are not stored: send the whole history. With a `compaction_trigger` item the answer is one ' +
      '`compaction` item.',
    family: 'chat',
    errors: [...CONVERSATION, 'unsupported_cache'],
    body: { [JSON_BODY]: 'ResponsesRequest' },
    bodyExample: body,
    answer: 'Response',
    answerDescription: 'The answer, whole or as a stream.',
    answerExample: answers.json,
    event: 'ResponsesEvent',
    streamExample: answers.sse,
    headers: SERVED_HEADERS,
    samples: { kind: 'responses', path: '/v1/responses', body },
  }
}

const compact: Operation = {
  method: 'post',
  operationId: 'compactResponse',
  tag: 'Responses',
  summary: 'Compact a conversation',
  description:
    'The model summarises the conversation in `input`, and the answer is one `compaction` item. Send it back ' +
    'unchanged in the `input` of a later request: the summary is restored at the start of the conversation, with any ' +
    'model. The same as `POST /v1/responses` with a `compaction_trigger` item, but never streamed.',
  family: 'chat',
  errors: [...CONVERSATION, 'unsupported_cache'],
  body: { [JSON_BODY]: 'ResponsesRequest' },
  bodyExample: { model: 'gpt-5-mini', input: HELLO },
  answer: 'CompactionResponse',
  answerDescription: 'A response with the compaction item.',
  headers: SERVED_HEADERS,
  samples: { kind: 'compact', path: '/v1/responses/compact', body: { model: 'gpt-5-mini', input: HELLO } },
}

function messages(answers: Sources['answers']['messages'], suffix: string): Operation {
  const body = { model: 'claude-sonnet', max_tokens: 200, messages: HELLO }
  const path = suffix === '' ? '/v1/messages' : '/anthropic/v1/messages'
  const other = suffix === '' ? '/anthropic/v1/messages' : '/v1/messages'
  return {
    method: 'post',
    operationId: `createMessage${suffix}`,
    tag: 'Messages',
    summary: 'Create a message',
    description:
      `An answer to a conversation, in the form of Messages. The same as \`POST ${other}\`. ${STREAM} It ends with ` +
      '`message_stop`.',
    family: 'messages',
    errors: [...MESSAGES_INFERENCE, ...UNPRICED, 'unsupported_schema', 'unsupported_documents'],
    body: { [JSON_BODY]: 'MessagesRequest' },
    bodyExample: body,
    answer: 'Message',
    answerDescription: 'The answer, whole or as a stream.',
    answerExample: answers.json,
    event: 'MessagesEvent',
    streamExample: answers.sse,
    headers: SERVED_HEADERS,
    samples: { kind: 'messages', path, body },
  }
}

function countTokens(suffix: string): Operation {
  const body = { model: 'claude-sonnet', messages: HELLO }
  const path = suffix === '' ? '/v1/messages/count_tokens' : '/anthropic/v1/messages/count_tokens'
  return {
    method: 'post',
    operationId: `countMessageTokens${suffix}`,
    tag: 'Messages',
    summary: 'Count the tokens of a message',
    description:
      'The input tokens of a Messages request. It counts against limits of requests, and costs nothing. Fields for ' +
      'the output have no effect.',
    family: 'messages',
    errors: MESSAGES_INFERENCE,
    body: { [JSON_BODY]: 'MessagesRequest' },
    bodyExample: body,
    answer: 'TokenCount',
    answerDescription: 'The count.',
    answerExample: { input_tokens: 14 },
    headers: COUNTED_HEADERS,
    samples: { kind: 'count', path, body },
  }
}

const ofImages = {
  method: 'post',
  tag: 'Images',
  family: 'chat',
  errors: [...INFERENCE, 'unpriced_image'],
  answer: 'Images',
  answerDescription: 'The images, in the format of the provider.',
  answerExample: { created: 1763650000, data: [{ b64_json: 'iVBORw0KGgo=' }] },
  event: 'ImageEvent',
  headers: SERVED_HEADERS,
} as const

const generations: Operation = {
  ...ofImages,
  operationId: 'createImage',
  summary: 'Create images',
  description:
    'Images from a prompt. With `stream: true` the answer is one `image_generation.completed` event for each image, ' +
    'sent when all images are made. The provider checks the fields that do not decide the price.',
  body: { [JSON_BODY]: 'ImageGenerationRequest' },
  bodyExample: { model: 'gpt-image', prompt: 'A lighthouse in fog', size: '1024x1024' },
  samples: {
    kind: 'generations',
    path: '/v1/images/generations',
    body: { model: 'gpt-image', prompt: 'A lighthouse in fog', size: '1024x1024' },
  },
}

const edits: Operation = {
  ...ofImages,
  operationId: 'editImage',
  summary: 'Edit images',
  description:
    'Images from a prompt and other images. SDKs send a form. With `stream: true` the answer is one ' +
    '`image_edit.completed` event for each image, sent when all images are made.',
  body: { 'multipart/form-data': 'ImageEditForm', [JSON_BODY]: 'ImageEditRequest' },
  samples: { kind: 'edits' },
}

const EMBEDDED = { model: 'embed-small', input: ['A lighthouse in fog', 'A sailing boat'] }

const embeddings: Operation = {
  method: 'post',
  operationId: 'createEmbedding',
  tag: 'Embeddings',
  summary: 'Create embeddings',
  description:
    'Embeddings of texts. This path is an extension: it exists only if the gateway offers a model that makes ' +
    'embeddings, and is a 404 otherwise.',
  family: 'chat',
  errors: [...INFERENCE, 'unknown_path'],
  body: { [JSON_BODY]: 'EmbeddingsRequest' },
  bodyExample: EMBEDDED,
  answer: 'Embeddings',
  answerDescription: 'The embeddings, in the format of the provider.',
  answerExample: {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [0.0123, -0.0456] }],
    model: 'embed-small',
    usage: { prompt_tokens: 8, total_tokens: 8 },
  },
  headers: SERVED_HEADERS,
  samples: { kind: 'embeddings', path: '/v1/embeddings', body: EMBEDDED },
}

/** The paths of the document. */
export function paths(sources: Sources): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.entries(operations(sources)).map(([path, operation]) => [
      path,
      { [operation.method]: operationObject(operation, sources.errorTexts) },
    ]),
  )
}
