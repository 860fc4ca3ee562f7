/** The bench's callers: how each dialect asks for the same answer, and where in its stream the text stands. */

import { type Kind, MODELS } from './sample-text.ts'

export const DIALECTS = ['chat', 'messages', 'responses'] as const

export type Dialect = (typeof DIALECTS)[number]

/** How the streams of one dialect are asked for and read. */
interface Way {
  readonly path: string
  /** The members of a request's body beside the model and `stream`, about 400 bytes of JSON. */
  readonly members: object
  /** What stands in an event with text and in no other, right before that text. */
  readonly before: RegExp
  /** The last event of a whole stream. */
  readonly last: RegExp
}

const SYSTEM = 'You are a terse assistant. Answer in one sentence, in the language of the question, without lists.'
const QUESTION = 'What does a weir do, and why would anybody name a gateway after one?'
const TEMPERATURE = 0.2
const LIMIT = 2048

const WAYS: Readonly<Record<Dialect, Way>> = {
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

/** The path and the body of a request of the bench. */
export function requestOf(dialect: Dialect, kind: Kind): { readonly path: string; readonly body: string } {
  const { path, members } = WAYS[dialect]
  return { path, body: JSON.stringify({ model: MODELS[kind], stream: kind !== 'json', ...members }) }
}

/** The text of one event (without the blank line behind it); '' where it has none. The bench's texts hold no quotes. */
export function textOf(dialect: Dialect, event: string): string {
  const match = WAYS[dialect].before.exec(event)
  if (match === null) return ''
  const from = match.index + match[0].length
  return JSON.parse(`"${event.slice(from, event.indexOf('"', from))}"`)
}

/** Whether an event says that the answer is whole. */
export function isLast(dialect: Dialect, event: string): boolean {
  return WAYS[dialect].last.test(event)
}
