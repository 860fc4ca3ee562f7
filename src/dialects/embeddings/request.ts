/** The body of the embeddings endpoint → a request for embeddings. Only the model is replaced. */

import { BytePieces } from '../../core/byte-pieces.ts'
import type { EmbeddingRequest } from '../../core/embedding-request.ts'
import { isArray, isObject, type JsonValue } from '../../core/json.ts'
import { parseBody } from '../../wire/body.ts'
import { type JsonMember, membersOf, writeMembers } from '../../wire/members.ts'
import { endUserOf } from '../end-user.ts'
import { type MetadataRule, refuseForbidden } from '../forbidden-fields.ts'
import { invalid } from '../invalid-field.ts'
import { checkEmbeddingsBody } from './schema.ts'

/** As many as OpenAI takes. */
const INPUTS_MAX = 2048

/** Throws `CallerError` with the path of the invalid field. */
export function acceptEmbeddings(bytes: Uint8Array, metadata: MetadataRule): EmbeddingRequest {
  const body = parseBody(bytes)
  refuseForbidden(body, metadata)
  const { model, input } = checkEmbeddingsBody(body)
  const inputs = inputsOf(input)
  if (inputs.length > INPUTS_MAX) throw invalid('input', `at most ${INPUTS_MAX} inputs a request, not ${inputs.length}`)
  const sent = membersOf(bytes).filter(({ name }) => isSent(name, body[name]))
  return { model, user: endUserOf(body), inputs, body: writer(sent) }
}

/**
 * Compatible servers have many fields of their own, all of them words, numbers and switches. Objects and lists are left
 * out: a server might fetch an address in them.
 */
function isSent(name: string, value: JsonValue | undefined): boolean {
  if (name === 'input') return true
  return name !== 'model' && name !== 'metadata' && value !== null && !isObject(value) && !isArray(value)
}

type Input = ReturnType<typeof checkEmbeddingsBody>['input']

function inputsOf(input: Input): EmbeddingRequest['inputs'] {
  if (typeof input === 'string') return [input]
  return isTokens(input) ? [input] : input
}

function isTokens(input: Exclude<Input, string>): input is number[] {
  return typeof input[0] === 'number'
}

/** Not a closure within `acceptEmbeddings`, because that would keep the parsed body in memory too. */
function writer(sent: readonly JsonMember[]): EmbeddingRequest['body'] {
  return (model) => BytePieces.of(writeMembers(['model', model], sent))
}
