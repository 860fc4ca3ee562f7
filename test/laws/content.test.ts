/**
 * Documents and images wherever callers of native mode send them: every dialect, in a message of the user and in the
 * result of a tool, to every provider, in the form of its API; and what is wrong with one is a 400 that names it.
 */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { objectOf } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { atOnce } from '../support/literal.ts'
import {
  base64,
  bodyOf,
  DIALECTS,
  document,
  FIRST,
  type Kind,
  NATIVE,
  OF_PARTS,
  PARTS,
  PDF,
  PICTURE,
  type Place,
  PNG,
  PROVIDERS,
  read,
  STRICT,
  URL,
  WHOLE,
} from './content-bodies.ts'

/** The form of each kind in a provider's body, without cache marks; undefined if the API has none. */
const FORMS: Readonly<Record<string, (kind: Kind, from: DialectName) => JsonObject | undefined>> = {
  anthropic: anthropicForm,
  vertexClaude: (kind) => (kind === 'documentAt' || kind === 'imageAt' ? undefined : anthropicForm(kind)),
  chat(kind, from) {
    if (kind === 'documentAt') return undefined
    // The nearest of `original`.
    if (kind === 'image' && from === 'responses')
      return { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'high' } }
    return kind === 'text' ? { type: 'text', text: 'Lorem "ipsum"' } : PARTS.chat[kind]
  },
  responses(kind, from) {
    if (kind === 'text') return { type: 'input_text', text: 'Lorem "ipsum"' }
    const { detail: _, ...part } = PARTS.responses[kind] ?? {}
    if (kind === 'image') return { ...part, detail: from === 'responses' ? 'original' : 'auto' }
    if (kind === 'imageAt') return { ...part, detail: 'auto' }
    return kind === 'documentAt' && from !== 'responses' ? { ...part, filename: 'document.pdf' } : part
  },
  gemini(kind) {
    const forms: Record<Kind, JsonObject> = {
      pdf: { inlineData: { mimeType: 'application/pdf', data: PDF } },
      image: { inlineData: { mimeType: 'image/png', data: PNG } },
      documentAt: { fileData: { mimeType: 'application/pdf', fileUri: URL } },
      imageAt: { fileData: { mimeType: 'image/png', fileUri: PICTURE } },
      text: { text: 'Lorem "ipsum"' },
      csv: { inlineData: { mimeType: 'text/csv', data: 'YSxi' } },
    }
    return forms[kind]
  },
  bedrock(kind) {
    const text = Buffer.from('Lorem "ipsum"').toString('base64')
    const forms: Partial<Record<Kind, JsonObject>> = {
      pdf: { document: { format: 'pdf', name: 'a pdf', source: { bytes: PDF } } },
      image: { image: { format: 'png', source: { bytes: PNG } } },
      text: { document: { format: 'txt', name: 'document', source: { bytes: text } } },
      csv: { document: { format: 'csv', name: 'a csv', source: { bytes: 'YSxi' } } },
    }
    return forms[kind]
  },
}

