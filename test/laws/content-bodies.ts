/** Bodies with documents and images in each dialect, and what reads and writes them. */

import { compatibilityOf } from '../../src/core/compatibility.ts'
import type { JsonObject, JsonValue } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Caller, Dialect, DialectName } from '../../src/dialects/dialect.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { dialect as responses } from '../dialects/responses/setting.ts'
import { openaiResponses } from '../providers/openai/dialect.ts'
import { atOnce } from '../support/literal.ts'

export const NATIVE: Caller = { organization: 'acme', compatibility: compatibilityOf({ content: 'pass' }) }
export const STRICT: Caller = { organization: 'acme', compatibility: compatibilityOf({}) }
export const PDF = Buffer.from('%PDF-1.4\n1 0 obj<</Type /Pages /Count 3>>endobj\n%%EOF').toString('base64')
export const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
export const URL = 'https://example.com/a.pdf'
export const PICTURE = 'https://example.com/a.png'

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  chat: chat({ imageUrls: 'public' }),
  messages: messages({ toolResultImages: 'refuse' }),
  responses,
}

/** A part that a caller sends, by dialect, if it has such parts. */
export type Kind = 'pdf' | 'image' | 'documentAt' | 'imageAt' | 'text' | 'csv'
export const PARTS: Readonly<Record<DialectName, Partial<Record<Kind, JsonObject>>>> = {
  chat: {
    pdf: { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` } },
    image: { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
    imageAt: { type: 'image_url', image_url: { url: PICTURE } },
    csv: { type: 'file', file: { filename: 'a.csv', file_data: 'data:text/csv;base64,YSxi' } },
  },
  messages: {
    pdf: { type: 'document', title: 'a.pdf', source: { type: 'base64', media_type: 'application/pdf', data: PDF } },
    image: { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
    documentAt: { type: 'document', source: { type: 'url', url: URL } },
    imageAt: { type: 'image', source: { type: 'url', url: PICTURE } },
    text: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Lorem "ipsum"' } },
  },
  responses: {
    pdf: { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
    image: { type: 'input_image', detail: 'original', image_url: `data:image/png;base64,${PNG}` },
    documentAt: { type: 'input_file', file_url: URL },
    imageAt: { type: 'input_image', image_url: PICTURE },
    csv: { type: 'input_file', filename: 'a.csv', file_data: 'data:text/csv;base64,YSxi' },
  },
}

export type Place = 'user' | 'result'

export function bodyOf(dialect: DialectName, place: Place, part: JsonObject): JsonObject {
  const schema = { type: 'object', properties: {} }
  switch (dialect) {
    case 'chat': {
      const call = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{}' } }
      const text = { type: 'text', text: 'See:' }
      const last =
        place === 'user'
          ? [{ role: 'user', content: [text, part] }]
          : [
              { role: 'user', content: 'Read it.' },
              { role: 'assistant', content: null, tool_calls: [call] },
              { role: 'tool', tool_call_id: 'call_1', content: [text, part] },
              { role: 'user', content: 'And?' },
            ]
      const tools = [{ type: 'function', function: { name: 'read', parameters: schema } }]
      return { model: 'm', messages: last, tools }
    }
    case 'messages': {
      const text = { type: 'text', text: 'See:' }
      const result = { type: 'tool_result', tool_use_id: 'call_1', content: [text, part] }
      const turns =
        place === 'user'
          ? [{ role: 'user', content: [text, part] }]
          : [
              { role: 'user', content: 'Read it.' },
              { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'read', input: {} }] },
              { role: 'user', content: [result, { type: 'text', text: 'And?' }] },
            ]
      return { model: 'm', max_tokens: 9, messages: turns, tools: [{ name: 'read', input_schema: schema }] }
    }
    default: {
      const content = [{ type: 'input_text', text: 'See:' }, part]
      const input =
        place === 'user'
          ? [{ role: 'user', content }]
          : [
              { role: 'user', content: 'Read it.' },
              { type: 'function_call', call_id: 'call_1', name: 'read', arguments: '{}' },
              { type: 'function_call_output', call_id: 'call_1', output: content },
              { role: 'user', content: 'And?' },
            ]
      return { model: 'm', input, tools: [{ type: 'function', name: 'read', parameters: schema }] }
    }
  }
}

export const PROVIDERS: Readonly<Record<string, Provider>> = {
  anthropic,
  chat: openai,
  responses: openaiResponses,
  gemini,
  bedrock,
  vertexClaude,
}

export function read(dialect: DialectName, body: JsonObject, caller = NATIVE) {
  const { read: accept, unparsed } = DIALECTS[dialect]
  return atOnce(accept(readRequestBody(Buffer.from(JSON.stringify(body)), unparsed), caller)).request
}

export const document = (source: JsonValue, more: JsonObject = {}) => ({ type: 'document', source, ...more })
export const base64 = { type: 'base64', media_type: 'application/pdf', data: PDF }
export const WHOLE = document(base64, {
  title: 'Report: "Q3"/2026',
  context: 'From the archive.',
  citations: { enabled: true },
  cache_control: { type: 'ephemeral', ttl: '1h' },
})
export const FIRST = [{ type: 'text', text: 'One.' }, PARTS.messages.image ?? {}]
const MARKED = { type: 'text', text: 'Two.', cache_control: { type: 'ephemeral' } }
export const OF_PARTS = document({ type: 'content', content: [...FIRST, MARKED] }, { title: 'Notes' })
