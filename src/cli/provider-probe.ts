/**
 * `weir check --providers`: sends one smallest request to each target, and reports whether the provider can be reached,
 * accepts the credential and knows the model.
 */

import { adapterOfModel, loadAdapters } from '../assembly/provider-adapters.ts'
import { targetsOf } from '../assembly/targets.ts'
import type { ModelKind } from '../catalog/catalog.ts'
import type { Config } from '../config/config.ts'
import { BytePieces } from '../core/byte-pieces.ts'
import type { EmbeddingRequest } from '../core/embedding-request.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { ImageRequest } from '../core/image-request.ts'
import { prefixOf, type Support, type TargetRef, targetKey } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import { sendForText } from '../gateway/provider-call.ts'
import type { Dispatch, Learned, Provider } from '../providers/provider.ts'
import { smallestChat } from '../providers/smallest-chat.ts'
import { UpstreamCall } from '../providers/upstream.ts'

/** A model may have to be loaded first, but an operator waits. */
const CHAT_MS_MAX = 60_000
const IMAGE_MS_MAX = 180_000
/** Requests at a time. */
const CONCURRENCY = 8

/** What one request proved: `unknown` is what an earlier failure left open. */
export interface Finding {
  readonly target: TargetRef
  readonly reachable: 'yes' | 'no'
  readonly credential: 'accepted' | 'rejected' | 'unknown'
  readonly model: 'known' | 'unknown'
  /** What is wrong with the target; empty if nothing is. */
  readonly remark: string
  readonly ms: number
}

export function isSound({ reachable, credential, model }: Finding): boolean {
  return reachable === 'yes' && credential === 'accepted' && model === 'known'
}

/** One finding for each target, in the order of the file. Never throws because of a provider. */
export async function probeTargets(config: Config): Promise<readonly Finding[]> {
  const adapters = await loadAdapters(config)
  const images = targetsThat(config, 'image_generation')
  const embeddings = targetsThat(config, 'embeddings')
  // Which models a pattern has, only the provider knows.
  const targets = targetsOf(config).filter(({ model }) => prefixOf(model) === undefined)
  const findings: Finding[] = []
  const next = targets.entries()
  const work = async () => {
    for (const [index, target] of next) {
      const provider = config.providers.find(({ name }) => name === target.provider)
      const adapter = provider && (adapterOfModel(provider.dialect, target.model) ?? adapters.get(provider.dialect))
      if (provider === undefined || adapter === undefined) continue
      const key = targetKey(target)
      const kind = images.has(key) ? 'image' : embeddings.has(key) ? 'embedding' : 'chat'
      findings[index] = await probe(target, provider, adapter, kind)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work))
  return findings
}

function targetsThat({ models }: Config, support: Support): ReadonlySet<string> {
  return new Set(models.flatMap(({ supports, targets }) => (supports.includes(support) ? targets.map(targetKey) : [])))
}

async function probe(target: TargetRef, endpoint: Endpoint, adapter: Provider, kind: ModelKind): Promise<Finding> {
  const begun = performance.now()
  const due = begun + (kind === 'image' ? IMAGE_MS_MAX : CHAT_MS_MAX)
  const found = (rest: Pick<Finding, 'reachable' | 'credential' | 'model' | 'remark'>) => ({
    target,
    ...rest,
    ms: Math.round(performance.now() - begun),
  })
  try {
    await ask(target, endpoint, adapter, kind, due)
    return found({ reachable: 'yes', credential: 'accepted', model: 'known', remark: '' })
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    return found(judged(error))
  }
}

/** Throws the rejection unless it teaches how to write the request: then it is sent again, as one of a caller is. */
async function ask(
  target: TargetRef,
  endpoint: Endpoint,
  adapter: Provider,
  kind: ModelKind,
  due: number,
  learned?: Learned,
): Promise<void> {
  const provider = learned?.provider ?? adapter
  const sentMs = performance.now()
  try {
    const request = requestOf(target, endpoint, provider, kind)
    await sendForText(new UpstreamCall(request, endpoint, false, due), provider, () => {})
  } catch (error) {
    if (!(error instanceof ProviderError) || kind !== 'chat' || learned?.first !== undefined) throw error
    const { model, api } = target
    const rejected = { target: { endpoint, model, api }, request: smallestChat(model), organization: '', sentMs }
    const next = provider.learn?.({ error, ...rejected })
    if (next === undefined) throw error
    await ask(target, endpoint, adapter, kind, due, next)
  }
}

function requestOf({ model, api }: TargetRef, endpoint: Endpoint, adapter: Provider, kind: ModelKind): Dispatch {
  if (kind === 'chat') return adapter.request(smallestChat(model), { endpoint, model, api })
  if (kind === 'embedding') {
    if (adapter.embeddings === undefined) throw new ProviderError('rejected', 'the dialect has no embeddings API')
    return adapter.embeddings.request(embedding(model), { endpoint, model })
  }
  if (adapter.images === undefined) throw new ProviderError('rejected', 'the dialect has no image API')
  return adapter.images.request(image(model), { endpoint, model })
}

function judged(error: ProviderError): Pick<Finding, 'reachable' | 'credential' | 'model' | 'remark'> {
  const remark = oneLine(error)
  const { status } = error.detail
  // The provider knows the account, but does not answer without credit.
  if (error.kind === 'credit_exhausted')
    return { reachable: 'yes', credential: 'accepted', model: 'unknown', remark: `no credit: ${remark}` }
  if (status === undefined) return { reachable: 'no', credential: 'unknown', model: 'unknown', remark }
  if (error.kind === 'credential') return { reachable: 'yes', credential: 'rejected', model: 'unknown', remark }
  // A gateway or proxy in between answers these, too, so they prove nothing about the credential.
  if (status >= 500 || error.kind === 'broken')
    return { reachable: 'yes', credential: 'unknown', model: 'unknown', remark }
  if (status === 404 || status === 429 || isOfModel(error.message))
    return { reachable: 'yes', credential: 'accepted', model: 'unknown', remark }
  // The model has rejected so small a request.
  return { reachable: 'yes', credential: 'accepted', model: 'known', remark }
}

const OF_MODEL = [
  /\b(?:model|deployment)\b.*(?:not (?:found|exist|supported|available)|invalid|unknown)/i,
  /(?:unknown|invalid|no such) model/i,
]

/** Azure and Bedrock answer 400 for a model that does not exist. */
function isOfModel(message: string): boolean {
  return OF_MODEL.some((pattern) => pattern.test(message))
}

function oneLine({ message, detail, causeCode }: ProviderError): string {
  const text = message.replaceAll(/\s+/g, ' ').trim().slice(0, 200)
  const { status } = detail
  if (status === undefined) return causeCode === undefined ? text : `${text} (${causeCode})`
  return text.includes(String(status)) ? text : `${status}: ${text}`
}

function embedding(model: string): EmbeddingRequest {
  const body = (name: string) => JSON.stringify({ model: name, input: 'Hi' })
  return { model, inputs: ['Hi'], body: (name) => BytePieces.of([Buffer.from(body(name))]) }
}

function image(model: string): ImageRequest {
  const body = (name: string) => JSON.stringify({ model: name, prompt: 'A dot.', n: 1 })
  return {
    kind: 'generations',
    model,
    prompt: 'A dot.',
    images: 1,
    inputs: 0,
    size: undefined,
    quality: undefined,
    stream: false,
    body: (name) => ({ contentType: 'application/json', content: BytePieces.of([Buffer.from(body(name))]) }),
  }
}