function anthropicForm(kind: Kind): JsonObject | undefined {
  if (kind !== 'csv') return PARTS.messages[kind]
  return { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' }, title: 'a.csv' }
}

function sent(provider: string, dialect: DialectName, body: JsonObject): JsonObject {
  const model = provider === 'vertexClaude' ? 'claude-sonnet-4-5' : 'some-model'
  const request = PROVIDERS[provider]?.request(read(dialect, body), {
    model,
    endpoint: endpoint({ api: provider === 'responses' ? 'responses' : 'chat', project: 'p', location: 'r' }),
  })
  return objectOf(request?.body ?? '')
}

function failureOf(run: () => unknown): unknown {
  try {
    run()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

/** Every object within a value. */
function objectsIn(value: JsonValue | undefined): readonly JsonObject[] {
  if (isArray(value)) return value.flatMap(objectsIn)
  return isObject(value) ? [value, ...Object.values(value).flatMap(objectsIn)] : []
}

const CASES = Object.entries(PARTS).flatMap(([dialect, parts]) =>
  Object.entries(parts).flatMap(([kind, part]) =>
    (['user', 'result'] as const).map((place) => [dialect, kind, place, part] as const),
  ),
)

describe.each(CASES)('%s: %s in a message or result: %s', (dialectName, kindName, place, part) => {
  const dialect = dialectName as DialectName
  const kind = kindName as Kind
  test.each(Object.keys(PROVIDERS))('to %s', (provider) => {
    const body = bodyOf(dialect, place, part)
    const form = FORMS[provider]?.(kind, dialect)
    if (form === undefined) {
      const error = failureOf(() => sent(provider, dialect, body))
      if (!(error instanceof ProviderError)) throw error
      expect([error.kind, error.detail.unsent]).toEqual(['rejected', true])
      return
    }
    expect(objectsIn(sent(provider, dialect, body))).toContainEqual(form)
  })
})

const paths = (dialect: DialectName, place: Place) => {
  const result = { chat: 'messages[2].content[1]', messages: 'messages[2].content[0].content[1]' }
  if (dialect === 'responses') return place === 'user' ? 'input[0].content[1]' : 'input[2].output[1]'
  return place === 'user' ? 'messages[0].content[1]' : result[dialect]
}

const file = (more: JsonObject) => ({ type: 'input_file', ...more })
const picture = (image_url: JsonValue) => ({ type: 'input_image', image_url })

/** What is wrong with a part, and the field that the error names. */
const WRONG: readonly (readonly [dialect: DialectName, part: JsonObject, field: string])[] = [
  ['messages', { type: 'document' }, '.source'],
  ['messages', document('x'), '.source'],
  ['messages', document({}), '.source.type'],
  ['messages', document({ type: 'file', file_id: 'file_1' }), '.source.type'],
  ['messages', document({ ...base64, data: 'not base64!' }), '.source.data'],
  ['messages', document({ ...base64, data: `${PDF}=` }), '.source.data'],
  ['messages', document({ ...base64, data: '' }), '.source.data'],
  ['messages', document({ ...base64, data: 7 }), '.source.data'],
  ['messages', document({ ...base64, media_type: 'image/png' }), '.source.media_type'],
  ['messages', document({ ...base64, media_type: null }), '.source.media_type'],
  ['messages', document({ type: 'text', media_type: 'text/html', data: 'x' }), '.source.media_type'],
  ['messages', document({ type: 'text', media_type: 'text/plain', data: ['x'] }), '.source.data'],
  ['messages', document({ type: 'url', url: 'http://example.com/a.pdf' }), '.source.url'],
  ['messages', document({ type: 'url', url: 'https://169.254.169.254/latest' }), '.source.url'],
  ['messages', document({ type: 'url', url: 'https://[::1]/a' }), '.source.url'],
  ['messages', document({ type: 'url', url: 'https://u:p@example.com/a' }), '.source.url'],
  ['messages', document({ type: 'url', url: 'file:///etc/passwd' }), '.source.url'],
  ['messages', document({ type: 'content', content: [] }), '.source.content'],
  ['messages', document({ type: 'content', content: [{ type: 'text', text: '' }] }), '.source.content'],
  ['messages', document({ type: 'content', content: [document(base64)] }), '.source.content[0].type'],
  ['messages', document({ type: 'content', content: 7 }), '.source.content'],
  ['messages', document(base64, { title: 7 }), '.title'],
  ['messages', document(base64, { title: 'x'.repeat(2000) }), '.title'],
  ['messages', document(base64, { context: [] }), '.context'],
  ['messages', document(base64, { citations: 'on' }), '.citations'],
  ['messages', document(base64, { citations: { enabled: 'yes' } }), '.citations.enabled'],
  ['messages', { type: 'image', source: { type: 'url', url: 'https://10.0.0.1/a.png' } }, '.source.url'],
  ['messages', { type: 'image', source: { type: 'file', file_id: 'x' } }, '.source.type'],
  ['responses', file({}), '.file_data'],
  ['responses', file({ file_id: 'file-1' }), '.file_id'],
  ['responses', file({ file_url: 'http://example.com/a.pdf' }), '.file_url'],
  ['responses', file({ file_url: 'https://localhost/a.pdf' }), '.file_url'],
  ['responses', file({ file_data: 'data:application/pdf;base64,???' }), '.file_data'],
  ['responses', file({ file_data: 'data:image/png;base64,AAAA' }), '.file_data'],
  ['responses', file({ file_data: 'AAAA' }), '.file_data'],
  ['responses', file({ file_data: 5 }), '.file_data'],
  ['responses', picture(undefined as unknown as JsonValue), '.image_url'],
  ['responses', { type: 'input_image', file_id: 'file-1' }, '.file_id'],
  ['responses', picture('http://example.com/a.png'), '.image_url'],
  ['responses', picture('https://192.168.0.1/a.png'), '.image_url'],
  ['responses', picture('data:application/pdf;base64,AAAA'), '.image_url'],
  ['responses', picture('data:image/png;base64,A'), '.image_url'],
  ['chat', { type: 'file', file: { file_id: 'file-1' } }, '.file.file_data'],
  ['chat', { type: 'file', file: { filename: 'a.pdf', file_data: 'https://example.com/a.pdf' } }, '.file.file_data'],
  ['chat', { type: 'file', file: { filename: 'a', file_data: 'AAAA' } }, '.file.file_data'],
]

test.each(WRONG)('%s: %j is an error of %s', (dialect, part, field) => {
  for (const place of ['user', 'result'] as const) {
    const error = failureOf(() => read(dialect, bodyOf(dialect, place, part)))
    if (!(error instanceof CallerError)) throw error
    expect([error.status, error.detail.param]).toEqual([400, paths(dialect, place) + field])
  }
})

test('by the specification documents are rejected or ignored as they were', () => {
  for (const place of ['user', 'result'] as const) {
    const { pdf = {}, image = {}, imageAt = {} } = PARTS.messages
    for (const part of place === 'user' ? [pdf, imageAt] : [pdf, imageAt, image])
      expect(() => read('messages', bodyOf('messages', place, part), STRICT)).toThrow('Unsupported Anthropic content')
    for (const part of Object.values(PARTS.responses)) {
      const request = read('responses', bodyOf('responses', place, part), STRICT)
      const bare = read('responses', bodyOf('responses', place, { type: 'input_text', text: '' }), STRICT)
      const bodies = [request, bare].map((one) => objectOf(anthropic.request(one, target).body))
      expect(bodies[0]).toEqual(bodies[1] ?? {})
    }
  }
  expect(() => read('chat', bodyOf('chat', 'result', PARTS.chat.image ?? {}), STRICT)).toThrow("must be 'text'")
  expect(() => anthropic.request(read('chat', bodyOf('chat', 'user', PARTS.chat.pdf ?? {}), STRICT), target)).toThrow(
    'not parts of type',
  )
})

const target = { model: 'some-model', endpoint: endpoint() }

test('name, context, citations and cache marks of a document, and one of texts and images', () => {
  const bodies = (part: JsonObject) =>
    Object.fromEntries(
      Object.keys(PROVIDERS).map((name) => [name, objectsIn(sent(name, 'messages', bodyOf('messages', 'user', part)))]),
    )
  const whole = bodies(WHOLE)
  expect(whole['anthropic']).toContainEqual(WHOLE)
  expect(whole['bedrock']).toContainEqual({
    document: {
      ...{ format: 'pdf', name: 'Report Q3 2026', source: { bytes: PDF } },
      ...{ context: 'From the archive.', citations: { enabled: true } },
    },
  })
  expect(whole['bedrock']).toContainEqual({ cachePoint: { type: 'default', ttl: '1h' } })
  const mark = { cache_control: { type: 'ephemeral', ttl: '1h' } }
  const data = { filename: 'Report: "Q3"/2026', file_data: `data:application/pdf;base64,${PDF}` }
  expect(whole['chat']).toContainEqual({ type: 'text', text: 'From the archive.' })
  expect(whole['chat']).toContainEqual({ type: 'file', file: data, ...mark })
  expect(whole['responses']).toContainEqual({ type: 'input_file', ...data, ...mark })
  expect(whole['gemini']).toContainEqual({ text: '[document: Report: "Q3"/2026]\nFrom the archive.' })

  const parts = bodies(OF_PARTS)
  const own = { source: { type: 'content', content: [...FIRST, { type: 'text', text: 'Two.' }] } }
  expect(parts['anthropic']).toContainEqual({ ...OF_PARTS, ...own, cache_control: { type: 'ephemeral' } })
  for (const name of ['gemini', 'bedrock']) {
    expect(parts[name]).toContainEqual({ text: '[document: Notes]' })
    expect(parts[name]).toContainEqual({ text: 'Two.' })
  }
  for (const name of ['chat', 'responses']) expect(JSON.stringify(parts[name])).toContain('"text":"Two."')
})

test('results of tools keep their documents in their place, or right after all results', () => {
  const { pdf = {} } = PARTS.messages
  const body = bodyOf('messages', 'result', pdf)
  const { messages: turns } = sent('chat', 'messages', body)
  const file = PARTS.chat.pdf
  expect(isArray(turns) ? turns.slice(2) : []).toEqual([
    { role: 'tool', tool_call_id: 'call_1', content: 'See:' },
    { role: 'user', content: [file ?? {}, { type: 'text', text: 'And?' }] },
  ])
  const { input } = sent('responses', 'messages', body)
  expect(isArray(input) ? input.slice(2) : []).toEqual([
    {
      ...{ type: 'function_call_output', call_id: 'call_1' },
      output: [{ type: 'input_text', text: 'See:' }, PARTS.responses.pdf ?? {}],
    },
    { role: 'user', content: 'And?' },
  ])
  const { contents } = sent('gemini', 'messages', body)
  const parts = isArray(contents) && isObject(contents[2]) ? contents[2]['parts'] : undefined
  expect(parts).toMatchObject([
    { functionResponse: { name: 'read', response: { result: 'See:' } } },
    { text: '[document: a.pdf]' },
    { inlineData: { mimeType: 'application/pdf' } },
    { text: 'And?' },
  ])
  const [question = {}, call = {}, { content = [] } = {}] = body['messages'] as JsonObject[]
  const [result = {}] = isArray(content) ? content : []
  const alone = { ...body, messages: [question, call, { role: 'user', content: [result] }] }
  const { messages: ended } = sent('chat', 'messages', alone)
  expect(isArray(ended) ? ended.at(-1) : undefined).toEqual({ role: 'user', content: [file ?? {}] })
  expect(objectsIn(sent('gemini', 'messages', alone))).toContainEqual({ text: '[document: a.pdf]' })
})

test('documents on Bedrock have names that it takes, each once, and a text beside them', () => {
  const one = document(base64, { title: 'a/b.pdf' })
  const body = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: [one, one, document(base64)] }] }
  const [turn] = sent('bedrock', 'messages', body)['messages'] as JsonObject[]
  const content = (turn?.['content'] ?? []) as JsonObject[]
  const names = content.flatMap(({ document: found }) => (isObject(found) ? [found['name'] ?? ''] : []))
  expect(names).toEqual(['a b pdf', 'a b pdf 2', 'document'])
  expect(content.at(-1)).toEqual({ text: '.' })
})

