/** The result of decoding a provider's bytes: the answer so far, how it ended, and a check of the order of events. */

import { Fold } from '../../src/core/completion.ts'
import type { FinishReason, StreamEvent } from '../../src/core/event.ts'
import { ProviderError, type ProviderErrorKind } from '../../src/core/provider-error.ts'
import { mergeUsage, type Usage } from '../../src/core/token-usage.ts'
import type { Provider } from '../../src/providers/provider.ts'

export interface Outcome {
  readonly text: string
  readonly refusal: string
  /** `id` is '' if weir made it. */
  readonly calls: readonly { readonly id: string; readonly name: string; readonly json: string }[]
  readonly reason: FinishReason | undefined
  readonly usage: Usage
  readonly ended: boolean
  /** Why `end` is missing. */
  readonly errorKind: ProviderErrorKind | undefined
}

/** The ids that weir makes. */
const MINTED = /^call_[A-Za-z0-9_-]{24}$/

/** Feeds the chunks as the gateway does: a clean end after the last, and nothing after `end`. */
export function streamed(provider: Provider, chunks: readonly Uint8Array[]): Outcome {
  const events: StreamEvent[] = []
  const framer = provider.framer()
  const decoder = provider.decoder()
  const ended = () => events.at(-1)?.type === 'end'
  const sink = (event: string, data: string) => {
    if (!ended()) events.push(...decoder.decode(event, data))
  }
  return outcomeOf(events, () => {
    for (const chunk of chunks) framer.push(chunk, sink)
    framer.close(sink)
    if (!ended()) events.push(...decoder.close())
  })
}

/** Decodes a whole answer. */
export function whole(provider: Provider, body: string): Outcome {
  const events: StreamEvent[] = []
  return outcomeOf(events, () => {
    events.push(...provider.events(JSON.parse(body)))
  })
}

/** Runs `feed`, which fills `events`; it may throw nothing but `ProviderError`. */
function outcomeOf(events: readonly StreamEvent[], feed: () => void): Outcome {
  let errorKind: ProviderErrorKind | undefined
  try {
    feed()
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    errorKind = error.kind
  }
  checkOrder(events, errorKind === undefined)
  return { ...gathered(events), errorKind }
}

function gathered(events: readonly StreamEvent[]): Omit<Outcome, 'errorKind'> {
  const ended = events.some((event) => event.type === 'end')
  const fold = new Fold()
  let reason: FinishReason | undefined
  let usage: Usage = {}
  for (const event of events) {
    fold.add(event)
    if (event.type === 'finish') reason = event.reason
    if (event.type === 'usage') usage = mergeUsage(usage, event.usage)
  }
  if (!ended) fold.add({ type: 'end' })
  const { text = '', refusal = '', toolCalls = [] } = fold.completion ?? {}
  const calls = toolCalls.map(({ callId, name, json }) => ({ id: MINTED.test(callId) ? '' : callId, name, json }))
  return { text, refusal, calls, reason, usage, ended }
}

/** What may follow the finish. */
function isLate(event: StreamEvent): boolean {
  if (event.type === 'own') return event.part === 'message' || event.part === 'ending' || event.part === 'event'
  return event.type === 'usage' || event.type === 'end'
}

/** Throws if the events break the order law of `core/event.ts`. */
export function checkOrder(events: readonly StreamEvent[], whole: boolean): void {
  const refuse = (why: string, event: StreamEvent): never => {
    throw new Error(`${why}: ${JSON.stringify(event)} in ${JSON.stringify(events)}`)
  }
  const written: string[] = []
  let state: 'before' | 'open' | 'finished' | 'ended' = 'before'
  for (const event of events) {
    if (state === 'ended') refuse('after the end', event)
    if (state === 'before' && event.type !== 'start') refuse('before the start', event)
    if (state !== 'before' && event.type === 'start') refuse('a second start', event)
    if (state === 'finished' && !isLate(event)) refuse('after the finish', event)
    switch (event.type) {
      case 'start':
        state = 'open'
        break
      case 'tool-start':
        if (event.index !== written.length) refuse('a hole in the numbers of calls', event)
        if (event.name === '' || event.callId === '') refuse('a call without name or id', event)
        written.push('')
        break
      case 'tool-delta':
        if (written[event.index] === undefined) refuse('a piece of no call', event)
        if (event.json === '') refuse('an empty piece', event)
        written[event.index] += event.json
        break
      case 'text':
      case 'refusal':
      case 'reasoning':
        if (event.text === '') refuse('an empty text', event)
        break
      case 'finish':
        for (const json of written) if (event.reason !== 'length') JSON.parse(json)
        state = 'finished'
        break
      case 'end':
        if (state !== 'finished') refuse('an end without a finish', event)
        state = 'ended'
        break
      case 'usage':
        break
    }
  }
  if (whole && state !== 'ended') throw new Error(`no error and no end: ${JSON.stringify(events)}`)
}
