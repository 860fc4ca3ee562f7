/**
 * The texts of the bench's provider, which a gateway must deliver: the events of each kind of answer, and the text that
 * a caller assembles. Provider and load generator share this file, so that neither can be wrong alone.
 */

/** The models of the bench. The model's name selects the provider's answer. */
export const MODELS = {
  json: 'bench-json',
  burst: 'bench-burst',
  bulk: 'bench-bulk',
  paced: 'bench-paced',
  slow: 'bench-slow',
} as const

export type Kind = keyof typeof MODELS

export const BURST_EVENTS = 64
/** Bursts in one stream. A bulk stream has so many that the cost of the request does not matter. */
export const BURSTS = { burst: 1, bulk: 16 } as const

/** Events of a paced stream, which the provider sends one by one. */
export interface Pace {
  readonly everyMs: number
}

export const PACES: Readonly<Record<'paced' | 'slow', Pace>> = { paced: { everyMs: 20 }, slow: { everyMs: 1000 } }

const ENVELOPE =
  '{"id":"chatcmpl-bench0123456789abcdef","object":"chat.completion.chunk","created":1763650000,"model":"bench-upstream",'
const BEFORE = `data: ${ENVELOPE}"choices":[{"index":0,"delta":{"content":"`
const AFTER = '"},"logprobs":null,"finish_reason":null}]}\n\n'

export const ROLE_EVENT =
  `data: ${ENVELOPE}"choices":[{"index":0,"delta":{"role":"assistant","content":""},` +
  '"logprobs":null,"finish_reason":null}]}\n\n'

export const LAST_EVENTS =
  `data: ${ENVELOPE}"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n` +
  `data: ${ENVELOPE}"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":64,"total_tokens":76}}\n\n` +
  'data: [DONE]\n\n'

/** The text of one event: its number in the stream and the microsecond at which it was sent, both of fixed width. */
export function pacedEvent(sequence: number): string {
  return `${BEFORE}${String(sequence).padStart(6, '0')} ${nowMicroseconds()} ${AFTER}`
}

/** Microseconds of a clock that all processes of the machine share, 16 digits. */
export function nowMicroseconds(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000)
}

export const PACED_TEXT = /^(\d{6}) (\d{16}) $/

const WORDS = [
  'The ',
  'weir ',
  'measures ',
  'and ',
  'holds ',
  'back ',
  'a ',
  'flow',
  '. ',
  'It ',
  'does ',
  'not ',
  'stop ',
  'it',
  ', ',
  'ever',
  '.\\n',
]
const word = (n: number) => WORDS[n % WORDS.length] ?? ''

function burst(from: number): string {
  return Array.from({ length: BURST_EVENTS }, (_, at) => `${BEFORE}${word(from + at)}${AFTER}`).join('')
}

export const BURST_CHUNKS = Array.from({ length: BURSTS.bulk }, (_, at) => burst(at * BURST_EVENTS))

/** The text of a stream of `bursts` bursts. */
function burstText(bursts: number): string {
  return JSON.parse(`"${Array.from({ length: bursts * BURST_EVENTS }, (_, at) => word(at)).join('')}"`)
}

export const BURST_TEXTS = { burst: burstText(BURSTS.burst), bulk: burstText(BURSTS.bulk) } as const

export const JSON_TEXT = 'The weir measures and holds back a flow.'

export const JSON_BODY = JSON.stringify({
  id: 'chatcmpl-bench0123456789abcdef',
  object: 'chat.completion',
  created: 1763650000,
  model: 'bench-upstream',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: JSON_TEXT, refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 },
})
