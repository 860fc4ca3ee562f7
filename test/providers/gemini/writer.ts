/** Writes an answer as GenerateContent, streamed and whole. */

import type { JsonObject } from '../../../src/core/json.ts'
import { pieces, SPEECH_USAGE, type SpeechWriter, type Spoken } from '../../support/speech-writer.ts'

const { input, output } = SPEECH_USAGE
/** Gemini's finish reason is the same with and without calls. */
const GEMINI_FINISH = { stop: 'STOP', length: 'MAX_TOKENS', filter: 'SAFETY', calls: 'STOP' } as const
const GEMINI_USAGE = { promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output }

function geminiChunk(parts: readonly JsonObject[], more: JsonObject = {}, outer: JsonObject = {}): JsonObject {
  const content = parts.length > 0 ? { content: { role: 'model', parts } } : {}
  return { candidates: [{ index: 0, ...content, ...more }], modelVersion: 'up', ...outer }
}

const functionCall = ({ id, name, json }: Spoken) => ({ functionCall: { id, name, args: JSON.parse(json) } })

export const geminiWriter: SpeechWriter = {
  streamType: 'text/event-stream',
  streams: (call) => call.path.includes(':streamGenerateContent'),
  whole({ text, calls, finish }) {
    const texts = text === '' ? [] : [{ text }]
    const parts = [...texts, ...calls.map(functionCall)]
    return geminiChunk(parts, { finishReason: GEMINI_FINISH[finish] }, { usageMetadata: GEMINI_USAGE })
  },
  streamed({ text, calls, finish }) {
    const crlf = (chunk: JsonObject) => `data: ${JSON.stringify(chunk)}\r\n\r\n`
    return [
      ...pieces(text).map((piece) => crlf(geminiChunk([{ text: piece }]))),
      ...(calls.length > 0 ? [crlf(geminiChunk(calls.map(functionCall)))] : []),
      crlf(geminiChunk([], { finishReason: GEMINI_FINISH[finish] }, { usageMetadata: GEMINI_USAGE })),
    ]
  },
}
