/**
 * Mutated bodies of agents in native mode, with tools of every kind: each is read, or is the caller's mistake. What was
 * read is written as JSON with our own settings, to providers of the same API and of others.
 */

import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { compatibilityOf } from '../../src/core/compatibility.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { FORBIDDEN_FIELDS, refuseForbidden } from '../../src/dialects/forbidden-fields.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { Sealer } from '../../src/items/sealer.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { withInvokeModel } from '../../src/providers/anthropic/bedrock-claude.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { takenBy } from '../../src/providers/taken-request.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { objectOf } from '../providers/conformance.ts'
import { endpoint } from '../providers/requests.ts'
import { property, type Random } from '../support/random.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/agents')
const CALLER = { organization: 'o', compatibility: compatibilityOf({ mode: 'native' }), headers: new Headers() }
const DIALECTS = {
  chat: chat({ imageUrls: 'public' }),
  messages: messages({ toolResultImages: 'refuse' }),
  responses: responses({ sealer: new Sealer([Buffer.alloc(32, 7).toString('base64')]) }),
}
const PROVIDERS = { anthropic, bedrock: withInvokeModel(bedrock), gemini, openai, vertexClaude }

function bodiesOf(agent: string): readonly JsonObject[] {
  const names = readdirSync(FOLDER).filter((name) => name.startsWith(agent))
  return names.flatMap((name) => {
    // Where long data was cut, the recordings have an ellipsis, which is no base64.
    const text = readFileSync(join(FOLDER, name), 'utf8').replaceAll('iVBORw0KGgoA…', 'iVBORw0KGgoA')
    const body: JsonValue = JSON.parse(text).body
    return isObject(body) ? [body] : []
  })
}

