/**
 * The path of one request through weir without its sockets: a caller's body in, the body for each kind of provider out.
 * The thread time of each step is measured, because a request goes to one provider at a time.
 */

import { needsOf } from '../../src/catalog/capability.ts'
import { Catalog } from '../../src/catalog/catalog.ts'
import { fit } from '../../src/catalog/fitted-request.ts'
import { resolve } from '../../src/catalog/resolve.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { Completion } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import type { ImageKind, ImageRequest } from '../../src/core/image-request.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Exchange } from '../../src/dialects/dialect.ts'
import { type ErrorFamily, errorBody } from '../../src/dialects/error-body.ts'
import { refuseForbidden } from '../../src/dialects/forbidden-fields.ts'
import { acceptImageForm, acceptImages } from '../../src/dialects/images/request.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { acceptCount } from '../../src/dialects/messages/request.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { ConversationKey } from '../../src/gateway/affinity.ts'
import { LocalItemStore } from '../../src/items/local-item-store.ts'
import { Sealer } from '../../src/items/sealer.ts'
import { estimateImages, estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openaiImages } from '../../src/providers/openai/image-api.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider, Target } from '../../src/providers/provider.ts'
import { boundaryOf, parseForm } from '../../src/wire/multipart.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { Encoding } from './encoding.ts'
import { storeIn } from './item-text.ts'

/** The endpoint of a body. */
export type Path = 'chat' | 'responses' | 'compact' | 'messages' | 'count' | 'generations' | 'edits' | 'form'

export interface Body {
  readonly path: Path
  readonly bytes: Uint8Array
  /** The content type of a form. */
  readonly contentType?: string
}

/** The result of a request, and its cost. */
export interface Walked {
  /** CPU time of this thread in milliseconds, with the most expensive provider. */
  readonly ms: number
  /** The CPU time of each step, to find the slow ones. */
  readonly steps: Readonly<Record<string, number>>
  /** Set if the request was rejected, by weir or by every provider's adapter. */
  readonly failure: CallerError | undefined
}

export const ORGANIZATION = 'acme'
const CALLER = { organization: ORGANIZATION }
export const sealer = new Sealer([Buffer.alloc(32, 1).toString('base64')])
export const itemStore = new LocalItemStore({ ttlSeconds: 3600 })

const SERVED = { model: 'm', createdAt: 1 }
const COMPLETION: Completion = { text: 'Hello', toolCalls: [], reason: 'stop', usage: {} }
const EVENTS: readonly StreamEvent[] = [
  { type: 'start' },
  { type: 'text', text: 'Hello' },
  { type: 'finish', reason: 'stop' },
  { type: 'end' },
]

const MESSAGES = { toolResultImages: 'pass' } as const
const dialects = {
  chat: chat({ imageUrls: 'public' }),
  responses: responses({ sealer, itemStore: storeIn(itemStore) }),
  messages: messages(MESSAGES),
}

const common = { aliases: [], fallbacks: [], targets: [{ provider: 'p', model: 'claude-sonnet-4-5' }] } as const
const catalog = Catalog.from({
  ownedBy: 'weir',
  models: [
    {
      ...{ ...common, name: 'm', defaultOutputTokens: 4096, supports: ['images', 'tools'] },
      promptCache: { key: true, explicit: true, ttls: ['5m'] },
    },
    {
      ...{ ...common, name: 'i', defaultOutputTokens: 4096, supports: ['image_generation'] },
      promptCache: { key: false, explicit: false, ttls: [] },
    },
  ],
  organizations: [
    {
      ...{ id: ORGANIZATION, rules: [], auto: 'available', limits: {} },
      keys: [{ id: 'k', sha256: '', auto: 'available', limits: {}, disabled: false }],
    },
  ],
  auto: { candidates: ['m'] },
})

function target(baseUrl: string): Target {
  const deadlines = { connectMs: 1000, firstByteMs: { stream: 1000, whole: 1000 }, idleMs: 1000, totalMs: 1000 }
  const aws = { region: 'eu-west-1', keys: { accessKeyId: 'a', secretAccessKey: 'b' } }
  return { endpoint: { name: 'p', baseUrl, aws, headers: {}, deadlines }, model: 'anthropic.claude-sonnet-4-5' }
}

const providers: Readonly<Record<string, readonly [Provider, Target]>> = {
  openai: [openai, target('https://provider.test/v1')],
  responses: [openai, { ...target('https://provider.test/v1'), api: 'responses' }],
  mistral: [openai, target('https://api.mistral.ai/v1')],
  anthropic: [anthropic, target('https://provider.test')],
  gemini: [gemini, target('https://provider.test')],
  bedrock: [bedrock, target('https://provider.test')],
}

