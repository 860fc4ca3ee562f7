/** The schemas of embeddings. They have the provider's format, with the public name of the model. */

import { Type } from '@sinclair/typebox'
import { anyOf, type Components, ref } from '../schema-parts.ts'

const open = { additionalProperties: true }

export const embeddingsAnswerComponents: Components = {
  Embedding: Type.Object(
    {
      object: Type.Optional(Type.Literal('embedding')),
      index: Type.Optional(Type.Integer({ description: 'Of the input that it belongs to.' })),
      embedding: anyOf(
        [Type.Array(Type.Number()), Type.String()],
        'Numbers; with `encoding_format: base64` their bytes as 32-bit floats, in base64.',
      ),
    },
    { ...open, description: 'The embedding of one input.' },
  ),
  Embeddings: Type.Object(
    {
      object: Type.Optional(Type.Literal('list')),
      data: Type.Array(ref('Embedding')),
      model: Type.Optional(Type.String({ description: 'The public name of the model, if the provider names one.' })),
      usage: Type.Optional(
        Type.Object(
          { prompt_tokens: Type.Optional(Type.Integer()), total_tokens: Type.Optional(Type.Integer()) },
          { ...open, description: 'The tokens, from providers that report them.' },
        ),
      ),
    },
    { ...open, description: "The provider's answer, unchanged but for the name of the model." },
  ),
}
