/**
 * Recorded sessions of coding agents in native mode (long texts cut): the provider's answers and what the agent sent
 * after each. What reaches the provider is what the agent sent, but for what the documentation names.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../src/core/json.ts'
import { KEY } from '../support/gateway.ts'
import { stream } from '../support/scenarios.ts'
import { served } from '../support/served.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/native')
/** In place of what the agent got from weir and sends back. */
const SEALED = 'sealed'

interface Session {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** The common part of all bodies. */
  readonly shared: JsonObject
  readonly turns: readonly JsonObject[]
  /** The blocks, or the items, of each answer of the provider. */
  readonly answers: readonly (readonly JsonObject[])[]
}

const own = { dialect: 'openai', api: 'responses' }
const names = ['claude-opus-4-8', 'claude-sonnet-4-5', 'gpt-5.5', 'gpt-6-sol']
const { upstream, gateway } = await served((url) => ({
  providers: {
    claude: { dialect: 'anthropic', base_url: url, api_key: 'secret-of-claude' },
    own: { ...own, base_url: `${url}/v1`, api_key: 'secret-of-openai' },
  },
  models: Object.fromEntries(
    names.map((name) => [
      name,
      {
        targets: [{ provider: name.startsWith('claude') ? 'claude' : 'own', model: name }],
        supports: ['tools', 'images'],
        max_output_tokens: 64_000,
        prompt_cache: { key: true, explicit: true, ttls: ['5m', '1h'] },
      },
    ]),
  ),
  config: { compatibility: { mode: 'native' } },
}))

const sessions = readdirSync(FOLDER).map((file) => file.replace('.json', ''))
const recorded = (name: string): Session => JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8'))
const frames = (events: readonly { readonly type: string }[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
const objects = (value: unknown): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])

/** A block as Anthropic streams it. */
function blockEvents(block: JsonObject, index: number) {
  const delta = (type: string, member: string, text: JsonValue | undefined) =>
    text === '' || text === undefined ? [] : [{ type: 'content_block_delta', index, delta: { type, [member]: text } }]
  const { type, text, thinking, signature, input } = block
  const blank = { text: '', thinking: '', signature: '', input: {} }
  const opening = Object.fromEntries(
    Object.entries(block).map(([name, value]) => [name, name in blank ? blank[name as keyof typeof blank] : value]),
  )
  return [
    { type: 'content_block_start', index, content_block: opening },
    ...(type === 'text' ? delta('text_delta', 'text', text) : []),
    ...delta('thinking_delta', 'thinking', thinking),
    ...delta('signature_delta', 'signature', signature),
    ...(input === undefined ? [] : delta('input_json_delta', 'partial_json', JSON.stringify(input))),
    { type: 'content_block_stop', index },
  ]
}

function claudeEvents(blocks: readonly JsonObject[]) {
  const usage = { input_tokens: 100, output_tokens: 20 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], usage }
  const reason = blocks.at(-1)?.['type'] === 'tool_use' ? 'tool_use' : 'end_turn'
  return [
    { type: 'message_start', message: { ...message, stop_reason: null } },
    ...blocks.flatMap(blockEvents),
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ]
}

/** Items as OpenAI streams them, but that each comes as a whole. */
function responsesEvents(items: readonly JsonObject[]) {
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] }
  const usage = { input_tokens: 100, output_tokens: 20 }
  return [
    { type: 'response.created', response },
    ...items.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
    { type: 'response.completed', response: { ...response, status: 'completed', output: items, usage } },
  ]
}

/** What an agent finds in an answer and sends back: each seal in its order. */
function sealsIn(answer: string): string[] {
  const done = answer.split('\n\n').flatMap((event) => {
    const data = /^data: (.*)$/m.exec(event)?.[1]
    const { type, delta, content_block: block, item } = objectOf(data === undefined ? {} : JSON.parse(data)) ?? {}
    if (type === 'content_block_delta') return objectOf(delta)?.['signature'] ?? []
    if (type === 'content_block_start') return objectOf(block)?.['data'] ?? []
    return type === 'response.output_item.done' ? (objectOf(item)?.['encrypted_content'] ?? []) : []
  })
  return done.filter((seal) => typeof seal === 'string')
}

/** The body with a seal in each place of one. */
function withSeals(body: JsonObject, seals: readonly string[]): string {
  let at = 0
  return JSON.stringify(body).replaceAll(`"${SEALED}"`, () => JSON.stringify(seals[at++] ?? 'missing'))
}

interface Turn {
  readonly body: JsonObject
  readonly sent: JsonObject
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The answers before it. */
  readonly before: readonly (readonly JsonObject[])[]
}

