/**
 * Mutated bodies of agents in native mode: each is read, or is the caller's mistake. What was read is written as JSON
 * with our own settings: of Messages to Anthropic, of Responses to Responses, and of both to providers of other APIs.
 */

import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../src/core/caller-error.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import { compatibilityOf } from '../../src/core/compatibility.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { FORBIDDEN_FIELDS, refuseForbidden } from '../../src/dialects/forbidden-fields.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { Sealer } from '../../src/items/sealer.ts'
import { estimateInput } from '../../src/ledger/estimate.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
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
  messages: messages({ toolResultImages: 'refuse' }),
  responses: responses({ sealer: new Sealer([Buffer.alloc(32, 7).toString('base64')]) }),
}
const PROVIDERS = { anthropic, bedrock, gemini, openai }

function bodiesOf(agent: string): readonly JsonObject[] {
  const names = readdirSync(FOLDER).filter((name) => name.startsWith(agent))
  return names.flatMap((name) => {
    const body: JsonValue = JSON.parse(readFileSync(join(FOLDER, name), 'utf8')).body
    return isObject(body) ? [body] : []
  })
}

const BODIES = { messages: bodiesOf('claude-code'), responses: bodiesOf('codex') }
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

function mutated(random: Random, value: JsonValue): JsonValue {
  if (random.chance(0.01)) return random.pick(ODD)
  if (isArray(value)) {
    const items = value.map((item) => mutated(random, item))
    return random.chance(0.01) ? [...items, random.pick(ODD)] : items
  }
  if (!isObject(value)) return value
  const members = Object.entries(value).filter(() => !random.chance(0.005))
  const more = random.chance(0.005) ? [['odd_member', random.pick(ODD)] as const] : []
  return Object.fromEntries([...members.map(([name, member = null]) => [name, mutated(random, member)]), ...more])
}

async function read(dialect: keyof typeof DIALECTS, body: JsonObject): Promise<ChatRequest> {
  const bytes = Buffer.from(JSON.stringify(body))
  const { unparsed, read } = DIALECTS[dialect]
  const document = readRequestBody(bytes, unparsed)
  refuseForbidden(document.settings, 'accepted')
  return (await read(document, CALLER)).request
}

const CASES = Number(process.env['WEIR_NATIVE_BODIES'] ?? 300)

property('mutated bodies of agents are read or refused, and written as JSON', CASES, async (random) => {
  const dialect = random.pick(['messages', 'responses'] as const)
  const [first = {}, ...others] = BODIES[dialect]
  const body = mutated(random, random.pick([first, ...others]))
  if (!isObject(body)) return
  try {
    const request = await read(dialect, { ...body, model: 'm' })
    expect(estimateInput(request)).toBeGreaterThan(0)
    for (const [name, provider] of Object.entries(PROVIDERS)) {
      const target = { model: 'm', endpoint: endpoint(name === 'openai' ? { api: 'responses' } : {}) }
      try {
        const written = objectOf(provider.request(takenBy(provider, request, target).request, target).body)
        for (const field of FORBIDDEN_FIELDS) if (field !== 'metadata') expect(written).not.toHaveProperty(field)
        if (name === 'anthropic') expect(written['model']).toBe('m')
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
