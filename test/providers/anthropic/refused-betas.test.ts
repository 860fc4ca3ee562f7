/** What a target that refuses betas gets, and how many requests it takes until weir knows which. */

import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../../src/core/json.ts'
import { ProviderError } from '../../../src/core/provider-error.ts'
import { acceptMessages, UNPARSED } from '../../../src/dialects/messages/request.ts'
import { anthropic } from '../../../src/providers/anthropic/anthropic.ts'
import { withInvokeModel } from '../../../src/providers/anthropic/bedrock-claude.ts'
import { vertexClaude } from '../../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../../src/providers/bedrock/bedrock.ts'
import { FormStore } from '../../../src/providers/form-store.ts'
import { keepForms } from '../../../src/providers/learned-form.ts'
import type { Provider, Target } from '../../../src/providers/provider.ts'
import { readRequestBody } from '../../../src/wire/request-body.ts'
import { sentText } from '../conformance.ts'
import { endpoint } from '../requests.ts'

const EDITS = { edits: [{ type: 'clear_tool_uses_20250919' }] }
const TOOL = { name: 'f', input_schema: { type: 'object', properties: {} } }

interface Sent {
  readonly betas: readonly string[]
  readonly body: JsonObject
}

/** The message of a rejection; undefined if the request is answered. */
type Judge = (sent: Sent) => string | undefined

class Provided {
  readonly store = new FormStore()
  private readonly target: Target
  requests = 0

  constructor(
    private readonly provider: Provider,
    private readonly judge: Judge,
  ) {
    const at = endpoint({ google: { project: 'p', location: 'l' } } as object)
    keepForms(at, this.store, () => 'entry')
    this.target = { endpoint: at, model: 'claude-sonnet-4-5' }
  }

  /** What is accepted in the end, after so many requests; undefined if nothing is. `organization`: who asks. */
  ask(betas: readonly string[], body: JsonObject = {}, organization = 'a'): Sent | undefined {
    const whole = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }], ...body }
    const headers = new Headers({ 'anthropic-beta': betas.join() })
    const passes = { betas: true, tools: true, headers }
    const request = acceptMessages(readRequestBody(Buffer.from(JSON.stringify(whole)), UNPARSED), {
      toolResultImages: 'refuse',
      passes,
    })
    let provider = this.provider
    let keep: (() => unknown) | undefined
    for (this.requests = 1; ; this.requests++) {
      const made = provider.request(request, this.target)
      const sent = sentOf(sentText(made.body), made.headers)
      const message = this.judge(sent)
      if (message === undefined) {
        const { own: asked } = request
        if (asked !== undefined && made.own !== undefined)
          provider.accepted?.({ target: this.target, asked, sent: made.own, organization })
        keep?.()
        return sent
      }
      const error = new ProviderError('rejected', message, { status: 400 })
      const learned = provider.learn?.({ error, target: this.target, request, organization, sentMs: performance.now() })
      if (learned === undefined) return undefined
      provider = learned.provider
      keep = () => [learned.first?.keep(), learned.keep()]
    }
  }
}

function sentOf(text: string, headers: Readonly<Record<string, string>>): Sent {
  const body: unknown = JSON.parse(text)
  if (!isObject(body)) throw new Error('the body is no object')
  const inBody = body['anthropic_beta']
  const betas = Array.isArray(inBody) ? inBody.map(String) : (headers['anthropic-beta'] ?? '').split(',')
  return { betas: betas.filter((beta) => beta !== ''), body }
}

const DATED = (name: string) => `${name}-2025-01-01`
const BETAS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(DATED)
const naming =
  (...bad: readonly string[]): Judge =>
  ({ betas }) => {
    const found = betas.filter((beta) => bad.includes(beta)).map((beta) => `\`${beta}\``)
    return found.length === 0 ? undefined : `Unexpected value(s) ${found.join(', ')} for the \`anthropic-beta\` header.`
  }
const nameless =
  (...bad: readonly string[]): Judge =>
  ({ betas }) =>
    betas.some((beta) => bad.includes(beta)) ? 'invalid beta flag' : undefined