/** Replays a session, one turn after the other. */
async function replayed({ path, headers, shared, turns, answers }: Session): Promise<readonly Turn[]> {
  const seals: string[] = []
  const done: Turn[] = []
  for (const [index, turn] of turns.entries()) {
    const body = { ...shared, ...turn }
    const answer = answers[index] ?? []
    upstream.otherwise(stream(frames(path.includes('/messages') ? claudeEvents(answer) : responsesEvents(answer))))
    const before = upstream.calls.length
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${KEY}` },
      body: withSeals(body, seals),
    })
    const text = await response.text()
    expect([response.status, upstream.calls.length]).toEqual([200, before + 1])
    seals.push(...sealsIn(text))
    const call = upstream.calls.at(-1)
    const sentHeaders = Object.fromEntries(
      ['anthropic-beta', 'anthropic-version'].map((name) => [name, call?.header(name)]),
    )
    done.push({ body, sent: call?.json ?? {}, headers: sentHeaders, before: answers.slice(0, index) })
  }
  return done
}

test('all sessions are recorded', () => {
  expect(sessions.sort()).toEqual(['claude-code-opus', 'claude-code-sonnet', 'codex-namespaces', 'codex-tool-search'])
})

describe.each(sessions.filter((name) => name.startsWith('claude')))('%s', (name) => {
  const session = recorded(name)

  test('reaches Anthropic as it was sent, but for metadata, and with its own thoughts', async () => {
    for (const { body, sent, headers, before } of await replayed(session)) {
      const { metadata: _, ...rest } = body
      const thoughts = before.flat().filter(({ type }) => /thinking/.test(String(type)))
      const messages = objects(rest['messages']).map((message) => ({
        ...message,
        content: isArray(message['content'])
          ? objects(message['content']).map((block) =>
              /thinking/.test(String(block['type'])) ? thoughts.shift() : block,
            )
          : message['content'],
      }))
      expect<unknown>(sent).toEqual({ ...rest, messages })
      expect(thoughts).toEqual([])
      expect(headers).toEqual({
        'anthropic-beta': session.headers['anthropic-beta'],
        'anthropic-version': session.headers['anthropic-version'],
      })
    }
  })

  test('has what agents send in native mode', () => {
    const text = JSON.stringify(session)
    for (const part of ['context_management', 'tool_reference', 'application/pdf', 'image/png', 'thinking'])
      expect(text).toContain(`"${part}"`)
  })
})

/** An item without what the documentation names, and in one of its ways of writing. */
function plain(item: JsonObject): JsonObject {
  const { id: _, status, type = 'message', role, content, output, ...others } = item
  const isOwn = /^(?:tool_search|web_search)/.test(String(type))
  if (isOwn || type === 'reasoning') return item
  const only = (list: JsonValue | undefined) => {
    const parts = objects(list).map(({ annotations: __, logprobs: ___, ...part }) => part)
    return !isArray(list) ? list : parts.length === 1 && 'text' in (parts[0] ?? {}) ? parts[0]?.['text'] : parts
  }
  return {
    ...{ type, ...others },
    ...(role !== undefined && { role: role === 'developer' ? 'system' : role }),
    ...(content !== undefined && { content: only(content) }),
    ...(output !== undefined && { output: only(output) }),
  } as JsonObject
}

describe.each(sessions.filter((name) => name.startsWith('codex')))('%s', (name) => {
  const session = recorded(name)

  test('reaches OpenAI as it was sent, but for ids of items, and with its own thoughts and phases', async () => {
    for (const { body, sent, before } of await replayed(session)) {
      const { input, tools, ...settings } = body
      const thoughts = before.flat().filter(({ type }) => type === 'reasoning')
      const phases = before.flat().flatMap(({ phase, type }) => (type === 'message' ? [phase ?? null] : []))
      const items = objects(input).filter(({ type }) => type !== 'additional_tools')
      const expected = items.map((item) => {
        if (item['type'] === 'reasoning') return thoughts.shift() ?? {}
        return item['role'] === 'assistant' ? { ...plain(item), phase: phases.shift() ?? null } : plain(item)
      })
      expect(objects(sent['input']).map(plain)).toEqual(expected)
      const added = objects(input).flatMap(({ type, tools: more }) =>
        type === 'additional_tools' ? objects(more) : [],
      )
      expect<unknown>(sent['tools']).toEqual([...objects(tools), ...added])
      const { input: _, tools: __, stream_options, max_output_tokens, ...sentSettings } = sent
      expect<unknown>(sentSettings).toEqual(settings)
    }
  })
})

test('the sessions of Codex have what it sends in native mode', () => {
  const text = JSON.stringify(sessions.filter((name) => name.startsWith('codex')).map(recorded))
  for (const part of ['tool_search_output', 'custom_tool_call', 'input_image', 'reasoning', 'namespace', 'verbosity'])
    expect(text).toContain(`"${part}"`)
})