/**
 * Runs and measures every step of a body. Throws any error but `CallerError` and `ProviderError`: a caller would get a
 * 500.
 */
export async function walk(body: Body): Promise<Walked> {
  const clock = new Clock()
  const family: ErrorFamily = body.path === 'messages' || body.path === 'count' ? 'messages' : 'chat'
  try {
    await enter(body, clock)
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    clock.run('error', () => JSON.stringify(errorBody(error, family, 'req_1')))
    return clock.walked(error)
  }
  return clock.walked(undefined)
}

async function enter({ path, bytes, contentType }: Body, clock: Clock): Promise<void> {
  if (path === 'form' || path === 'edits' || path === 'generations') {
    const image = clock.run('accept', () => accepted(path, bytes, contentType ?? ''))
    clock.run('estimate', () => estimateImages(image))
    clock.run('provider', () => openaiImages.request(image, target('https://provider.test/v1')))
    return
  }
  const { read: readBody, unparsed } = dialects[path === 'compact' ? 'responses' : path === 'count' ? 'messages' : path]
  const read = path === 'compact' ? dialects.responses.readCompact : readBody
  if (unparsed === undefined || read === undefined) throw new Error('every dialect reads documents')
  const document = clock.run('parse', () => readRequestBody(bytes, unparsed))
  refuseForbidden(document.settings, path === 'messages' || path === 'count' ? 'accepted' : 'forbidden')
  if (path === 'count') {
    const counted = clock.run('accept', () => acceptCount(document, MESSAGES))
    return await send(counted, clock)
  }
  await answer(await clock.wait('accept', () => read(document, CALLER)), clock)
}

async function answer(exchange: Exchange, clock: Clock): Promise<void> {
  await send(exchange.request, clock)
  clock.run('answer', () => exchange.answer(COMPLETION, SERVED))
  const encoding = Encoding.of(exchange, SERVED)
  clock.run('stream', () => encoding.addAll(EVENTS))
}

async function send(request: ChatRequest, clock: Clock): Promise<void> {
  const [key] = catalog.credentials.map((credential) => credential.key)
  const [first] = catalog.models
  if (key === undefined || first === undefined) throw new Error('the catalog has a key and a model')
  const tokens = clock.run('estimate', () => estimateInput(request))
  const needs = clock.run('needs', () => needsOf(request, tokens))
  clock.run('resolve', () => resolve(catalog, key, { name: request.model, kind: 'chat', needs }))
  clock.run('affinity', () => new ConversationKey(ORGANIZATION, request).of('m'))
  const fitted = clock.run('fit', () => fit(request, first, needs))
  for (const [name, [provider, at]] of Object.entries(providers)) {
    try {
      const { sign } = clock.run(`provider ${name}`, () => provider.request(fitted, at))
      if (sign !== undefined) await clock.wait(`provider ${name} signs`, sign)
      if (provider.counter !== undefined)
        clock.run(`provider ${name} counts`, () => provider.counter?.request(fitted, at))
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === 'rejected')) throw error
    }
  }
}

function accepted(path: ImageKind | 'form', bytes: Uint8Array, contentType: string): ImageRequest {
  return path === 'form'
    ? acceptImageForm(parseForm(bytes, boundaryOf(contentType)), { imageUrls: 'public', metadata: 'forbidden' })
    : acceptImages(path, bytes, { imageUrls: 'public', metadata: 'forbidden' })
}

/** CPU time of this thread in milliseconds. */
export function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

class Clock {
  private readonly steps: Record<string, number> = {}

  run<T>(step: string, work: () => T): T {
    const from = threadMs()
    try {
      return work()
    } finally {
      this.steps[step] = threadMs() - from
    }
  }

  async wait<T>(step: string, work: () => T | Promise<T>): Promise<T> {
    const from = threadMs()
    try {
      return await work()
    } finally {
      this.steps[step] = threadMs() - from
    }
  }

  walked(failure: CallerError | undefined): Walked {
    const isProvider = (step: string) => step.startsWith('provider')
    const steps = Object.entries(this.steps)
    const before = steps.filter(([step]) => !isProvider(step)).map(([, ms]) => ms)
    const asked = steps.filter(([step]) => isProvider(step)).map(([, ms]) => ms)
    return { ms: before.reduce((sum, ms) => sum + ms, 0) + Math.max(0, ...asked), steps: this.steps, failure }
  }
}
