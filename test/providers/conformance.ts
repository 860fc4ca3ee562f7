/** The suite for every provider adapter. The fixtures are recorded streams, broken ones included. */

import { describe, expect, test } from 'bun:test'
import type { FinishReason } from '../../src/core/event.ts'
import { isObject, type JsonObject, numberOf } from '../../src/core/json.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import type { Provider, Target, UpstreamRequest } from '../../src/providers/provider.ts'
import { sha256 } from '../support/bytes.ts'
import { type Fixture, fixtureBytes, manifest } from '../support/fixtures.ts'
import { chatRequest, type Literal } from '../support/literal.ts'
import { property, Random } from '../support/random.ts'
import type { SpeechWriter } from '../support/speech-writer.ts'
import { cuts } from '../support/streams.ts'
import type { Call } from '../support/upstream.ts'
import { type Outcome, streamed, whole } from './outcome.ts'
import { randomRequest, withoutNative } from './requests.ts'

export interface Conformant {
  readonly name: string
  /** The folder of its fixtures, if not its name. */
  readonly fixtures?: string
  /** The bytes of a recorded stream as this provider sends them. */
  readonly framed?: (stream: Uint8Array) => Uint8Array
  readonly provider: Provider
  readonly target: Target
  /** The canonical finish reasons; any other word means `stop`, or `tool-call` if there was a call. */
  readonly reasons: Readonly<Record<string, FinishReason>>
  /** The provider's counts, as in the manifest → canonical usage. */
  readonly usage: (counts: JsonObject) => Usage
  /** Fixtures that its decoder does not get, each with the reason. */
  readonly skipped?: Readonly<Record<string, string>>
  /** Whether it accepts native Chat Completions parts other than text and images. Others reject them. */
  readonly takesNative?: boolean
  /** Throws if a body breaks a rule that the provider publishes. */
  readonly rules: (body: JsonObject, request: Literal) => void
  /** The part of a body that grows with the conversation. */
  readonly turns: (body: JsonObject) => readonly unknown[]
}

/** What the tests need of a provider dialect. */
export interface DialectUnderTest {
  /** One for each adapter; empty if another dialect has the same. */
  readonly conformance: readonly Conformant[]
  /** How the paths of its recorded streams begin. */
  readonly fixtures: string
  readonly writer: SpeechWriter
  /** Instead of `writer`, if the API depends on the model. */
  readonly writerFor?: (call: Call) => SpeechWriter
  /** One for each kind of credential. */
  readonly configurations: readonly DialectConfiguration[]
}