test('escapes within base64 are read, and slashes may be written as PHP writes them', () => {
  const { pdf = {} } = PARTS.responses
  const text = JSON.stringify(bodyOf('responses', 'user', pdf))
    .replaceAll('/', '\\/')
    .replace('JVBER', '\\u004aVBER')
  const { read, unparsed } = DIALECTS.responses
  const { request } = atOnce(read(readRequestBody(Buffer.from(text), unparsed), NATIVE))
  const { body } = anthropic.request(request, target)
  expect(objectsIn(objectOf(body))).toContainEqual(PARTS.messages.pdf ?? {})
})

test('a PDF is estimated by its pages', () => {
  const tokens = (data: string) => {
    const part = document({ ...base64, data: Buffer.from(data).toString('base64') })
    return estimateInput(read('messages', bodyOf('messages', 'user', part)))
  }
  const bare = tokens('%PDF-1.7 nothing')
  expect(tokens('%PDF-1.4 /Type /Pages /Count 12 /Type/Page /Type /Page') - bare).toBeGreaterThan(11 * 2900)
  expect(tokens(`%PDF-1.4 ${'/Type /Page\n'.repeat(5)}`) - bare).toBeGreaterThan(4 * 2900)
  expect(tokens('%PDF-1.5 /Linearized 1 /L 99 /N 7 /T 3') - bare).toBeGreaterThan(6 * 2900)
  expect(tokens('%PDF-1.4 /Count 999999')).toBeLessThan(1001 * 3000 + bare)
  expect(tokens('%PDF-1.4 /Count 99999999999999999999')).toBeLessThan(2 * bare)
})

test('a file without a media type has the one of its name, or is a PDF by its first bytes', () => {
  const typeOf = (filename: string | null, data: string) => {
    const part = { type: 'input_file', filename, file_data: Buffer.from(data).toString('base64') }
    const { contents } = sent('gemini', 'responses', bodyOf('responses', 'user', part))
    return objectsIn(contents).flatMap(({ mimeType }) => mimeType ?? [])
  }
  expect(typeOf('main.py', 'print(1)')).toEqual(['text/plain'])
  expect(typeOf('a.CSV', 'a,b')).toEqual(['text/csv'])
  expect(typeOf('a.unknown', '%PDF-1.4')).toEqual(['application/pdf'])
  expect(typeOf(null, '%PDF-1.4')).toEqual(['application/pdf'])
  expect(() => typeOf('constructor', 'x')).toThrow('media type')
})
