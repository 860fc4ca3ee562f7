/** What a provider is: how a canonical request becomes its body, and how its bytes become canonical events. */

import type { ChatRequest } from '../core/chat-request.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { StreamEvent } from '../core/event.ts'
import type { ImageFigures, ImageRequest } from '../core/image-request.ts'
import type { JsonValue } from '../core/json.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { FrameSink, Shortcut } from '../wire/frames.ts'

/** One place that a model can be had from. */
export interface Target {
  readonly endpoint: Endpoint
  /** The provider's own name of the model (Azure: the deployment). */
  readonly model: string
}

/** What is sent: text, or pieces of bytes that are sent one after the other and copied nowhere. */
export interface Dispatch {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | readonly Uint8Array[]
  /** Returns all headers, with a signature that only asynchronous hashing can make. Absent if `headers` are complete. */
  readonly sign?: (() => Promise<Readonly<Record<string, string>>>) | undefined
}

export interface UpstreamRequest extends Dispatch {
  readonly body: string
  /** Names of tools that the provider got under another name: sent → the caller's own. Absent where all were sent as they are. */
  readonly toolNames?: ReadonlyMap<string, string> | undefined
}

/** Bytes → frames, whatever the cuts between the chunks. */
export interface Framer {
  /** Calls the sink for each frame that the chunk completes. Throws `ProviderError` on bytes that cannot be framed or a frame over the cap. */
  push(chunk: Uint8Array, sink: FrameSink): void
  /** The clean end of the bytes: what still stands without its last line end is a frame too. */
  close(sink: FrameSink): void
}

/** Frames → canonical events. One a stream. */
export interface StreamDecoder {
  /** Throws `ProviderError` for a frame that cannot be read and for the provider's own error events. */
  decode(event: string, data: string): readonly StreamEvent[]
  /** The clean end of the bytes. Gives `end` where the answer is whole by then; throws a `cut` where it is not. Nothing after an `end`. */
  close(): readonly StreamEvent[]
}

/** What a provider does that makes images. */
export interface ImageMaker {
  request(image: ImageRequest, target: Target): Dispatch
  /** What a whole answer says of itself. Throws `ProviderError` on a body that is no answer. */
  figures(body: JsonValue): ImageFigures
}

/** A provider's own counter of input tokens. It costs nothing. */
interface TokenCounter {
  request(request: ChatRequest, target: Target): UpstreamRequest
  /** The figure of its answer; undefined where there is none. */
  tokens(body: JsonValue): number | undefined
}

export interface Provider {
  /** `request` is already fitted to the model: its output limit resolved, what the model does not support taken out. */
  request(request: ChatRequest, target: Target): UpstreamRequest
  /** The content type of its streams. */
  readonly streamType: string
  /** `shortcut` may be left alone by framings that are no lines of text. */
  framer(shortcut?: Shortcut): Framer
  decoder(): StreamDecoder
  /** A whole answer as the same events, `end` included. Throws `ProviderError` on a body that is no answer. */
  events(body: JsonValue): readonly StreamEvent[]
  /** What an answer with an error status means. `body` is its text, capped. */
  responseError(status: number, headers: Headers, body: string): ProviderError
  /** Absent where its API has no images of the form that callers speak. */
  readonly images?: ImageMaker | undefined
  /** Absent where the provider has none; then our estimate stands. */
  readonly counter?: TokenCounter
}

/** The event with the caller's own name of the tool in place of the one that was sent; the very same event where nothing was renamed. */
export function restoreToolName(event: StreamEvent, toolNames: UpstreamRequest['toolNames']): StreamEvent {
  if (toolNames === undefined || event.type !== 'tool-start') return event
  const name = toolNames.get(event.name)
  return name === undefined ? event : { ...event, name }
}
