/** Writes an answer as Converse, streamed and whole. */

import { EventStreamCodec } from '@smithy/eventstream-codec'
import type { JsonObject } from '../../../src/core/json.ts'
import { pieces, SPEECH_USAGE, type SpeechWriter } from '../../support/speech-writer.ts'

const { input, output } = SPEECH_USAGE
const CONVERSE_FINISH = { stop: 'end_turn', length: 'max_tokens', filter: 'guardrail_intervened', calls: 'tool_use' }
const CONVERSE_USAGE = { inputTokens: input, outputTokens: output, totalTokens: input + output }
const codec = new EventStreamCodec(
  (bytes) => new TextDecoder().decode(bytes),
  (text) => new TextEncoder().encode(text),
)

/** One frame of the binary event stream, which ends it if it is an exception. */
export function frame(type: string, payload: JsonObject, kind: 'event' | 'exception' = 'event'): Uint8Array {
  const word = (value: string) => ({ type: 'string' as const, value })
  return codec.encode({
    headers: {
      [`:${kind}-type`]: word(type),
      ':content-type': word('application/json'),
      ':message-type': word(kind),
    },
    body: new TextEncoder().encode(JSON.stringify(payload)),
  })
}

/** Events of Anthropic's as InvokeModelWithResponseStream sends them: each in base64, without its name. */
export function invoked(events: readonly string[]): Uint8Array[] {
  return events.map((event) => {
    const data = /^data: (.*)$/m.exec(event)?.[1] ?? ''
    return frame('chunk', { bytes: Buffer.from(data).toString('base64'), p: 'abcdefghij'.slice(0, event.length % 10) })
  })
}

export const bedrockWriter: SpeechWriter = {
  streamType: 'application/vnd.amazon.eventstream',
  streams: (call) => call.path.endsWith('/converse-stream'),
  whole({ text, calls, finish }) {
    const texts = text === '' ? [] : [{ text }]
    const used = calls.map(({ id, name, json }) => ({ toolUse: { toolUseId: id, name, input: JSON.parse(json) } }))
    const message = { role: 'assistant', content: [...texts, ...used] }
    return { output: { message }, stopReason: CONVERSE_FINISH[finish], usage: CONVERSE_USAGE }
  },
  streamed({ text, calls, finish }) {
    const delta = (contentBlockIndex: number, what: JsonObject) =>
      frame('contentBlockDelta', { contentBlockIndex, delta: what })
    const texts = pieces(text).map((piece) => delta(0, { text: piece }))
    const used = calls.flatMap(({ id, name, json }, at) => {
      const contentBlockIndex = at + (text === '' ? 0 : 1)
      return [
        frame('contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } }),
        ...pieces(json).map((piece) => delta(contentBlockIndex, { toolUse: { input: piece } })),
        frame('contentBlockStop', { contentBlockIndex }),
      ]
    })
    return [
      frame('messageStart', { role: 'assistant' }),
      ...texts,
      ...(texts.length > 0 ? [frame('contentBlockStop', { contentBlockIndex: 0 })] : []),
      ...used,
      frame('messageStop', { stopReason: CONVERSE_FINISH[finish] }),
      frame('metadata', { usage: CONVERSE_USAGE, metrics: { latencyMs: 1 } }),
    ]
  },
}