describe.each([
  ['the header', anthropic],
  ['the body', vertexClaude],
  ['the body of InvokeModel', withInvokeModel(bedrock)],
])('in %s', (_, provider) => {
  test('betas that an error names are left out at once, and stay so', () => {
    const provided = new Provided(provider, naming('b-2025-01-01', 'f-2025-01-01'))
    const good = BETAS.filter((beta) => !/^[bf]/.test(beta))
    expect([provided.ask(BETAS)?.betas, provided.requests]).toEqual([good, 2])
    expect([provided.ask(BETAS)?.betas, provided.requests]).toEqual([good, 1])
    expect([provided.ask(['b-2025-01-01', 'x-2025-01-01'])?.betas, provided.requests]).toEqual([['x-2025-01-01'], 1])
    provided.store.forget(() => true)
    provided.ask(BETAS)
    expect(provided.requests).toBe(2)
  })

  test.each([1, 2, 3, 5, 7, 8, 9, 13, 30, 64])(
    'of %d, one that no error names is found by four further requests',
    (many) => {
      const all = Array.from({ length: many }, (_, index) => DATED(`beta${index + 10}`))
      for (const bad of all.slice(-13)) {
        const provided = new Provided(provider, nameless(bad))
        let further = 0
        let last: readonly string[] | undefined
        for (let turn = 0; turn <= many; turn++) {
          last = provided.ask(all)?.betas
          expect(last).toBeDefined()
          expect(last).not.toContain(bad)
          further += provided.requests - 1
        }
        expect(further).toBeLessThanOrEqual(4)
        expect(last).toEqual(all.filter((beta) => beta !== bad))
      }
    },
  )

  test('several that no error names, and more than eight, cost four further requests at the most', () => {
    const many = Array.from({ length: 13 }, (_, index) => DATED(`beta${index}`))
    for (const [all, bad] of [
      [BETAS, ['a', 'g'].map(DATED)],
      [BETAS, BETAS],
      [many, many.slice(5, 6)],
      [many, [many[0], many[12]].map(String)],
    ] as const) {
      const provided = new Provided(provider, nameless(...bad))
      expect(provided.ask(all)?.betas.filter((beta) => bad.includes(beta))).toEqual([])
      expect(provided.requests - 1).toBeLessThanOrEqual(4)
    }
  })

  test('several that errors name one after another are left out by four further requests, and stay so', () => {
    const bad = ['a', 'c', 'e', 'g'].map(DATED)
    const oneByOne: Judge = (sent) => naming(...sent.betas.filter((beta) => bad.includes(beta)).slice(0, 1))(sent)
    const provided = new Provided(provider, oneByOne)
    const good = BETAS.filter((beta) => !bad.includes(beta))
    expect([provided.ask(BETAS)?.betas, provided.requests]).toEqual([good, 5])
    expect([provided.ask(BETAS)?.betas, provided.requests]).toEqual([good, 1])
    const five = new Provided(provider, (sent) => naming(...sent.betas.slice(0, 1))(sent))
    expect([five.ask(BETAS.slice(0, 5)), five.requests]).toEqual([undefined, 5])
  })

  test('a beta that is named, one that is not, a member and a setting', () => {
    const judge: Judge = (sent) =>
      naming(DATED('c'))(sent) ??
      ('context_management' in sent.body ? 'context_management: Extra inputs are not permitted' : undefined) ??
      nameless(DATED('a'))(sent) ??
      ('temperature' in sent.body ? '`temperature` is deprecated for this model.' : undefined)
    const provided = new Provided(provider, judge)
    const body = { context_management: EDITS, temperature: 0.5 }
    const betas = ['a', 'b', 'c', 'd'].map(DATED)
    expect(provided.ask(['context-management-2025-06-27', ...betas], body)?.betas).toEqual([DATED('d')])
    expect(provided.requests).toBe(5)
    expect(provided.ask(betas, { temperature: 0.5 })).toMatchObject({ betas: [DATED('b'), DATED('d')] })
    expect(provided.requests).toBe(1)
  })

  test('a beta goes with its fields and tools', () => {
    const provided = new Provided(provider, naming('context-management-2025-06-27', 'mcp-client-2025-11-20'))
    const tools = [TOOL, { type: 'mcp_toolset', mcp_server_name: 'x' }]
    const body = { context_management: EDITS, mcp_servers: [{ name: 'x' }], top_k: 3, tools }
    const sent = provided.ask(['context-management-2025-06-27', 'mcp-client-2025-11-20', 'a-2025-01-01'], body)
    expect(sent?.betas).toEqual(['a-2025-01-01'])
    expect([sent?.body['context_management'], sent?.body['mcp_servers'], sent?.body['top_k']]).toEqual([
      undefined,
      undefined,
      3,
    ])
    expect(sent?.body['tools']).toEqual([TOOL])
  })

  test('a field that is refused goes with its beta', () => {
    const provided = new Provided(provider, ({ body }) =>
      'context_management' in body ? 'context_management: Extra inputs are not permitted' : undefined,
    )
    for (const requests of [2, 1]) {
      const sent = provided.ask(['context-management-2025-06-27', 'a-2025-01-01'], { context_management: EDITS })
      expect([sent?.betas, provided.requests]).toEqual([['a-2025-01-01'], requests])
    }
  })

  test('members of tools go with their betas', () => {
    const provided = new Provided(provider, ({ body }) =>
      JSON.stringify(body['tools']).includes('defer_loading')
        ? 'tools.0.custom.defer_loading: Extra inputs are not permitted'
        : undefined,
    )
    const tools = [
      { ...TOOL, defer_loading: true },
      { type: 'tool_search_tool_regex_20251119', name: 't' },
    ]
    for (const requests of [2, 1]) {
      const sent = provided.ask(['advanced-tool-use-2025-11-20', 'a-2025-01-01'], { tools })
      expect([sent?.betas, sent?.body['tools'], provided.requests]).toEqual([['a-2025-01-01'], [TOOL], requests])
    }
  })

  test('errors about something else teach nothing, and a caller cannot teach', () => {
    for (const message of [
      'messages.0: the beta is odd',
      'prompt is too long: anthropic-beta',
      'bogus: Extra inputs are not permitted',
    ]) {
      const provided = new Provided(provider, () => message)
      expect([provided.ask(BETAS, { bogus: 1 }), provided.store.all().length]).toEqual([undefined, 0])
    }
    const provided = new Provided(provider, naming('a-2025-01-01'))
    expect(provided.ask(BETAS, { system: 'about a-2025-01-01' })?.betas).not.toContain('a-2025-01-01')
    expect(provided.store.all()).toEqual([])
  })

  test('what callers can make a target teach has a bound', () => {
    const provided = new Provided(provider, ({ betas }) =>
      naming(...betas.filter((beta) => beta.startsWith('x')))({ betas, body: {} }),
    )
    for (let index = 0; index < 80; index++) provided.ask([`x${index}`])
    expect(provided.store.all().length).toBe(64)
  })
})
