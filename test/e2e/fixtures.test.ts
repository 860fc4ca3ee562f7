/**
 * Every recorded stream of every provider, sent by TCP in packets of every size through the real program, and read by
 * the official SDK and the strict grammar of each dialect.
 */

import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { meaningOf } from '../laws/reading.ts'
import { sha256 } from '../support/bytes.ts'
import { ask, type End, requestBytes } from '../support/caller.ts'
import { type Fixture, fixtures } from '../support/fixtures.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { thrownBy } from '../support/thrown.ts'
import type { Upstream } from '../support/upstream.ts'

interface Heard {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly input: unknown }[]
}

const DIALECTS: readonly DialectName[] = ['chat', 'responses', 'messages']
/** Each with its dialect, and the target's model. */
const PLACES: Readonly<Record<string, readonly [ProviderDialect, string]>> = {
  openai: ['openai', 'up'],
  azure: ['azure', 'up'],
  'openai-responses': ['openai', 'up'],
  anthropic: ['anthropic', 'up'],
  gemini: ['gemini', 'up'],
  bedrock: ['bedrock', 'up'],
  'vertex-gemini': ['vertex', 'up'],
  'vertex-claude': ['vertex', 'claude-up'],
}
const PROVIDERS = Object.keys(PLACES)
const upstreams = new Map<string, Upstream>()

for (const provider of PROVIDERS) upstreams.set(provider, await lastingUpstream())
const entry = (name: string, dialect: ProviderDialect) => ({
  ...providerEntry(dialect, `http://127.0.0.1:${upstreams.get(name)?.port}`),
  ...(name === 'openai-responses' && { api: 'responses' }),
})
const places = Object.entries(PLACES)
const gateway = await lastingGateway({
  validated: true,
  providers: Object.fromEntries(places.map(([name, [dialect]]) => [name, entry(name, dialect)])),
  models: Object.fromEntries(places.map(([name, [, model]]) => [name, [`${name}/${model}`]])),
})

const openai = () => new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

/** The streaming helper of each dialect's SDK: what a program gets that knows nothing of gateways. */
const LISTENERS: Readonly<Record<DialectName, (model: string) => Promise<Heard>>> = {
  async chat(model) {
    const stream = openai().chat.completions.stream({ model, messages: [{ role: 'user', content: 'go' }] })
    const message = (await stream.finalChatCompletion()).choices[0]?.message
    const calls = (message?.tool_calls ?? []).flatMap((call) =>
      call.type === 'function' ? [{ name: call.function.name, input: JSON.parse(call.function.arguments) }] : [],
    )
    return { text: `${message?.content ?? ''}${message?.refusal ?? ''}`, calls }
  },
  async responses(model) {
    const response = await openai().responses.stream({ model, input: 'go' }).finalResponse()
    const calls = response.output.flatMap((item) =>
      item.type === 'function_call' ? [{ name: item.name, input: JSON.parse(item.arguments) }] : [],
    )
    return { text: response.output_text, calls }
  },
  async messages(model) {
    const client = new Anthropic({ apiKey: KEY, baseURL: gateway.url, maxRetries: 0 })
    const body = { model, max_tokens: 300, messages: [{ role: 'user' as const, content: 'go' }] }
    const { content } = await client.messages.stream(body).finalMessage()
    const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    const calls = content.flatMap((block) =>
      block.type === 'tool_use' ? [{ name: block.name, input: block.input }] : [],
    )
    return { text, calls }
  },
}

function checkHeard({ text, calls }: Heard, { expect: wanted }: Fixture): void {
  if (wanted.text_sha256 === undefined) expect(text).toBe((wanted.text ?? '') + (wanted.refusal ?? ''))
  else expect(sha256(text)).toBe(wanted.text_sha256)
  const made = wanted.tool_calls ?? []
  expect(calls.map(({ name }) => name)).toEqual(made.map(({ name }) => name))
  for (const [index, { arguments: json }] of made.entries())
    if (json !== undefined) expect(calls[index]?.input).toEqual(JSON.parse(json || '{}'))
}

/** The stream in packets of `size` bytes, and a clean end: only the content shows whether it is complete. */
function plays({ bytes, content_type }: Fixture, size: number) {
  const packets = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  )
  return does.stream(packets, { 'content-type': content_type })
}

const PATHS: Readonly<Record<DialectName, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/anthropic/v1/messages',
}

/** What a caller without an SDK gets: how the answer ended, and its content if it is complete. */
async function heardBy(dialect: DialectName, model: string): Promise<{ readonly end: End; readonly content?: Heard }> {
  const asks = dialect === 'responses' ? { input: 'go' } : { messages: [{ role: 'user', content: 'go' }] }
  const options = dialect === 'chat' ? { stream_options: { include_usage: true } } : {}
  const body = { model, stream: true, ...asks, ...options }
  const { status, end, text } = await ask(gateway.port, requestBytes(PATHS[dialect], { key: KEY, body }))
  if (status !== 200 || end !== 'whole') return { end: status === 200 ? end : 'cut' }
  return { end, content: meaningOf(dialect, true, text) }
}

/** Packets of one byte split every character and every line end; large streams would take minutes. */
const SIZES = [1, 7, 1 << 24]
const PACKETS_MAX = 10_000

describe.each(PROVIDERS)('%s', (provider) => {
  const folder = provider === 'azure' ? 'openai/azure' : `${provider}/`
  const all = fixtures(folder).filter(({ content_type }) => content_type !== 'application/json')

  test.each(all.map((fixture) => [fixture.file, fixture] as const))('%s, by SDKs', async (_, fixture) => {
    const size = Math.max(50, Math.ceil(fixture.bytes.length / 20))
    upstreams.get(provider)?.otherwise(plays(fixture, size))
    for (const listen of Object.values(LISTENERS)) {
      if (fixture.expect.terminal) checkHeard(await listen(provider), fixture)
      else expect(await thrownBy(listen(provider))).toBeInstanceOf(Error)
    }
  })

  test.each(all.map((fixture) => [fixture.file, fixture] as const))(
    '%s, in packets of any size',
    async (_, fixture) => {
      for (const size of SIZES.filter((bytes) => fixture.bytes.length / bytes < PACKETS_MAX)) {
        upstreams.get(provider)?.otherwise(plays(fixture, size))
        for (const dialect of DIALECTS) {
          const { end, content } = await heardBy(dialect, provider)
          expect({ size, dialect, end }).toEqual({ size, dialect, end: fixture.expect.terminal ? 'whole' : 'cut' })
          if (content !== undefined) checkHeard(content, fixture)
        }
      }
    },
  )
})
