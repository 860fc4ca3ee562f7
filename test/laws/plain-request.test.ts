/**
 * The law of the plain request: a request that is written in one step, if it is, is byte for byte the request that the
 * adapter writes the usual way.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest, Message, UserPart } from '../../src/core/chat-request.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { plainRequest as oneStep } from '../../src/gateway/plain-request.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import { CALLER, sealer } from '../dialects/responses/setting.ts'
import { endpoint, plainRequest, randomRequest, withoutNative } from '../providers/requests.ts'
import { property, type Random } from '../support/random.ts'

type Where = readonly [name: string, provider: Provider, target: Target]

const at = (baseUrl: string, model: string): Target => ({ endpoint: endpoint({ baseUrl }), model })

const PROVIDERS: readonly [Where, ...Where[]] = [
  ['openai', openai, at('https://api.openai.com/v1', 'gpt-5"mini')],
  ['a compatible server', openai, at('http://127.0.0.1:1/v1', 'llama 3/é')],
  ['mistral', openai, at('https://api.mistral.ai/v1', 'mistral-large')],
  ['azure', azure, at('https://weir.openai.azure.com', 'my deployment')],
  ['anthropic', anthropic, at('https://provider.test', 'claude-sonnet-4-5')],
  ['anthropic, older', anthropic, at('https://provider.test', 'claude-3-haiku')],
  ['gemini', gemini, at('https://provider.test', 'tunedModels/a b')],
  ['bedrock', bedrock, at('https://provider.test', 'claude')],
  ['vertex', vertexGemini, at('https://provider.test', 'endpoints/1 2')],
  ['claude on vertex', vertexClaude, at('https://provider.test', 'claude-sonnet-4-5@20250929')],
]

/** True if the request was plain. What the usual way rejects is not. */
function holds(request: ChatRequest, [, provider, target]: Where): boolean {
  const plain = oneStep(request, provider, target)
  if (plain === undefined) return false
  expect(plain).toEqual(provider.request(request, target))
  return true
}

function reject(error: unknown): void {
  if (!(error instanceof ProviderError)) throw error
}

const TEXTS = [
  'Hello',
  ' world \n',
  '',
  ' ',
  '\u00a0',
  '\u200b',
  '\n\t',
  'é日本語👩‍👩‍👧',
  '"quoted" \\',
  'ends in space  ',
] as const
const MORE_TEXTS = ['\ud800', '\u2028\u0085', '\u0000\u001f\u007f', '</tag>', '.'] as const

const text = (random: Random): UserPart & { readonly type: 'text' } => ({
  type: 'text',
  text: random.pick(random.chance(0.7) ? TEXTS : MORE_TEXTS),
  cache: undefined,
})

/** Mostly alternating messages of one text each. */
function history(random: Random): Message[] {
  const all: Message[] = random.chance(0.6) ? [{ role: 'system', parts: [text(random)] }] : []
  const turns = random.between(1, 6)
  for (let turn = 0; turn < turns; turn++) {
    const isUsers = random.chance(0.9) ? turn % 2 === 0 : random.chance(0.5)
    const parts = random.chance(0.95) ? [text(random)] : [text(random), text(random)]
    all.push(isUsers ? { role: 'user', parts } : { role: 'assistant', parts, toolCalls: [] })
    if (random.chance(0.05)) all.push({ role: 'system', parts: [text(random)] })
  }
  return all
}

const number = (random: Random) => random.pick([undefined, undefined, 0, -0, 1, 0.1 + 0.2, 2, 1e-7, -1.5])
const words = (random: Random) => random.pick([undefined, undefined, '', 'auto', 'flex', 'a"b\n', 'u'.repeat(300)])

function nearlyPlain(random: Random): ChatRequest {
  return plainRequest({
    messages: history(random),
    stream: random.chance(0.5),
    maxOutputTokens: random.pick([undefined, 1, 4096]),
    stop: random.chance(0.05) ? ['END'] : [],
    sampling: {
      ...{ temperature: number(random), topP: number(random), seed: number(random), topLogprobs: number(random) },
      ...{ frequencyPenalty: number(random), presencePenalty: number(random) },
      ...{ reasoningEffort: words(random), verbosity: words(random) },
      logprobs: random.pick([undefined, undefined, true, false]),
      responseFormat: random.chance(0.05) ? { type: 'json_object' } : undefined,
      logitBias: random.chance(0.05) ? { 1: 1 } : undefined,
    },
    hints: {
      ...{ user: words(random), safetyIdentifier: words(random), serviceTier: words(random) },
      ...{ promptCacheKey: words(random), promptCacheRetention: words(random) },
      promptCacheOptions: random.chance(0.05) ? { a: 1 } : undefined,
      padStream: random.pick([undefined, true]),
    },
    cache: random.chance(0.05) ? { ttl: '5m' } : undefined,
  })
}

describe.each(PROVIDERS.map((where) => [where[0], where] as const))('%s', (name, where) => {
  let plain = 0

  property('nearly plain requests', 2000, (random) => {
    if (holds(nearlyPlain(random), where)) plain++
  })

  test('many of them are plain', () => {
    expect(plain > 100).toBe(!['mistral', 'bedrock'].includes(name))
  })

  property('any requests', 1000, (random) => {
    const request = randomRequest(random)
    try {
      holds(where[1] === openai || where[1] === azure ? request : withoutNative(request), where)
    } catch (error) {
      reject(error)
    }
  })
})

const DIALECTS = {
  chat: chat({ imageUrls: 'any' }),
  messages: messages({ toolResultImages: 'pass' }),
  responses: responses({ sealer }),
} as const

const FOLDER = join(import.meta.dir, '../fixtures/callers')
const files = ['agents', 'requests'].flatMap((folder) =>
  readdirSync(join(FOLDER, folder)).map((file) => `${folder}/${file}`),
)

/** The recorded request, without its tools too, which leaves some plain. */
function recorded(file: string): ChatRequest[] {
  const { url, path = url, body } = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'))
  const name = path.includes('messages') ? 'messages' : path.includes('responses') ? 'responses' : 'chat'
  const accept = (json: JsonObject) => {
    try {
      const exchange = DIALECTS[name].accept(json, CALLER)
      return exchange instanceof Promise ? [] : [exchange.request]
    } catch (error) {
      if (error instanceof CallerError) return []
      throw error
    }
  }
  return [...accept(body), ...accept({ ...body, tools: undefined })]
}

test.each(files)('recorded: %s', (file) => {
  for (const request of recorded(file)) for (const where of PROVIDERS) holds(request, where)
})

test('a small body of each dialect is plain for each API', () => {
  const bodies = {
    chat: {
      model: 'm',
      messages: [
        { role: 'system', content: 'Be terse.' },
        { role: 'user', content: 'Hi' },
      ],
    },
    messages: { model: 'm', max_tokens: 9, system: 'Be terse.', messages: [{ role: 'user', content: 'Hi' }] },
    responses: { model: 'm', instructions: 'Be terse.', input: 'Hi' },
  } as const
  for (const name of ['chat', 'messages', 'responses'] as const) {
    const exchange = DIALECTS[name].accept(bodies[name], CALLER)
    if (exchange instanceof Promise) throw new Error('a promise')
    const plain = PROVIDERS.filter((where) => holds(exchange.request, where)).map(([each]) => each)
    expect(plain).toEqual(PROVIDERS.map(([each]) => each).filter((each) => each !== 'mistral' && each !== 'bedrock'))
  }
})