const FORMAT = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
const SEARCH = { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'q' } }
/** With tools of OpenAI, and such as take a text, alone and in a namespace. */
const OPENAI_TOOLS: JsonObject = {
  input: [
    { role: 'user', content: 'x' },
    SEARCH,
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' },
    { type: 'computer_call', id: 'cu_1', call_id: 'c_1', action: { type: 'wait' } },
    { type: 'computer_call_output', call_id: 'c_1', output: { type: 'computer_screenshot', image_url: 'x' } },
    { type: 'custom_tool_call', call_id: 'c_2', name: 'patch', namespace: 'edit', input: 'text' },
    { type: 'custom_tool_call_output', call_id: 'c_2', output: 'done' },
    { type: 'mcp_list_tools', id: 'l', server_label: 's', tools: [{ name: 't', input_schema: { timeout: {} } }] },
  ],
  tools: [
    { type: 'web_search', user_location: { type: 'approximate', country: 'DE' } },
    { type: 'code_interpreter', container: { type: 'auto', memory_limit: '4g' } },
    { type: 'mcp', server_label: 's', server_url: 'https://mcp.example.com', headers: { authorization: 'a' } },
    { type: 'shell', environment: { type: 'container_auto' } },
    { type: 'namespace', name: 'edit', tools: [{ type: 'custom', name: 'patch', description: 'd', format: FORMAT }] },
    { type: 'custom', name: 'free', format: FORMAT },
  ],
  ...{ max_tool_calls: 3, include: ['web_search_call.action.sources'], tool_choice: { type: 'web_search' } },
}
const CHAT_TOOLS: JsonObject = {
  messages: [
    { role: 'user', content: 'x' },
    { role: 'assistant', tool_calls: [{ id: 'c_1', type: 'custom', custom: { name: 'free', input: 'text' } }] },
    { role: 'tool', tool_call_id: 'c_1', content: 'done' },
  ],
  tools: [
    {
      type: 'custom',
      custom: { name: 'free', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
    },
    { type: 'function', function: { name: 'f', parameters: {} } },
  ],
  tool_choice: { type: 'custom', custom: { name: 'free' } },
}
const BODIES = {
  chat: [CHAT_TOOLS],
  messages: bodiesOf('claude-code'),
  responses: [OPENAI_TOOLS, ...bodiesOf('codex')],
}
const SERVER = { type: 'server_tool_use', id: 's', name: 'web_search', input: { timeout: 1 } }
const ODD: readonly [JsonValue, ...JsonValue[]] = [
  ...[null, 0, '', ' ', 'x', [], {}, [[]], true, 'system', 'custom', 'text', 'tool_use', 1e300, '\ud800'],
  ...[SERVER, { type: 'tool_reference', tool_name: 'x' }, { type: 'web_search_20250305', name: 'w', max_uses: 'x' }],
  ...[{ api_key: 'k' }, { type: 'odd', base_url: 'u' }, { type: 'custom', name: 'p', format: { definition: 1 } }],
  ...[
    { type: 'custom_tool_call', call_id: 'c', name: 'p', input: 5 },
    { type: 'ephemeral', ttl: '1h', scope: 'g' },
  ],
] as const

/** `rate`: how often something changes, in hundredths. */
function mutated(random: Random, value: JsonValue, rate: number): JsonValue {
  const chance = rate / 100
  if (random.chance(chance / 2)) return random.pick(ODD)
  if (isArray(value)) {
    const items = value.map((item) => mutated(random, item, rate))
    return random.chance(chance) ? [...items, random.pick(ODD)] : items
  }
  if (!isObject(value)) return value
  const members = Object.entries(value).filter(() => !random.chance(chance / 2))
  const name = random.pick(['odd_member', 'api_key', 'timeout'])
  const more = random.chance(chance / 2) ? [[name, random.pick(ODD)] as const] : []
  return Object.fromEntries([...members.map(([each, member = null]) => [each, mutated(random, member, rate)]), ...more])
}

async function read(dialect: keyof typeof DIALECTS, body: JsonObject): Promise<ChatRequest> {
  const bytes = Buffer.from(JSON.stringify(body))
  const { unparsed, read } = DIALECTS[dialect]
  const document = readRequestBody(bytes, unparsed)
  refuseForbidden(document.settings, 'accepted')
  return (await read(document, CALLER)).request
}

/** Tools that pass as they came have none of the forbidden names; in schemas they are the caller's own. */
function expectNoneForbidden(tool: JsonValue): void {
  if (!isObject(tool) || tool['type'] === 'function' || tool['type'] === 'custom') return
  for (const [name, member] of Object.entries(tool)) {
    if (name === 'parameters') continue
    expect(FORBIDDEN_FIELDS.has(name) && name !== 'metadata').toBe(false)
    if (isObject(member)) expectNoneForbidden({ ...member, type: null })
  }
}

const CASES = Number(process.env['WEIR_NATIVE_BODIES'] ?? 300)

property('mutated bodies of agents are read or refused, and written as JSON', CASES, async (random) => {
  const dialect = random.pick(['chat', 'messages', 'responses', 'responses'] as const)
  const [first = {}, ...others] = BODIES[dialect]
  const isOwn = dialect !== 'messages' && random.chance(0.7)
  const body = mutated(random, isOwn ? first : random.pick([first, ...others]), isOwn ? 8 : 1)
  if (!isObject(body)) return
  try {
    const request = await read(dialect, { ...body, model: 'm' })
    expect(estimateInput(request)).toBeGreaterThan(0)
    for (const [name, provider] of Object.entries(PROVIDERS)) {
      const model = name === 'bedrock' ? 'anthropic.claude-sonnet-4-5' : 'm'
      const target = { model, endpoint: endpoint(name === 'openai' ? { api: 'responses' } : {}) }
      try {
        const written = objectOf(provider.request(takenBy(provider, request, target).request, target).body)
        for (const field of FORBIDDEN_FIELDS) if (field !== 'metadata') expect(written).not.toHaveProperty(field)
        if (name === 'anthropic' || name === 'openai') expect(written['model']).toBe('m')
        if (name === 'openai') expect(written['store']).toBe(false)
        if (isArray(written['tools']) && name === 'openai') written['tools'].forEach(expectNoneForbidden)
      } catch (error) {
        if (!(error instanceof ProviderError) || error.detail.unsent !== true) throw error
      }
    }
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    expect(error.status).toBeLessThan(500)
  }
})

test('what Claude Code sends reaches Anthropic as it was sent, but for the model and metadata', async () => {
  expect(BODIES.messages.length).toBeGreaterThan(5)
  const target = { model: 'claude-opus-4-8', endpoint: endpoint() }
  for (const body of BODIES.messages.filter(({ max_tokens }) => max_tokens !== undefined)) {
    const sent = objectOf(anthropic.request(await read('messages', body), target).body)
    const { metadata: _, ...rest } = body
    expect(sent).toEqual({ ...rest, model: 'claude-opus-4-8' })
  }
})
