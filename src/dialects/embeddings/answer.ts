/** A provider's answer with embeddings → the caller's body. */

import type { MadeEmbeddings } from '../../core/embedding-request.ts'
import { membersOf } from '../../wire/members.ts'

/**
 * The provider's body with the public name of the model, and with our own count if the provider has none, which is what
 * is charged. Everything else keeps its bytes: numbers that were parsed and written again may lose digits.
 */
export function embeddingsBody({ text, body, model, countedTokens }: MadeEmbeddings): string {
  if (body['model'] === undefined && countedTokens === undefined) return text
  const members = membersOf(Buffer.from(text)).flatMap(({ name, bytes }) => {
    if (name === 'model') return [`"model":${JSON.stringify(model)}`]
    return name === 'usage' && countedTokens !== undefined ? [] : [Buffer.from(bytes).toString()]
  })
  if (countedTokens !== undefined)
    members.push(`"usage":{"prompt_tokens":${countedTokens},"total_tokens":${countedTokens}}`)
  return `{${members.join(',')}}`
}