export interface DialectConfiguration {
  /** A valid entry of a configuration, without `dialect` and optional fields. */
  readonly entry: JsonObject
  /** Fields that may be added. */
  readonly more: readonly string[]
  /** The default base URL, or that of `entry`. */
  readonly baseUrl: string
  /** The header that carries the credential, with `api_key: k` unless `entry` has another. */
  readonly header: readonly [name: string, value: RegExp]
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function count(counts: JsonObject, name: string): number | undefined {
  return numberOf(counts[name])
}

/** Longer fixtures are not tried one byte at a time, which takes a second for 1 MiB. */
const MANY_BYTES = 64 * 1024

export function conforms(conformant: Conformant): void {
  const { name, provider } = conformant
  const { fixtures: folder = name, framed = (bytes: Uint8Array) => bytes } = conformant
  const fixtures = manifest.filter(({ file }) => file.startsWith(`${folder}/`) && !conformant.skipped?.[file])

  describe(`${name}: fixtures`, () => {
    test('exist', () => expect(fixtures.length).toBeGreaterThan(4))
    for (const fixture of fixtures) {
      const recorded = fixtureBytes(fixture.file)
      if (fixture.content_type === 'application/json') {
        test(`${fixture.file}, whole`, () =>
          checkExpected(conformant, fixture, whole(provider, Buffer.from(recorded).toString())))
        continue
      }
      const bytes = framed(recorded)
      test(`${fixture.file}, at every cut`, () => {
        const expected = streamed(provider, [bytes])
        checkExpected(conformant, fixture, expected)
        for (const { name: cutting, chunks } of cuts(bytes, new Random(1))) {
          if (bytes.length > MANY_BYTES && cutting === 'byte by byte') continue
          expect({ cutting, ...streamed(provider, chunks) }).toEqual({ cutting, ...expected })
        }
      })
      if (fixture.expect.terminal && bytes.length < 3000) {
        test(`${fixture.file}, ended early at any byte, is complete or an error`, () => checkPrefixes(provider, bytes))
      }
    }
  })

  describe(`${name}: requests`, () => {
    property('obey the rules of the provider, and have stable bytes', 300, async (random) => {
      const made = randomRequest(random)
      const request = conformant.takesNative === true ? made : withoutNative(made)
      if (request !== made) {
        const refused = await Promise.try(() => provider.request(chatRequest(made), conformant.target)).catch(
          (error) => error,
        )
        expect(refused).toMatchObject({ kind: 'rejected', detail: { unsent: true } })
      }
      const { body } = provider.request(chatRequest(request), conformant.target)
      conformant.rules(objectOf(body), request)
      const again = provider.request(chatRequest(structuredClone(request)), conformant.target)
      expect(sentText(again.body)).toBe(sentText(body))
    })

    property('begin with the bytes of the previous turn', 100, async (random) => {
      const later = withoutNative(randomRequest(random, 'unmarked'))
      const earlier = { ...later, messages: later.messages.slice(0, random.between(1, later.messages.length)) }
      // Later system messages move to the front, and later calls add tools: then the beginning is no prefix.
      if (later.messages.slice(earlier.messages.length).some(({ role }) => role === 'system')) return
      if (later.tools.length === 0) return
      const before = conformant.turns(objectOf(provider.request(chatRequest(earlier), conformant.target).body))
      const after = conformant.turns(objectOf(provider.request(chatRequest(later), conformant.target).body))
      // The last turn may have grown.
      const kept = before.length - 1
      expect(JSON.stringify(after.slice(0, kept))).toBe(JSON.stringify(before.slice(0, kept)))
    })
  })
}

function checkExpected(
  { reasons, usage }: Conformant,
  { file, expect: wanted }: Pick<Fixture, 'file' | 'expect'>,
  outcome: Outcome,
): void {
  if (wanted.text !== undefined) expect(outcome.text).toBe(wanted.text)
  if (wanted.text_sha256 !== undefined) expect(sha256(outcome.text)).toBe(wanted.text_sha256)
  expect(outcome.refusal).toBe(wanted.refusal ?? '')
  expect(outcome.ended).toBe(wanted.terminal)
  if (!wanted.terminal) {
    const cut = ['cut', 'broken']
    if (wanted.error === true) expect({ file, errorKind: outcome.errorKind }).not.toEqual({ file, errorKind: 'cut' })
    else expect(cut).toContain(outcome.errorKind ?? 'none')
    expect(outcome.errorKind).toBeDefined()
    return
  }
  expect(outcome.errorKind).toBeUndefined()
  const calls = wanted.tool_calls ?? []
  expect(outcome.calls.map(({ id, name }) => ({ id, name }))).toEqual(
    calls.map(({ id, name }) => ({ id: id ?? '', name })),
  )
  for (const [index, call] of calls.entries()) {
    const json = outcome.calls[index]?.json ?? ''
    if (call.arguments_sha256 === undefined) expect(json).toBe(call.arguments || '{}')
    else expect(sha256(json)).toBe(call.arguments_sha256)
  }
  const plain = calls.length > 0 ? 'tool-call' : 'stop'
  expect(outcome.reason).toBe(reasons[wanted.finish_reason ?? ''] ?? plain)
  if (wanted.usage !== undefined) expect(outcome.usage).toMatchObject(defined(usage(wanted.usage)))
}

/** What remains of an answer if the connection ends early without a sign. */
function checkPrefixes(provider: Provider, bytes: Uint8Array): void {
  const { usage: _, ...answer } = streamed(provider, [bytes])
  for (let end = 0; end < bytes.length; end++) {
    const { usage: __, ...outcome } = streamed(provider, [bytes.subarray(0, end)])
    if (outcome.ended) expect(outcome).toEqual(answer)
    else expect({ end, errorKind: outcome.errorKind !== undefined }).toEqual({ end, errorKind: true })
  }
}

/** The body of a request as text. */
export function sentText(body: UpstreamRequest['body']): string {
  return typeof body === 'string' ? body : body.joined().toString()
}

export function objectOf(body: UpstreamRequest['body']): JsonObject {
  const json = sentText(body)
  const value: unknown = JSON.parse(json)
  if (!isObject(value)) throw new Error('the body is not an object')
  return value
}

function defined(usage: Usage): Usage {
  return Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== undefined))
}
