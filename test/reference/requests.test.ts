/**
 * The schemas of requests in `docs/openapi.json` accept what callers send, and reject what the dialects reject for its
 * shape.
 */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../src/core/caller-error.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { acceptEmbeddings } from '../../src/dialects/embeddings/request.ts'
import { acceptImages } from '../../src/dialects/images/request.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { CALLER, sealer } from '../dialects/responses/setting.ts'
import { requestProblem } from '../support/api-schema.ts'
import { CHAT, EMBEDDINGS, IMAGES, MESSAGES, RESPONSES } from '../support/full-bodies.ts'
import { readBody } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers')

interface Endpoint {
  readonly schema: string
  /** Throws `CallerError`. */
  readonly accept: (body: JsonObject) => unknown
  readonly full: JsonObject
}

const ENDPOINTS = {
  chat: {
    schema: 'ChatRequest',
    accept: (body) => readBody(chat({ imageUrls: 'public' }), body, CALLER),
    full: CHAT,
  },
  responses: {
    schema: 'ResponsesRequest',
    // Without a store, so that no reference waits for it.
    accept: (body) => readBody(responses({ sealer }), body, CALLER),
    full: RESPONSES,
  },
  messages: {
    schema: 'MessagesRequest',
    accept: (body) => readBody(messages({ toolResultImages: 'pass' }), body, CALLER),
    full: MESSAGES,
  },
  images: {
    schema: 'ImageGenerationRequest',
    accept: (body) =>
      acceptImages('generations', Buffer.from(JSON.stringify(body)), { imageUrls: 'public', metadata: 'forbidden' }),
    full: IMAGES,
  },
  embeddings: {
    schema: 'EmbeddingsRequest',
    accept: (body) => acceptEmbeddings(Buffer.from(JSON.stringify(body)), 'forbidden'),
    full: EMBEDDINGS,
  },
} as const satisfies Readonly<Record<string, Endpoint>>

type Name = keyof typeof ENDPOINTS

function nameOf(path: string): Name {
  return path.includes('/messages') ? 'messages' : path.includes('/responses') ? 'responses' : 'chat'
}

/** Recorded requests of SDKs and agents: the file, the path and the body. */
const recorded = [...new Bun.Glob('{requests,agents}/*.json').scanSync({ cwd: FOLDER })].sort().map((file) => {
  const { url, path = url, body } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
  return { file, name: nameOf(path), body: body as JsonObject }
})

/** The error with which a dialect rejects a body; undefined if it accepts it. */
function rejection(name: Name, body: JsonObject): CallerError | undefined {
  try {
    ENDPOINTS[name].accept(body)
    return undefined
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
}

describe('recorded requests', () => {
  test('there are some', () => expect(recorded.length).toBeGreaterThan(65))

  test.each(recorded.map((request) => [request.file, request] as const))('%s', (_, { name, body }) => {
    const refused = rejection(name, body)
    if (refused === undefined || BEYOND.test(refused.message))
      expect(requestProblem(ENDPOINTS[name].schema, body)).toBeUndefined()
    else expect(requestProblem(ENDPOINTS[name].schema, body)).toBeString()
  })
})

/** What no schema can know: addresses, stored items, sealed content, threads, and what is left of a conversation. */
const BEYOND =
  /public host|could not be read|was not found or has expired|No such thread|no item that a model could answer/

const VALUES: readonly [JsonValue, ...JsonValue[]] = [
  ...([null, 0, -1, 1.5, 1e9, '', 'x', true, false, [], {}, ['x'], [null], [{}], { type: 'text' }, { a: 1 }] as const),
  ...([{ type: 'image' }, { type: 'function' }, 'required', 'assistant', { type: 'tool' }] as const),
]

/** A copy with a random value somewhere replaced or removed. */
function mutated(value: JsonValue, random: Random): JsonValue {
  if (random.chance(0.15)) return random.pick(VALUES)
  if (isArray(value) && value.length > 0) {
    const at = random.below(value.length)
    if (random.chance(0.1)) return value.filter((_, index) => index !== at)
    return value.map((item, index) => (index === at ? mutated(item, random) : item))
  }
  if (isObject(value)) {
    const entries = Object.entries(value)
    const at = random.below(entries.length)
    if (random.chance(0.1)) return Object.fromEntries(entries.filter((_, index) => index !== at))
    return Object.fromEntries(
      entries.map(([name, member], index) => [
        name,
        index === at && member !== undefined ? mutated(member, random) : member,
      ]),
    )
  }
  return random.pick(VALUES)
}

describe.each(Object.keys(ENDPOINTS) as Name[])('%s', (name) => {
  const { schema, full } = ENDPOINTS[name]
  const bases = [
    full,
    ...recorded.filter((one) => one.name === name && !rejection(name, one.body)).map(({ body }) => body),
  ]

  property('what the dialect rejects for its shape, the schema rejects', 2000, (random) => {
    let body: JsonValue = bases[random.below(bases.length)] ?? full
    for (let change = random.below(3); change >= 0; change--) body = mutated(body, random)
    if (!isObject(body)) return
    const refused = rejection(name, body)
    if (refused === undefined || BEYOND.test(refused.message) || requestProblem(schema, body) !== undefined) return
    throw new Error(`the schema accepts what is rejected with "${refused.message}"\n${JSON.stringify(body)}`)
  })
})
