/**
 * Recorded sessions of coding agents (long texts cut), replayed step by step against the real program: every kind of
 * provider answers every step, and gets the same bytes for earlier steps, so that its prompt cache works.
 */

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { meaningOf } from '../laws/reading.ts'
import { checkResponsesStream } from '../laws/responses-grammar.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import type { Upstream } from '../support/upstream.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers/sessions')
const PROVIDERS = ['openai', 'anthropic', 'gemini', 'bedrock'] as const
/** The providers with cache marks. */
const MARKING = ['openai', 'anthropic', 'bedrock'] as const

interface Session {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** The common part of all bodies. */
  readonly shared: JsonObject
  readonly turns: readonly JsonObject[]
}

function recorded(name: string): Session {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8'))
}

const upstreams = new Map<ProviderDialect, Upstream>()

for (const provider of PROVIDERS) {
  const upstream = await lastingUpstream()
  upstreams.set(provider, upstream.otherwise(speaks(provider, () => textAnswer('Done.'))))
}
const price = { input: 1, output: 10 }
const gateway = await lastingGateway({
  validated: true,
  providers: Object.fromEntries(
    PROVIDERS.map((name) => [name, providerEntry(name, `http://127.0.0.1:${upstreams.get(name)?.port}`)]),
  ),
  models: Object.fromEntries(
    PROVIDERS.map((name) => [
      name,
      {
        targets: [{ provider: name, model: 'up' }],
        price,
        supports: ['tools', 'images'],
        prompt_cache: name === 'gemini' ? {} : { explicit: true, ttls: ['5m', '1h'] },
      },
    ]),
  ),
})

interface Step {
  readonly text: string
  /** The provider's requests. */
  readonly asked: JsonObject
}

async function step(provider: ProviderDialect, { path, headers, shared }: Session, turn: JsonObject): Promise<Step> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { ...headers, authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ ...shared, ...turn, model: provider }),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return { text, asked: upstreams.get(provider)?.calls.at(-1)?.json ?? {} }
}

const dialectOf = (path: string): DialectName =>
  path.includes('/messages') ? 'messages' : path.endsWith('/responses') ? 'responses' : 'chat'

/** The part of a body that grows with the conversation, in any dialect. */
const historyOf = (body: JsonObject): readonly JsonValue[] => {
  const history = body['messages'] ?? body['input'] ?? body['contents']
  return isArray(history) ? history : []
}

/** Without cache marks. A text equals a list of one part with that text. */
function unmarked(value: JsonValue): JsonValue {
  if (isArray(value)) {
    const kept = value.filter((item) => !(isObject(item) && 'cachePoint' in item)).map(unmarked)
    const [only] = kept
    return kept.length === 1 && isObject(only) && only['type'] === 'text' ? (only['text'] ?? '') : kept
  }
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([key]) => key !== 'cache_control')
  return Object.fromEntries(entries.map(([key, inner]) => [key, unmarked(inner ?? null)]))
}

const readings = (body: JsonObject) => historyOf(body).map((item) => JSON.stringify(unmarked(item)))
const begins = (later: readonly string[], earlier: readonly string[]) => earlier.every((item, at) => later[at] === item)

const sessions = readdirSync(FOLDER).map((file) => file.replace('.json', ''))

test('all sessions are recorded', () => {
  expect(sessions.sort()).toEqual([
    'claude-code',
    'claude-code-opus',
    'codex',
    'codex-compaction',
    'opencode-chat',
    'opencode-messages',
    'opencode-responses',
  ])
})

describe.each(sessions.filter((name) => name !== 'codex-compaction'))('%s', (name) => {
  const session = recorded(name)
  const dialect = dialectOf(session.path)

  test.each(PROVIDERS)(
    'with %s: every step is answered, and begins with the bytes of the previous one',
    async (provider) => {
      let kept = 0
      let before: { readonly turn: JsonObject; readonly asked: JsonObject } | undefined
      for (const turn of session.turns) {
        const { text, asked } = await step(provider, session, turn)
        expect(meaningOf(dialect, true, text, true)).toMatchObject({ text: 'Done.', calls: [] })
        // An agent may change its earlier messages; then the provider gets other bytes, too.
        if (before !== undefined && begins(readings(turn), readings(before.turn))) {
          kept++
          expect(readings(asked).slice(0, historyOf(before.asked).length)).toEqual(readings(before.asked))
          const { tools, system, toolConfig, systemInstruction } = before.asked
          const known = { tools, system, toolConfig, systemInstruction }
          expect(asked).toMatchObject(JSON.parse(JSON.stringify(known)))
        }
        before = { turn, asked }
      }
      expect(kept).toBeGreaterThan(0)
    },
  )
})

/** Whether the last block carries a cache mark. */
function isMarkedAtEnd(body: JsonObject): boolean {
  const last = historyOf(body).at(-1)
  const content = isObject(last) && isArray(last['content']) ? last['content'] : []
  const end = content.at(-1)
  return isObject(end) && ('cache_control' in end || 'cachePoint' in end)
}

describe.each(['claude-code', 'opencode-messages'])('%s', (name) => {
  const session = recorded(name)
  test.each(MARKING)('with %s: the mark on the newest tool result stays', async (provider) => {
    for (const turn of session.turns) {
      const { asked } = await step(provider, session, turn)
      expect({ steps: historyOf(turn).length, marked: isMarkedAtEnd(asked) }).toEqual({
        steps: historyOf(turn).length,
        marked: true,
      })
    }
  })
})

describe('codex-compaction', () => {
  const session = recorded('codex-compaction')

  test.each(PROVIDERS)('with %s: continues from its summary', async (provider) => {
    let sealed: string | undefined
    let compactions = 0
    for (const turn of session.turns) {
      const compacts = historyOf(turn).some((item) => isObject(item) && item['type'] === 'compaction_trigger')
      const { text, asked } = await step(provider, session, withSummary(turn, sealed))
      const { response } = checkResponsesStream(text)
      const items = isObject(response) && isArray(response['output']) ? response['output'].filter(isObject) : []
      expect(items.map(({ type }) => type)).toEqual([compacts ? 'compaction' : 'message'])
      const words = JSON.stringify(asked)
      expect(words.includes('<conversation_summary>\\nDone.\\n')).toBe(sealed !== undefined)
      if (!compacts) continue
      compactions++
      expect(words).toContain('Write a summary of this conversation up to here.')
      sealed = String(items[0]?.['encrypted_content'])
    }
    expect(compactions).toBe(1)
  })

  /** The recorded item was sealed by another gateway. */
  function withSummary(turn: JsonObject, sealed: string | undefined): JsonObject {
    const input = historyOf(turn).map((item) =>
      isObject(item) && item['type'] === 'compaction' ? { ...item, encrypted_content: sealed ?? '' } : item,
    )
    return { ...turn, input }
  }
})
