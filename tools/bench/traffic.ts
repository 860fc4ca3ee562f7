/**
 * The traffic of the bench: which request a caller sends, in which dialect and size, and which provider answers with
 * what. Provider and load generator share this file and `answers.ts`, so that neither can be wrong alone.
 */

/** The dialects that callers of weir speak. */
export const CALLERS = ['chat', 'messages', 'responses'] as const
export type Caller = (typeof CALLERS)[number]

/** The last two are what a caller of the pass-through speaks if the provider does. */
export type Dialect = Caller | 'gemini' | 'bedrock'

/**
 * `obfuscated` is OpenAI as it streams by default: a string of random length in every event. `responses` is the same by
 * its Responses API.
 */
export const STREAMED = ['openai', 'obfuscated', 'responses', 'anthropic', 'gemini'] as const
/** The streams of Bedrock are binary, and none is measured. */
export const PROVIDERS = [...STREAMED, 'bedrock'] as const
export type ProviderName = (typeof PROVIDERS)[number]

/** The dialect that a provider speaks, and so a caller of the pass-through. */
export const NATIVE: Readonly<Record<ProviderName, Dialect>> = {
  openai: 'chat',
  obfuscated: 'chat',
  responses: 'responses',
  anthropic: 'messages',
  gemini: 'gemini',
  bedrock: 'bedrock',
}

/**
 * The kinds of answers: one JSON body; a stream of one burst of events; one of 16 bursts; a burst of thoughts before
 * that of the text; an event every 20 ms; an event every second.
 */
export const KINDS = ['json', 'burst', 'bulk', 'thoughts', 'paced', 'slow'] as const
export type Kind = (typeof KINDS)[number]

/** A request of some 400 bytes, or a conversation of an agent. */
export type Size = 'small' | '200k' | '2m'
export const SIZE_BYTES: Readonly<Record<Exclude<Size, 'small'>, number>> = { '200k': 200_000, '2m': 2_000_000 }

export interface Traffic {
  readonly kind: Kind
  /** The dialect of the callers of weir. */
  readonly caller: Caller
  readonly provider: ProviderName
  readonly size: Size
}

export const BURST_EVENTS = 64
/** Bursts in one stream. A bulk stream has so many that the cost of the request does not matter. */
export const BURSTS = { burst: 1, bulk: 16, thoughts: 1 } as const
export type BurstKind = keyof typeof BURSTS
/** Milliseconds between two events of one stream. */
export const PACES = { paced: 20, slow: 1000 } as const

/** The model's name selects the provider's answer. */
export function modelOf(kind: Kind, provider: ProviderName): string {
  return `bench-${kind}-${provider}`
}

const MODEL = new RegExp(`bench-(${KINDS.join('|')})-(${PROVIDERS.join('|')})`)

/** The answer that the model named in `text` selects; undefined if none is named. */
export function answerOf(text: string): Pick<Traffic, 'kind' | 'provider'> | undefined {
  const match = MODEL.exec(text)
  const kind = KINDS.find((one) => one === match?.[1])
  const provider = PROVIDERS.find((one) => one === match?.[2])
  return kind === undefined || provider === undefined ? undefined : { kind, provider }
}

/** Microseconds of a clock that all processes of the machine share, 16 digits. */
export function nowMicroseconds(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000)
}
