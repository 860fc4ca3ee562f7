/** A provider's answer with embeddings → the caller's body. */

import type { MadeEmbeddings } from '../../core/embedding-request.ts'
import { membersOf } from '../../wire/members.ts'

/**
 * The provider's body with the public name of the model. Everything else keeps its bytes: numbers that were parsed and
 * written again may lose digits.
 */
export function embeddingsBody({ text, body, model }: MadeEmbeddings): string {
  if (body['model'] === undefined) return text
  const members = membersOf(Buffer.from(text)).map(({ name, bytes }) =>
    name === 'model' ? `"model":${JSON.stringify(model)}` : Buffer.from(bytes).toString(),
  )
  return `{${members.join(',')}}`
}
