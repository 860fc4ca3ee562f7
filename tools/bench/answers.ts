/** The bytes of the simulated providers, which a gateway must deliver, and the text that a caller reads in them. */

import { BURST_EVENTS, BURSTS, type BurstKind, nowMicroseconds, type ProviderName } from './traffic.ts'

/** What a provider sends: a whole answer, and the events of a stream. */
interface AnswerFormat {
  /** Sent as soon as the request has arrived. */
  readonly first: string
  /** An event with text, which is JSON-escaped already. `at` counts the events of a stream. */
  readonly event: (text: string, at: number) => string
  readonly last: string
  readonly json: string
  /** Before all else of a stream with thoughts, an event of a thought, and what stands between thoughts and text. */
  readonly thoughts?: {
    readonly first: string
    readonly event: (text: string) => string
    readonly end: string
  }
}

export const JSON_TEXT = 'The weir measures and holds back a flow.'

const CHUNK =
  '{"id":"chatcmpl-bench0123456789abcdef","object":"chat.completion.chunk","created":1763650000,"model":"upstream-1",'

/** `obfuscation`: a further member of every event with a choice. */
function chatFormat(obfuscation: (at: number) => string): AnswerFormat {
  const choice = (delta: string, finish: string, at: number) =>
    `data: ${CHUNK}"choices":[{"index":0,"delta":{${delta}},"logprobs":null,"finish_reason":${finish}}]` +
    `${obfuscation(at)}}\n\n`
  return {
    first: choice('"role":"assistant","content":""', 'null', 0),
    event: (text, at) => choice(`"content":"${text}"`, 'null', at + 1),
    thoughts: {
      first: '',
      event: (text) => choice(`"content":null,"reasoning_content":"${text}"`, 'null', 1),
      end: '',
    },
    last:
      `${choice('', '"stop"', 1)}data: ${CHUNK}"choices":[],` +
      '"usage":{"prompt_tokens":12,"completion_tokens":64,"total_tokens":76}}\n\ndata: [DONE]\n\n',
    json: JSON.stringify({
      id: 'chatcmpl-bench0123456789abcdef',
      object: 'chat.completion',
      created: 1763650000,
      model: 'upstream-1',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: JSON_TEXT, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 },
    }),
  }
}

const RESPONSES_ITEM = 'msg_bench0123456789abcdef0123456789abcdef0123456789ab'

/** Letters whose number differs from event to event in a fixed, irregular order, as OpenAI pads its events. */
function letters(at: number): string {
  const length = 1 + ((at * 7919 + 13) % 17)
  return 'kQ3vXz9LmT4pWs8RbN2yHc6'.slice(at % 6, (at % 6) + length)
}

const obfuscation = (at: number) => `,"usage":null,"obfuscation":"${letters(at)}"`

const named = <T extends { readonly type: string }>(data: T) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

/** As many characters as a burst has: the text is repeated at its end, by its part, its item and the answer. */
const REPEATED = JSON_TEXT.repeat(9)

function responsesAnswer(status: string, text: string | undefined, outputTokens: number) {
  const content = [{ type: 'output_text', annotations: [], logprobs: [], text }]
  const item = { id: RESPONSES_ITEM, type: 'message', status: 'completed', content, role: 'assistant' }
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } }
  return {
    ...{ id: 'resp_bench0123456789abcdef', object: 'response', created_at: 1763650000, status, error: null },
    ...{ incomplete_details: null, instructions: null, max_output_tokens: null, model: 'upstream-1' },
    output: text === undefined ? [] : [item],
    ...{ parallel_tool_calls: true, previous_response_id: null, reasoning: { effort: 'low', summary: null } },
    ...{
      service_tier: 'default',
      store: false,
      temperature: 1,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
    },
    ...{ tools: [], top_logprobs: 0, top_p: 1, truncation: 'disabled' },
    usage:
      text === undefined
        ? null
        : { input_tokens: 12, output_tokens: outputTokens, total_tokens: 12 + outputTokens, ...details },
    ...{ user: null, metadata: {} },
  }
}

const ofItem = { item_id: RESPONSES_ITEM, output_index: 0 }
const ofPart = { ...ofItem, content_index: 0 }
const textPart = (text: string) => ({ type: 'output_text', annotations: [], logprobs: [], text })

const responses: AnswerFormat = {
  first:
    named({ type: 'response.created', response: responsesAnswer('in_progress', undefined, 0), sequence_number: 0 }) +
    named({
      type: 'response.in_progress',
      response: responsesAnswer('in_progress', undefined, 0),
      sequence_number: 1,
    }) +
    named({
      type: 'response.output_item.added',
      item: { type: 'message', content: [] },
      ...ofItem,
      sequence_number: 2,
    }) +
    named({ type: 'response.content_part.added', ...ofPart, part: textPart(''), sequence_number: 3 }),
  event: (text, at) =>
    'event: response.output_text.delta\n' +
    `data: {"type":"response.output_text.delta","content_index":0,"delta":"${text}","item_id":"${RESPONSES_ITEM}",` +
    `"logprobs":[],"obfuscation":"${letters(at)}","output_index":0,"sequence_number":${at + 4}}\n\n`,
  last:
    named({ type: 'response.output_text.done', ...ofPart, logprobs: [], text: REPEATED, sequence_number: 68 }) +
    named({ type: 'response.content_part.done', ...ofPart, part: textPart(REPEATED), sequence_number: 69 }) +
    named({
      ...{ type: 'response.output_item.done', output_index: 0, sequence_number: 70 },
      item: responsesAnswer('completed', REPEATED, 64).output[0],
    }) +
    named({ type: 'response.completed', response: responsesAnswer('completed', REPEATED, 64), sequence_number: 71 }),
  json: JSON.stringify(responsesAnswer('completed', JSON_TEXT, 9)),
}

