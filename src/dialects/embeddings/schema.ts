/** The schema of the embeddings endpoint: the fields that decide the price. The provider checks all others. */

import { Type } from '@sinclair/typebox'
import { compile } from '../body-schema.ts'

const token = Type.Integer({ minimum: 0 })

export const EmbeddingsBody = Type.Object({
  model: Type.String({ minLength: 1 }),
  input: Type.Union([
    Type.String(),
    Type.Array(Type.String(), { minItems: 1 }),
    Type.Array(token, { minItems: 1 }),
    Type.Array(Type.Array(token, { minItems: 1 }), { minItems: 1 }),
  ]),
})

/** The typed body. Throws `CallerError` with the path of the invalid field. */
export const checkEmbeddingsBody = compile(EmbeddingsBody)
