/** The interface of provider adapters: a canonical request → the provider's body, and its bytes → canonical events. */

import type { ChatRequest } from '../core/chat-request.ts'
import type { PlainAnswer } from '../core/completion.ts'
import type { WireForm } from '../core/conversation.ts'
import type { EmbeddingRequest } from '../core/embedding-request.ts'
import type { ChatApi, Endpoint } from '../core/endpoint.ts'
import type { StreamEvent } from '../core/event.ts'
import type { ImageFigures, ImageRequest } from '../core/image-request.ts'
import type { JsonObject, JsonValue } from '../core/json.ts'
import type { OwnFields } from '../core/own-fields.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { ThoughtForm } from '../core/thoughts.ts'
import type { Usage } from '../core/token-usage.ts'
import type { ClientRequest } from '../transport/request-head.ts'
import { type FrameSink, type Shortcut, SseFramer } from '../wire/frames.ts'
import type { Kept } from './form-store.ts'

/** Where a model is available: a provider, and the model's name there. */
export interface Target {
  readonly endpoint: Endpoint
  /** The provider's own name of the model; for Azure, the deployment. */
  readonly model: string
  /** By which of the provider's APIs it is asked; absent = that of `endpoint`. */
  readonly api?: ChatApi | undefined
}

/** A request to send. */
export interface Dispatch extends ClientRequest {
  /** All headers, with a signature that only asynchronous hashing can make. Absent if `headers` are complete. */
  readonly sign?: (() => Promise<Readonly<Record<string, string>>>) | undefined
}

/** The headers of an answer, by their names in lower case. Repeated fields are joined by `, `. */
export interface ResponseHeaders extends Pick<Headers, 'get' | 'has'> {
  /** `x-ratelimit-…` and `anthropic-ratelimit-…`, if they are known without a search. */
  readonly limitFields?: LimitFields
}

/** Fields in a text: of each, where its name begins, and where its value begins and ends, with blanks around it. */
export interface LimitFields {
  readonly text: string
  readonly places: readonly number[]
}

export interface UpstreamRequest extends Dispatch {
  /**
   * Tool names that the provider got in another form: sent name → the caller's name. Absent if all were sent unchanged.
   */
  readonly toolNames?: ReadonlyMap<string, string> | undefined
  /** The usage of a stream is reported only if it is asked for, and this request does. */
  readonly asksUsage?: boolean
  /** How its answer is read, if not as the provider's others: it was written for another API of the provider. */
  readonly reader?: AnswerReader | undefined
  /** What was sent of the caller's own API, if the target refuses some of it. */
  readonly own?: OwnFields | undefined
  /** Fields of the caller's that were left out, because this API of the provider does not have them. */
  readonly ignored?: readonly string[] | undefined
}

/** Splits bytes into frames. How the bytes are cut into chunks makes no difference. */
export interface Framer {
  /**
   * Takes the part of the chunk from `from` to `to`, which is all of it by default. Calls the sink for each frame that
   * it completes. Throws `ProviderError` for bytes that cannot be framed and for a frame over the size limit.
   */
  push(chunk: Uint8Array, sink: FrameSink, from?: number, to?: number): void
  /** The clean end of the bytes. A last line without a line end is a frame too. */
  close(sink: FrameSink): void
}

/** Decodes frames into canonical events. One per stream. */
export interface StreamDecoder {
  /** Throws `ProviderError` for a frame that cannot be parsed and for the provider's error events. */
  decode(event: string, data: string): readonly StreamEvent[]
  /** As `decode`, for a frame that was parsed. */
  read(event: string, chunk: JsonObject): readonly StreamEvent[]
  /**
   * The clean end of the bytes. Returns `end` if that completes the answer; throws `ProviderError` `cut` if the answer
   * is incomplete. Nothing after an `end`.
   */
  close(): readonly StreamEvent[]
  /**
   * Further words of the thought that was decoded last: their frames were copied, not decoded. Absent if the decoder
   * keeps none.
   */
  thoughtCopied?(words: string): void
  /** True if the decoder itself has ended the answer, and the provider goes on. Absent if it never does. */
  readonly hasStopped?: boolean
}

/** How a provider's answers are read. */
export interface AnswerReader {
  /** The content type of its streams. */
  readonly streamType: string
  /** A binary framing has no text to `run` over, and offers its frames one by one. */
  framer(shortcut?: Shortcut): Framer
  decoder(): StreamDecoder
  /** The events of a whole answer, `end` included. Throws `ProviderError` for a body that is not an answer. */
  events(body: JsonValue): readonly StreamEvent[]
  /**
   * A shortcut, which an adapter may lack: the answer if it is nothing but text, and all else in it is usual; otherwise
   * undefined. Then `events` has one text, or none if the text is empty, the same reason and the same usage.
   */
  readonly plain?: ((body: JsonObject) => PlainAnswer | undefined) | undefined
  /** The error of a response with an error status. `body` is its text, at most 64 KiB, or empty. */
  responseError(status: number, headers: ResponseHeaders, body: string): ProviderError
}