const messageStart = named({
  type: 'message_start',
  message: {
    id: 'msg_bench0123456789abcdef',
    type: 'message',
    role: 'assistant',
    model: 'upstream-1',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 1 },
  },
})
const textStart = named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } })
const thinkingDelta = (delta: object) => named({ type: 'content_block_delta', index: 1, delta })

const anthropic: AnswerFormat = {
  first: messageStart + textStart + named({ type: 'ping' }),
  thoughts: {
    first: named({
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'thinking', thinking: '', signature: '' },
    }),
    event: (text) => thinkingDelta({ type: 'thinking_delta', thinking: JSON.parse(`"${text}"`) }),
    end:
      thinkingDelta({ type: 'signature_delta', signature: 'c2lnbmF0dXJl'.repeat(30) }) +
      named({ type: 'content_block_stop', index: 1 }) +
      textStart,
  },
  event: (text) =>
    'event: content_block_delta\n' +
    `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"${text}"}}\n\n`,
  last:
    named({ type: 'content_block_stop', index: 0 }) +
    named({
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: { output_tokens: 64 },
    }) +
    named({ type: 'message_stop' }),
  json: JSON.stringify({
    id: 'msg_bench0123456789abcdef',
    type: 'message',
    role: 'assistant',
    model: 'upstream-1',
    content: [{ type: 'text', text: JSON_TEXT }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 9 },
  }),
}

/** Gemini reports its usage in every event. */
const geminiEvent = (text: string, tokens: number, finish = '') =>
  `data: {"candidates":[{"content":{"parts":[{"text":"${text}"}],"role":"model"},${finish}"index":0}],` +
  `"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":${tokens},"totalTokenCount":${12 + tokens},` +
  '"promptTokensDetails":[{"modality":"TEXT","tokenCount":12}]},"modelVersion":"upstream-1","responseId":"bench01"}\r\n\r\n'

const gemini: AnswerFormat = {
  first: '',
  event: (text, at) => geminiEvent(text, at + 1),
  last: geminiEvent('', 64, '"finishReason":"STOP",'),
  json: JSON.stringify({
    candidates: [{ content: { parts: [{ text: JSON_TEXT }], role: 'model' }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 9, totalTokenCount: 21 },
    modelVersion: 'upstream-1',
    responseId: 'bench01',
  }),
}

const bedrock: AnswerFormat = {
  first: '',
  event: () => '',
  last: '',
  json: JSON.stringify({
    output: { message: { role: 'assistant', content: [{ text: JSON_TEXT }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 12, outputTokens: 9, totalTokens: 21 },
  }),
}

export const ANSWERS: Readonly<Record<ProviderName, AnswerFormat>> = {
  openai: chatFormat(() => ''),
  obfuscated: chatFormat(obfuscation),
  responses,
  anthropic,
  gemini,
  bedrock,
}

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
const word = (at: number) => WORDS[at % WORDS.length] ?? ''

/** The events of one burst, each as the provider writes it. */
export function burstOf(provider: ProviderName, burst: number): readonly string[] {
  const { event } = ANSWERS[provider]
  const from = burst * BURST_EVENTS
  return Array.from({ length: BURST_EVENTS }, (_, at) => event(word(from + at), from + at))
}

/** A burst of thoughts. Its first piece has what comes before them, its last what comes after. */
export function thoughtsOf(provider: ProviderName): readonly string[] {
  const { thoughts } = ANSWERS[provider]
  if (thoughts === undefined) return []
  const events = Array.from({ length: BURST_EVENTS }, (_, at) => thoughts.event(word(at)))
  return [thoughts.first, ...events, thoughts.end].filter((piece) => piece !== '')
}

/** The text of a stream of `bursts` bursts. */
function burstText(bursts: number): string {
  return JSON.parse(`"${Array.from({ length: bursts * BURST_EVENTS }, (_, at) => word(at)).join('')}"`)
}

export const BURST_TEXTS: Readonly<Record<BurstKind, string>> = {
  burst: burstText(BURSTS.burst),
  bulk: burstText(BURSTS.bulk),
  thoughts: burstText(BURSTS.thoughts),
}

/** The text of a paced event: its number in the stream and the microsecond at which it was sent, of fixed width. */
export function pacedText(sequence: number): string {
  return `${String(sequence).padStart(6, '0')} ${nowMicroseconds()} `
}

/** The length of a paced event's text. */
export const PACED_TEXT_LENGTH = 24
