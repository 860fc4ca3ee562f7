/** The schema of a request for embeddings. */

import { Type } from '@sinclair/typebox'
import { EmbeddingsBody } from '../../../src/dialects/embeddings/schema.ts'
import type { Components } from '../schema-parts.ts'

const checked = EmbeddingsBody.properties

export const embeddingsRequestComponents: Components = {
  EmbeddingsRequest: Type.Object(
    {
      model: {
        ...checked.model,
        description: 'A name from `GET /v1/models` of a model that makes embeddings, or an alias.',
      },
      input: {
        ...checked.input,
        description: 'A text, a list of at most 2,048 texts, a list of tokens, or a list of such lists.',
      },
      encoding_format: Type.Optional(Type.Unknown({ description: '`float` or `base64`.' })),
      dimensions: Type.Optional(
        Type.Unknown({ description: 'The length of each embedding, for models that have the choice.' }),
      ),
      user: Type.Optional(Type.Unknown({ description: 'An id of your end user, passed on.' })),
    },
    {
      not: { $ref: '#/components/schemas/ForbiddenFields' },
      additionalProperties: true,
      description:
        'A request for embeddings. Fields that are not listed are passed on if their value is a word, a number or a ' +
        'switch.',
    },
  ),
}