/** How streams of server-sent events are read. */
export const sseStream: Pick<AnswerReader, 'streamType' | 'framer'> = {
  streamType: 'text/event-stream',
  framer: (shortcut) => new SseFramer(shortcut),
}

/** The same of an API whose events may hold a whole document, such as one that its own tool has fetched. */
export const sseStreamOfDocuments: typeof sseStream = {
  ...sseStream,
  framer: (shortcut) => new SseFramer(shortcut, 'hold documents'),
}

/** The image API of a provider. */
export interface ImageMaker {
  request(image: ImageRequest, target: Target): Dispatch
  /**
   * The number of images and the usage that an answer reports. Throws `ProviderError` for a body that is not an answer.
   */
  figures(body: JsonValue): ImageFigures
}

/** The embeddings API of a provider. */
export interface EmbeddingMaker {
  request(embedding: EmbeddingRequest, target: Target): Dispatch
  /** The usage that an answer reports. Throws `ProviderError` for a body that is not an answer. */
  usage(body: JsonValue): Usage
}

/** One page of a list. */
export interface ListRequest extends Dispatch {
  /** The request for the page after the one with this body; undefined if it is the last. Absent: there is one page. */
  readonly next?: (body: JsonValue) => ListRequest | undefined
}

/** A provider's lists of its models. They are free of charge. */
interface ModelLister {
  /** The first page of each list that may have names with one of these beginnings. */
  requests(endpoint: Endpoint, prefixes: readonly string[]): readonly ListRequest[]
  /** The names by which models are asked for. Throws `ProviderError` for a body that is no list. */
  names(body: JsonValue): readonly string[]
}

/** A provider's own API for counting input tokens. It is free of charge. */
interface TokenCounter {
  request(request: ChatRequest, target: Target): UpstreamRequest
  /** The count in its answer; undefined if there is none. */
  tokens(body: JsonValue): number | undefined
}

/** A request that a target rejected. */
export interface Rejection {
  readonly error: ProviderError
  readonly target: Target
  readonly request: ChatRequest
  readonly organization: string
  /** When it was sent (`performance.now()`). */
  readonly sentMs: number
}

/** What of the caller's own fields a target has accepted: it was sent without some of them. */
export interface Acceptance {
  readonly target: Target
  readonly asked: OwnFields
  readonly sent: OwnFields
  readonly organization: string
}

/** Another way to write the requests to a target, which its rejection of one suggests. */
export interface Learned {
  /** Writes them so. */
  readonly provider: Provider
  /** The field that differs, and the message that suggested it. */
  readonly field: string
  readonly seen: string
  /** What the same request had taught before: the provider writes it with both changes. */
  readonly first?: Learned | undefined
  /** The target has accepted one, so they are all written so from now on. Undefined if that changes nothing. */
  keep(): Kept | undefined
}

export interface Provider extends AnswerReader {
  /**
   * `request` is already fitted to the model: its output limit is resolved, and what the model does not support is
   * removed. Throws `ProviderError` `rejected` with `unsent` for content that the provider's API cannot express.
   */
  request(request: ChatRequest, target: Target): UpstreamRequest
  /** The least output limit that the API takes for the request; a lower one is raised. Absent if there is none. */
  leastOutput?(request: ChatRequest, target: Target): number
  /**
   * In which form a target's thoughts are kept and given back; undefined for a model that has none, and for one that
   * takes none back. Absent: none of its models has any.
   */
  thoughtForm?(target: Target, request: ChatRequest): ThoughtForm | undefined
  /** Of which of the callers' APIs a target takes what only that API has. Absent: of none. */
  ownForm?(target: Target, request: ChatRequest): WireForm | undefined
  /**
   * If the error may be about how the request was written and not about what its caller asked for: how to write it
   * instead. Absent if nothing is learned.
   */
  learn?(rejection: Rejection): Learned | undefined
  /** A request without some of its caller's own fields was accepted. Absent if nothing is learned of that. */
  accepted?(acceptance: Acceptance): void
  /**
   * The target has reported the usage of a stream that asked for it (`asksUsage`). Absent if its usage never depends on
   * what was learned.
   */
  reportedUsage?(target: Target): void
  /** Absent if the provider has no image API in the form that callers use. */
  readonly images?: ImageMaker | undefined
  /** Absent if the provider has no embeddings API in the form that callers use. */
  readonly embeddings?: EmbeddingMaker | undefined
  /** Absent if the provider has none; then weir's estimate is the answer. */
  readonly counter?: TokenCounter
  /**
   * A free request that shows whether the provider answers and accepts the credential: its list of models, if it has
   * one. Absent if it has no such request.
   */
  probe?(target: Target): Dispatch
  /** Absent if the provider does not list the names by which its models are asked for. */
  readonly models?: ModelLister | undefined
}

/**
 * The event with the caller's name of the tool instead of the sent one; the same object if the tool was not renamed.
 */
export function restoreToolName(event: StreamEvent, toolNames: UpstreamRequest['toolNames']): StreamEvent {
  if (toolNames === undefined || event.type !== 'tool-start') return event
  const name = toolNames.get(event.name)
  return name === undefined ? event : { ...event, name }
}
