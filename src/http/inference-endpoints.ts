/** What each endpoint does with a request: reads its body, converts it, and runs it through the gateway. */

import { type Key, publicName } from '../catalog/catalog.ts'
import { anthropicModelList, modelList, PAGE_MAX } from '../catalog/model-list.ts'
import { CallerError } from '../core/caller-error.ts'
import { turn } from '../core/event-loop.ts'
import type { ImageKind, ImageRequest, MadeImages } from '../core/image-request.ts'
import { Later } from '../core/later.ts'
import type { Caller, Dialect, Exchange } from '../dialects/dialect.ts'
import { embeddingsBody } from '../dialects/embeddings/answer.ts'
import { acceptEmbeddings } from '../dialects/embeddings/request.ts'
import { endUserOf } from '../dialects/end-user.ts'
import { type MetadataRule, refuseForbidden } from '../dialects/forbidden-fields.ts'
import { imagesBody, imagesEvents } from '../dialects/images/answer.ts'
import { acceptImageForm, acceptImages, type ImageRules } from '../dialects/images/request.ts'
import { type Turn, warmUpStream } from '../dialects/responses/responses.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { countTokens } from '../gateway/count-tokens.ts'
import { EmbeddingWork } from '../gateway/embedding-work.ts'
import { Flow } from '../gateway/flow.ts'
import { ImageWork } from '../gateway/image-work.ts'
import { resolveWork, type Work } from '../gateway/work.ts'
import { boundaryOf, isForm, parseForm } from '../wire/multipart.ts'
import { type RequestBody, readRequestBody } from '../wire/request-body.ts'
import type { TurnBody } from './continued-body.ts'
import type { RequestLife } from './request-life.ts'

/** Converts a body: a dialect's `read`, or that of one of its other endpoints. */
interface Reader extends Pick<Dialect, 'read' | 'unparsed'> {
  /** The body, if it was read before. */
  readonly body?: RequestBody | undefined
}

/** `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a conversation in the dialect of `reader`. */
export function runChat(life: RequestLife, key: Key, bytes: Uint8Array, reader: Reader): void | Promise<void> {
  const body = readDocument(life, key, bytes, reader)
  life.identify(body.settings, endUserOf)
  if (life.running.isHeavy) return runHeavyChat(life, key, body, reader)
  const exchange = reader.read(body, callerOf(life, key))
  return exchange instanceof Later ? runLater(life, key, exchange) : runExchange(life, key, exchange)
}

async function runLater(life: RequestLife, key: Key, exchange: Later<Exchange>): Promise<void> {
  runExchange(life, key, await exchange)
}

async function runHeavyChat(life: RequestLife, key: Key, body: RequestBody, reader: Reader): Promise<void> {
  // Other documents are read meanwhile.
  body.document.keep()
  await turn()
  const exchange = await reader.read(body, callerOf(life, key))
  await turn()
  runExchange(life, key, exchange)
}

/** A turn on a socket: what `POST /v1/responses` does with the same body, always as a stream. */
export function runTurn(life: RequestLife, key: Key, bytes: Uint8Array, turn: SentTurn): void | Promise<void> {
  const { unparsed, readTurn } = life.parts.dialects.responses
  const read: Reader['read'] = (body, caller) => readTurn(body, caller, turn)
  return runChat(life, key, bytes, { unparsed, read, body: turn.body?.read })
}

/** A turn, whose frame may have been read as a body already. */
interface SentTurn extends Turn {
  readonly body: TurnBody | undefined
}

/**
 * A turn that only prepares the next one: checked as a request, and answered without a provider, so that nothing is
 * reserved or charged.
 */
export async function runWarmUp(life: RequestLife, key: Key, bytes: Uint8Array, turn: Turn): Promise<void> {
  const { parts, log } = life
  const { unparsed, readTurn } = parts.dialects.responses
  const exchange = await readTurn(readDocument(life, key, bytes, { unparsed }), callerOf(life, key), turn)
  log.ignored = exchange.ignored
  const work = new ChatWork(parts.gateway, key, exchange, log)
  const [first] = resolveWork(parts.gateway.catalog, key, work).candidates
  if (first === undefined) throw new Error('a resolution without candidates')
  life.complete(warmUpStream(exchange, { model: publicName(first.model), createdAt: Math.floor(Date.now() / 1000) }))
}

function runExchange(life: RequestLife, key: Key, exchange: Exchange): void {
  life.log.ignored = exchange.ignored
  flow(life, key, new ChatWork(life.parts.gateway, key, exchange, life.log))
}

