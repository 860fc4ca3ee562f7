/** The requests of the bench in each dialect, and where the text is in their streams. */

import { type Kind, MODELS } from './sample-text.ts'

export const DIALECTS = ['chat', 'messages', 'responses'] as const

export type Dialect = (typeof DIALECTS)[number]

/** The request of one dialect, and how its streams are read. */
interface DialectFormat {
  readonly path: string
  /** The members of a request's body beside the model and `stream`, about 400 bytes of JSON. */
  readonly members: object
  /** Matches only events with text, directly before that text. */
  readonly before: RegExp
  /** Matches the last event of a complete stream. */
  readonly last: RegExp
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
    before: /"delta":\{(?:"role":"assistant",)?"content":"/,
    last: /^data: \[DONE\]$/,
  },
  messages: {
    path: '/v1/messages',
    members: {
      system: SYSTEM,
      messages: [{ role: 'user', content: QUESTION }],
      temperature: TEMPERATURE,
      max_tokens: LIMIT,
    },
    before: /^event: content_block_delta\n.*"delta":\{"type":"text_delta","text":"/,
    last: /^event: message_stop\n/,
  },
  responses: {
    path: '/v1/responses',
    members: {
      instructions: SYSTEM,
      input: QUESTION,
      temperature: TEMPERATURE,
      max_output_tokens: LIMIT,
    },
    before: /^event: response\.output_text\.delta\n.*"delta":"/,
    last: /^event: response\.completed\n.*"status":"completed"/,
  },
}

/** The path and the body of a request. */
export function requestOf(dialect: Dialect, kind: Kind): { readonly path: string; readonly body: string } {
  const { path, members } = FORMATS[dialect]
  return { path, body: JSON.stringify({ model: MODELS[kind], stream: kind !== 'json', ...members }) }
}

/** The text of one event (without its blank line); '' if it has none. The texts of the bench contain no quotes. */
export function textOf(dialect: Dialect, event: string): string {
  const match = FORMATS[dialect].before.exec(event)
  if (match === null) return ''
  const from = match.index + match[0].length
  return JSON.parse(`"${event.slice(from, event.indexOf('"', from))}"`)
}

/** True for the last event of a complete answer. */
export function isLast(dialect: Dialect, event: string): boolean {
  return FORMATS[dialect].last.test(event)
}
