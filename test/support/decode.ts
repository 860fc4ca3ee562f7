/** Decodes a provider's bytes as the gateway does, and encodes them for a dialect: the subject of the laws. */

import { type Completion, Fold } from '../../src/core/completion.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { checked, type Encoding } from './encoding.ts'

type Reading = Pick<Provider, 'framer' | 'decoder'>

export interface Decoded {
  readonly events: readonly StreamEvent[]
  /** The error that ended the stream before `end`, if any. */
  readonly error: ProviderError | undefined
}

/** The events of chunks with a clean end after the last. Copied texts are returned as text events. */
export function decode(
  provider: Reading,
  chunks: readonly Uint8Array[],
  splice: 'spliced' | 'decoded' = 'spliced',
): Decoded {
  const events: StreamEvent[] = []
  const texts = (insides: readonly string[]) => {
    for (const inside of insides) events.push({ type: 'text', text: JSON.parse(`"${inside}"`) })
  }
  const decoder = new DecodeStream(provider, { event: (event) => events.push(event), texts }, splice)
  return { events, error: feedAll(decoder, chunks) }
}

/** The text that an encoder makes of the chunks. */
export function encode(
  provider: Reading,
  encoding: Encoding,
  chunks: readonly Uint8Array[],
  splice: 'spliced' | 'decoded' = 'spliced',
): { readonly text: string; readonly error: ProviderError | undefined } {
  let text = ''
  const event = (each: StreamEvent) => {
    text += encoding.add(each)
  }
  const texts = (insides: readonly string[]) => {
    text += encoding.copy(insides)
  }
  const error = feedAll(new DecodeStream(provider, { event, texts }, splice), chunks)
  return { text, error }
}

/** The answer that the events make. Throws if they have no `end`. */
export function fold(events: readonly StreamEvent[]): Completion {
  const folding = new Fold()
  for (const event of checked(events)) folding.add(event)
  if (folding.completion === undefined) throw new Error('the events have no end')
  return folding.completion
}

/** The text of events, joined: how chunks are cut must not change it. */
export function textOf(events: readonly StreamEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.text : '')).join('')
}

function feedAll(decoder: DecodeStream, chunks: readonly Uint8Array[]): ProviderError | undefined {
  try {
    for (const chunk of chunks) if (!decoder.ended) decoder.push(chunk)
    if (!decoder.ended) decoder.close()
    return undefined
  } catch (error) {
    if (error instanceof ProviderError) return error
    throw error
  }
}
