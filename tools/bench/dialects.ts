/** The requests of the bench in each dialect, and where the text is in their answers. */

import { isArray, isObject } from '../../src/core/json.ts'
import { conversationOf } from './conversation.ts'
import { type Dialect, modelOf, SIZE_BYTES, type Traffic } from './traffic.ts'

/** The request of one dialect, and how its answers are read. */
interface DialectFormat {
  readonly path: string
  /** The members of a small request beside the model and `stream`, about 400 bytes of JSON. */
  readonly members: object
  /** Directly before the text of an event; also in events without text, which then has no letters. */
  readonly marker: string
  /** In the last event of a complete stream, and only there. */
  readonly last: string
  /** Where the text of a whole answer is. */
  readonly text: readonly (string | number)[]
}

const SYSTEM = 'You are a terse assistant. Answer in one sentence, in the language of the question, without lists.'
const QUESTION = 'What does a weir do, and why would anybody name a gateway after one?'
const TEMPERATURE = 0.2
const LIMIT = 2048

const FORMATS: Readonly<Record<Dialect, DialectFormat>> = {
  chat: {
    path: '/v1/chat/completions',
    members: {
      messages: [
        { role: 'system', content: SYSTEM },
        { role: 'user', content: QUESTION },
      ],
      temperature: TEMPERATURE,
      max_tokens: LIMIT,
    },
    marker: '"content":"',
    last: 'data: [DONE]',
    text: ['choices', 0, 'message', 'content'],
  },
  messages: {
    path: '/v1/messages',
    members: {
      system: SYSTEM,
      messages: [{ role: 'user', content: QUESTION }],
      temperature: TEMPERATURE,
      max_tokens: LIMIT,
    },
    marker: '"text":"',
    last: 'event: message_stop\n',
    text: ['content', 0, 'text'],
  },
  responses: {
    path: '/v1/responses',
    members: {
      instructions: SYSTEM,
      input: QUESTION,
      temperature: TEMPERATURE,
      max_output_tokens: LIMIT,
    },
    marker: '"delta":"',
    last: 'event: response.completed\n',
    text: ['output', 0, 'content', 0, 'text'],
  },
  gemini: {
    path: '/v1beta',
    members: {
      systemInstruction: { parts: [{ text: SYSTEM }] },
      contents: [{ role: 'user', parts: [{ text: QUESTION }] }],
      generationConfig: { temperature: TEMPERATURE, maxOutputTokens: LIMIT },
    },
    marker: '"text":"',
    last: '"finishReason":"STOP"',
    text: ['candidates', 0, 'content', 'parts', 0, 'text'],
  },
  bedrock: {
    path: '/model',
    members: {
      system: [{ text: SYSTEM }],
      messages: [{ role: 'user', content: [{ text: QUESTION }] }],
      inferenceConfig: { temperature: TEMPERATURE, maxTokens: LIMIT },
    },
    marker: '"text":"',
    last: '',
    text: ['output', 'message', 'content', 0, 'text'],
  },
}

/** What asks for thoughts. */
const THINKING: Partial<Readonly<Record<Dialect, object>>> = {
  chat: { reasoning_effort: 'low' },
  messages: { thinking: { type: 'enabled', budget_tokens: 1024 } },
}

/** The path and the body of a request in `dialect`. */
export function requestOf(dialect: Dialect, { kind, provider, size }: Traffic) {
  const { path, members } = FORMATS[dialect]
  const rest = size === 'small' ? members : conversationOf(dialect, SIZE_BYTES[size])
  const thinking = kind === 'thoughts' ? THINKING[dialect] : undefined
  return {
    path,
    body: JSON.stringify({ model: modelOf(kind, provider), stream: kind !== 'json', ...rest, ...thinking }),
  }
}

/** The text of a stream. The texts of the bench contain no quotes. */
export function textOfStream(dialect: Dialect, stream: string): string {
  const { marker } = FORMATS[dialect]
  const texts: string[] = []
  for (let at = stream.indexOf(marker); at !== -1; at = stream.indexOf(marker, at + 1))
    texts.push(stream.slice(at + marker.length, stream.indexOf('"', at + marker.length)))
  return JSON.parse(`"${texts.join('')}"`)
}

/** True if `stream` has the last event of a complete stream and ends with it. */
export function isWhole(dialect: Dialect, stream: string): boolean {
  const at = stream.lastIndexOf(FORMATS[dialect].last)
  const end = /\n\r?\n/g
  end.lastIndex = at
  return at !== -1 && end.test(stream) && end.lastIndex === stream.length
}

/** Finds the texts of a paced stream. */
export function markerOf(dialect: Dialect): string {
  return FORMATS[dialect].marker
}

/** The text of a whole answer; undefined if it has none. */
export function textOfAnswer(dialect: Dialect, body: string): unknown {
  let value: unknown = JSON.parse(body)
  for (const step of FORMATS[dialect].text) {
    if (typeof step === 'number') value = isArray(value) ? value[step] : undefined
    else value = isObject(value) ? value[step] : undefined
  }
  return value
}
