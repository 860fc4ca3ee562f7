/** The OpenAPI document of the inference API. It is made when the repository changes, not while weir runs. */

import { Type } from '@sinclair/typebox'
import { headerComponents } from './answer-headers.ts'
import { chatAnswerComponents } from './chat/answer.ts'
import { chatRequestComponents } from './chat/request.ts'
import { chatStreamComponents } from './chat/stream.ts'
import { embeddingsAnswerComponents } from './embeddings/answer.ts'
import { embeddingsRequestComponents } from './embeddings/request.ts'
import { allErrors, errorComponents, sharedResponses } from './error-responses.ts'
import { imagesAnswerComponents } from './images/answer.ts'
import { imagesRequestComponents } from './images/request.ts'
import { messagesAnswerComponents } from './messages/answer.ts'
import { messagesStreamComponents } from './messages/events.ts'
import { messagesRequestComponents } from './messages/request.ts'
import { paths, type Sources } from './operations.ts'
import { parameterComponents } from './request-headers.ts'
import { responsesAnswerComponents } from './responses/answer.ts'
import { responsesStreamComponents } from './responses/events.ts'
import { responsesRequestComponents } from './responses/request.ts'
import type { Components } from './schema-parts.ts'
import { sharedComponents } from './shared-schemas.ts'
import { simplified } from './simplified-schema.ts'

const DESCRIPTION = `weir answers Chat Completions, Responses and Messages with the same API key and the same models.

**Base addresses of SDKs.** \`{base_url}/v1\` for SDKs of OpenAI, \`{base_url}/anthropic\` or \`{base_url}\` for
those of Anthropic.

**Bodies** are JSON objects of at most 10 MiB, 128 levels and 250,000 values, in UTF-8 without \`Content-Encoding\`.
\`Content-Type\` does not matter, except that forms are for \`/v1/images/edits\` alone. Fields that are not listed are
skipped. \`null\` means absent. Fields marked as ignored are accepted without effect. Routing and credentials are the
operator's: \`api_key\`, \`timeout\` and the other [forbidden fields](#ForbiddenFields) are a 400 \`forbidden_field\`.

**Streams** are server-sent events. weir holds the headers back until the provider sends content, for at most 5 s after
its first valid event, so that an earlier failure has a status of its own. While the provider is silent, a comment goes
out every 15 s (on Messages a \`ping\` event after \`message_start\`). weir never sends an error event: if a stream
fails, the connection ends without the last event, which SDKs report as an error.

**Paths** are exact, and a query string is ignored. \`HEAD\` on any path is 200 without authentication.

**WebSockets.** One can be opened at \`/v1/responses\`, with the key in a header, unless the operator has switched
that off (426). The caller sends frames of JSON: the body of the \`POST\` and \`"type": "response.create"\`, with
\`previous_response_id\` to continue a response of this connection, \`stream_id\` to name a lane, and
\`"generate": false\` to warm up. weir answers with the events of the stream, one in each frame, the first and the last
with a member \`gateway\` for what the \`POST\` has in headers. A turn that fails before its content is a frame of type
\`error\` with \`status\`, \`error\` and \`headers\`; one that fails later ends with \`response.failed\`.

**Versions.** New fields in answers and new values of enumerations may appear at any time; clients must accept them.`

const models: Components = {
  Model: Type.Object(
    {
      id: Type.String({ minLength: 1, description: 'The public name, for `model` in requests.' }),
      object: Type.Literal('model'),
      created: Type.Literal(0, { description: 'Always 0. It is no date.' }),
      owned_by: Type.String({ description: 'The same for all models. It is not the provider.' }),
      display_name: Type.Optional(Type.String()),
      context_window: Type.Optional(Type.Integer({ description: 'Tokens of input and output together.' })),
      max_output_tokens: Type.Optional(Type.Integer()),
      supports: Type.Optional(Type.Array(Type.String(), { description: 'What the model can do.' })),
    },
    { description: 'A model that the key may use.' },
  ),
  AnthropicModel: Type.Object(
    {
      type: Type.Literal('model'),
      id: Type.String({ minLength: 1, description: 'The public name, for `model` in requests.' }),
      display_name: Type.String(),
      created_at: Type.Literal('1970-01-01T00:00:00Z', { description: 'Always the same. It is no date.' }),
    },
    { description: 'A model that the key may use, in the form of Anthropic.' },
  ),
  AnthropicModelList: Type.Object(
    {
      data: Type.Array(Type.Unsafe({ $ref: '#/components/schemas/AnthropicModel' })),
      has_more: Type.Boolean({ description: 'Whether models follow this page, or precede it if it has `before_id`.' }),
      first_id: Type.Union([Type.String(), Type.Null()]),
      last_id: Type.Union([Type.String(), Type.Null()]),
    },
    { description: 'The models that the key may use, in the form of Anthropic.' },
  ),
  ModelList: Type.Object(
    { object: Type.Literal('list'), data: Type.Array(Type.Unsafe({ $ref: '#/components/schemas/Model' })) },
    { description: 'The models that the key may use.' },
  ),
}

/** All schemas by name: requests, answers and events of each dialect, then what they share. */
const schemas: Components = {
  ...models,
  ...chatRequestComponents,
  ...chatAnswerComponents,
  ...chatStreamComponents,
  ...responsesRequestComponents,
  ...responsesAnswerComponents,
  ...responsesStreamComponents,
  ...messagesRequestComponents,
  ...messagesAnswerComponents,
  ...messagesStreamComponents,
  ...imagesRequestComponents,
  ...imagesAnswerComponents,
  ...embeddingsRequestComponents,
  ...embeddingsAnswerComponents,
  ...sharedComponents,
  ...errorComponents,
}

const securitySchemes = {
  bearer: { type: 'http', scheme: 'bearer', description: '`Authorization: Bearer KEY`, on every path.' },
  apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: '`x-api-key: KEY`, on every path.' },
}

const tags = [
  { name: 'Chat Completions', description: "Conversations in the form of OpenAI's Chat Completions." },
  { name: 'Responses', description: "Conversations in the form of OpenAI's Responses, with compaction." },
  { name: 'Messages', description: "Conversations in the form of Anthropic's Messages, on two prefixes." },
  { name: 'Images', description: 'Images, in the format of the provider.' },
  { name: 'Embeddings', description: 'Embeddings, in the format of the provider.' },
  { name: 'Models', description: 'The models that a key may use.' },
]

/** The document, ready for `JSON.stringify`. */
export function openApiDocument(sources: Sources): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'weir',
      version: 'v1',
      summary: 'A hosted-inference gateway: three dialects, any provider.',
      description: DESCRIPTION,
    },
    servers: [
      {
        url: '{base_url}',
        description: 'The address of the gateway.',
        variables: { base_url: { default: 'http://127.0.0.1:8080', description: 'As the operator names it.' } },
      },
    ],
    security: [{ bearer: [] }, { apiKey: [] }],
    tags,
    paths: paths(sources),
    components: {
      securitySchemes,
      schemas: simplified(schemas),
      parameters: parameterComponents,
      headers: headerComponents,
      responses: sharedResponses(sources.errorTexts),
    },
    'x-weir-errors': allErrors(sources.errorTexts),
  }
}
