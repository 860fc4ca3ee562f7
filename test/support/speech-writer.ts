/** The answer of a simulated provider, and the interface that writes it in a provider's API. */

import type { JsonObject } from '../../src/core/json.ts'
import type { Call } from './upstream.ts'

export interface Spoken {
  readonly id: string
  readonly name: string
  /** The arguments as JSON. */
  readonly json: string
}

export interface Speech {
  readonly text: string
  readonly calls: readonly Spoken[]
  readonly finish: 'stop' | 'length' | 'filter' | 'calls'
}

export const SPEECH_USAGE = { input: 11, output: 7 } as const

/** How a provider writes an answer. */
export interface SpeechWriter {
  readonly streamType: string
  whole(speech: Speech): JsonObject
  /** The pieces of the stream, one per packet. */
  streamed(speech: Speech): readonly (string | Uint8Array)[]
  /** Whether the request is for a stream. */
  streams(call: Call): boolean
}

/** Text and arguments in pieces that cut surrogate pairs. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,5}/g) ?? []
}

export const sse = (data: JsonObject): string => `data: ${JSON.stringify(data)}\n\n`
