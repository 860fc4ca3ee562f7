/**
 * Every recorded stream of every provider, ended early after and within each of its events: the caller gets an error
 * status, or a head and a cut, or the whole answer. Never a connection closed without a status line, which SDKs take
 * for a failed connection and retry.
 */

import { describe, expect, test } from 'bun:test'
import { PROVIDER_DIALECTS } from '../../src/config/provider-dialects.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { type Fixture, fixtures } from '../support/fixtures.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import type { Call, Upstream } from '../support/upstream.ts'

const PATHS: Readonly<Record<DialectName, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
}
const ENDS: Readonly<Record<DialectName, RegExp>> = {
  chat: /^data: \[DONE\]$/m,
  responses: /^event: response\.completed$/m,
  messages: /^event: message_stop$/m,
}
/** Concurrent requests. */
const TOGETHER = 32
/** Longer streams are ended at some of their events. */
const PLACES_MAX = 24

/** The beginning of a stream, and how the provider ends it. */
interface Beginning {
  readonly fixture: Fixture
  readonly end: number
  readonly how: 'without the last chunk' | 'cleanly'
}

const upstreams = new Map<ProviderDialect, Upstream>()
const beginnings: Beginning[] = []

for (const dialect of PROVIDER_DIALECTS) upstreams.set(dialect, (await lastingUpstream()).otherwise(breakOff))
const entry = (dialect: ProviderDialect) => providerEntry(dialect, `http://127.0.0.1:${upstreams.get(dialect)?.port}`)
const gateway = await lastingGateway({
  validated: true,
  providers: Object.fromEntries(PROVIDER_DIALECTS.map((dialect) => [dialect, entry(dialect)])),
  models: Object.fromEntries(PROVIDER_DIALECTS.map((dialect) => [dialect, [`${dialect}/up`]])),
})

/** The request contains the number of the beginning. */
async function breakOff(call: Call): Promise<void> {
  const number = Number(/beginning (\d+)/.exec(JSON.stringify(call.json))?.[1])
  const { fixture, end, how } = beginnings[number] ?? { fixture: undefined, end: 0, how: 'cleanly' }
  // weir asks an idle target of Vertex whether it answers again by counting tokens.
  if (call.path.endsWith(':countTokens')) return await call.answer(404, '{}')
  if (fixture === undefined) throw new Error('the request names no beginning')
  await call.head200({ 'content-type': fixture.content_type })
  if (end > 0) await call.chunk(fixture.bytes.subarray(0, end))
  if (how === 'cleanly') await call.end()
  else call.close()
}

/** After each event, within it, and one byte before the end. */
function placesIn({ bytes, content_type: type }: Fixture): readonly number[] {
  const after = type === 'text/event-stream' ? eventEnds(bytes) : messageEnds(bytes)
  const all = [0, ...after.flatMap((end, at) => [Math.ceil((end + (after[at - 1] ?? 0)) / 2), end]), bytes.length - 1]
  const places = [...new Set(all.filter((place) => place >= 0))].sort((one, other) => one - other)
  if (places.length <= PLACES_MAX) return places
  return [...places.slice(0, PLACES_MAX / 2), ...places.slice(-PLACES_MAX / 2)]
}

function eventEnds(bytes: Uint8Array): number[] {
  const text = Buffer.from(bytes).toString('latin1')
  return [...text.matchAll(/\r\n\r\n|\n\n|\r\r/g)].map((found) => found.index + found[0].length)
}

/** Messages of the binary stream begin with their length. */
function messageEnds(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const ends: number[] = []
  for (let at = 0; at + 4 <= bytes.length; ) {
    at += Math.max(4, view.getUint32(at))
    if (at <= bytes.length) ends.push(at)
  }
  return ends
}

function bodyOf(dialect: DialectName, model: string, number: number): JsonObject {
  const content = `beginning ${number}`
  const common = { model, stream: true }
  if (dialect === 'responses') return { ...common, input: content }
  return { ...common, max_tokens: 4096, messages: [{ role: 'user', content }] }
}

/** Throws if the answer is none of the three allowed. */
function check(dialect: DialectName, answer: Answer): void {
  if (answer.status >= 400) {
    expect(answer.end).toBe('whole')
    expect(answer.json()).toHaveProperty('error')
    return
  }
  expect(answer.status).toBe(200)
  expect(answer.header('content-type')).toStartWith('text/event-stream')
  expect(ENDS[dialect].test(answer.text)).toBe(answer.end === 'whole')
  expect(answer.end).not.toBe('closed')
}

describe.each(PROVIDER_DIALECTS)('%s', (provider) => {
  const streams = fixtures(DIALECTS[provider].fixtures).filter(
    ({ content_type: type }) => type === 'text/event-stream' || type === 'application/vnd.amazon.eventstream',
  )

  test.each(['chat', 'responses', 'messages'] as const)('to a caller of %s', async (dialect) => {
    const ours: number[] = []
    for (const fixture of streams) {
      for (const [at, end] of placesIn(fixture).entries()) {
        const how = at % 2 === 0 ? 'without the last chunk' : 'cleanly'
        ours.push(beginnings.push({ fixture, end, how }) - 1)
      }
    }
    expect(ours.length).toBeGreaterThan(20)
    const wrong: string[] = []
    const next = async (): Promise<void> => {
      for (let number = ours.shift(); number !== undefined; number = ours.shift()) {
        try {
          const bytes = requestBytes(PATHS[dialect], { key: KEY, body: bodyOf(dialect, provider, number) })
          check(dialect, await ask(gateway.port, bytes))
        } catch (error) {
          const { fixture, end, how } = beginnings[number] ?? {}
          wrong.push(`${fixture?.file}, ${end} bytes, ended ${how}: ${error instanceof Error ? error.message : error}`)
        }
      }
    }
    await Promise.all(Array.from({ length: TOGETHER }, next))
    expect(wrong).toEqual([])
  })
})