/** `POST /v1/messages/count_tokens` on both Messages prefixes: agents call it instead of sending a real request. */
export async function runCount(life: RequestLife, key: Key, bytes: Uint8Array): Promise<void> {
  const { parts, log, running } = life
  const body = readDocument(life, key, bytes, parts.dialects.messages)
  if (running.isHeavy) {
    body.document.keep()
    await turn()
  }
  const request = parts.acceptCount(body, callerOf(life, key))
  if (running.isHeavy) await turn()
  const tokens = await countTokens(parts.gateway, { key, request, running, log })
  life.complete(JSON.stringify({ input_tokens: tokens }))
}

/** `POST /v1/embeddings`. */
export function runEmbeddings(life: RequestLife, key: Key, bytes: Uint8Array): void {
  if (isForm(contentType(life))) throw formRejected()
  const embedding = acceptEmbeddings(bytes, metadataRule(key))
  life.log.requestedModel = embedding.model
  life.identify(embedding, userOf)
  flow(life, key, new EmbeddingWork(embedding, embeddingsBody, life.log))
}

/** `POST /v1/images/generations` and `/v1/images/edits`: JSON, or a form for edits. */
export function runImages(life: RequestLife, key: Key, bytes: Uint8Array, kind: ImageKind): void {
  const rules = { imageUrls: life.parts.imageUrls, metadata: metadataRule(key) }
  const image = acceptImage(kind, contentType(life), bytes, rules)
  life.log.requestedModel = image.model
  life.identify(image, userOf)
  const bodyOf = image.stream ? (made: MadeImages) => imagesEvents(kind, made) : imagesBody
  flow(life, key, new ImageWork(image, bodyOf, life.log))
}

/** Only edits may come as a form: SDKs send their files so. All else is read as JSON, whatever its content type. */
function acceptImage(kind: ImageKind, type: string | null, bytes: Uint8Array, rules: ImageRules): ImageRequest {
  if (type === null || !isForm(type)) return acceptImages(kind, bytes, rules)
  if (kind === 'edits') return acceptImageForm(parseForm(bytes, boundaryOf(type)), rules)
  throw formRejected()
}

/** `GET /v1/models`: the models that the caller's key may use. */
export function runModels(life: RequestLife, key: Key): void {
  const { gateway, patterns } = life.parts
  life.complete(JSON.stringify(modelList(gateway.catalog, key, patterns)))
}

/** `GET /anthropic/v1/models`: the same models, for SDKs of Anthropic and for agents that look for models with them. */
export function runAnthropicModels(life: RequestLife, key: Key): void {
  const { gateway, patterns } = life.parts
  const query = new URLSearchParams(life.head.url.split('?')[1])
  const limit = Number(query.get('limit') ?? PAGE_MAX)
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX)
    throw new CallerError('invalid_field', `limit must be a whole number from 1 to ${PAGE_MAX}.`, { param: 'limit' })
  const page = { limit, after: query.get('after_id') ?? undefined, before: query.get('before_id') ?? undefined }
  life.complete(JSON.stringify(anthropicModelList(gateway.catalog, key, patterns, page)))
}

function flow(life: RequestLife, key: Key, work: Work): void {
  new Flow(life.parts.gateway, key, work, life.running, life.log, life).run()
}

/** A JSON body without forbidden fields, whose long lists are not parsed. Throws `CallerError`. */
function readDocument(life: RequestLife, key: Key, bytes: Uint8Array, reader: Omit<Reader, 'read'>): RequestBody {
  if (isForm(contentType(life))) throw formRejected()
  const body = reader.body?.document.isValid ? reader.body : readRequestBody(bytes, reader.unparsed)
  const { settings } = body
  refuseForbidden(settings, life.endpoint.family === 'messages' ? 'accepted' : metadataRule(key))
  if (typeof settings['model'] === 'string') life.log.requestedModel = settings['model']
  return body
}

function userOf({ user }: { readonly user?: string | undefined }): string | undefined {
  return user
}

function callerOf({ head }: RequestLife, { organization, compatibility }: Key): Caller {
  return { organization: organization.id, compatibility, headers: head.headers }
}

function metadataRule({ compatibility }: Key): MetadataRule {
  return compatibility.metadata === 'accept' ? 'accepted' : 'forbidden'
}

function contentType({ head }: RequestLife): string | null {
  return head.headers.get('content-type')
}

/** For a path that takes JSON only: the JSON parser's error about a form would not show the mistake. */
function formRejected(): CallerError {
  const message = 'This path does not take forms: send JSON. multipart/form-data is for POST /v1/images/edits alone.'
  return new CallerError('unsupported_media_type', message)
}
