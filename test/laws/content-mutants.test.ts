/**
 * Bodies with documents and images, mutated: each is read, or is a 400; what was read is written to every provider as
 * JSON, or cannot be taken by that API.
 */

import { expect } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { isArray, isObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { objectOf } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { property, type Random } from '../support/random.ts'
import { bodyOf, OF_PARTS, PARTS, PDF, PROVIDERS, read, URL, WHOLE } from './content-bodies.ts'

/** A value in place of another, anywhere in a body. */
const ODD: readonly [JsonValue, ...JsonValue[]] = [
  null,
  0,
  '',
  'x',
  '=',
  PDF,
  URL,
  'data:;base64,',
  [],
  {},
  [[]],
  true,
  'text',
  'url',
]

function mutated(random: Random, value: JsonValue): JsonValue {
  if (random.chance(0.04)) return random.pick(ODD)
  if (isArray(value)) {
    const items = value.map((item) => mutated(random, item))
    return random.chance(0.04) ? [...items, ...items] : items
  }
  if (!isObject(value)) return value
  const members = Object.entries(value).filter(() => !random.chance(0.02))
  return Object.fromEntries(members.map(([name, member = null]) => [name, mutated(random, member)]))
}

property('mutated bodies are errors of the caller, or JSON for every provider', 3000, (random) => {
  const dialect = random.pick(['chat', 'messages', 'responses'] as const)
  const [first = {}, ...others] = Object.values(PARTS[dialect])
  const part = random.pick(dialect === 'messages' ? [first, WHOLE, OF_PARTS, ...others] : [first, ...others])
  const body = mutated(random, bodyOf(dialect, random.pick(['user', 'result'] as const), part))
  if (!isObject(body)) return
  try {
    const request = read(dialect, { ...body, model: 'm', ...(dialect === 'messages' && { max_tokens: 9 }) })
    expect(estimateInput(request)).toBeGreaterThan(0)
    for (const provider of Object.values(PROVIDERS)) {
      try {
        objectOf(provider.request(request, { model: 'm', endpoint: endpoint({ project: 'p', location: 'r' }) }).body)
      } catch (error) {
        if (!(error instanceof ProviderError) || error.detail.unsent !== true) throw error
      }
    }
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    expect(error.status).toBe(400)
  }
})
