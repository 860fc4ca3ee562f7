/**
 * A large request gives way to others between its steps: each has a turn of the event loop of its own. A small one
 * takes no turn for it.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { RequestLife } from '../../src/http/request-life.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'

const STEPS = ['arrived', 'accept', 'resolve', 'provider'] as const
type Step = (typeof STEPS)[number]

/** The turn of the event loop in which each step of the last request began. */
let steps: Partial<Record<Step, number>> = {}
let turns = 0
let isCounting = true

function count(): void {
  turns++
  if (isCounting) setImmediate(count)
}

const undone: (() => void)[] = []

/** Notes when a method is called for the first time. */
function note<T extends object>(step: Step, owner: T, name: keyof T & string): void {
  const method = owner[name] as unknown as (...given: unknown[]) => unknown
  const noting = function (this: unknown, ...given: unknown[]): unknown {
    steps[step] ??= turns
    return method.apply(this, given)
  }
  Object.defineProperty(owner, name, { value: noting, configurable: true, writable: true })
  undone.push(() => Object.defineProperty(owner, name, { value: method, configurable: true, writable: true }))
}

let upstream: Upstream
let weir: Serving

beforeAll(async () => {
  upstream = await Upstream.start({ m: does.answersText('Hi') })
  weir = new Serving({ providers: { up: upstream.url } })
  const { dialects, gateway } = weir.service.state.current
  note('arrived', RequestLife.prototype, 'body')
  for (const dialect of [dialects.chat, dialects.responses, dialects.messages]) note('accept', dialect, 'read')
  note('resolve', gateway.catalog, 'lookup')
  note('provider', openai, 'request')
  count()
})

afterAll(async () => {
  isCounting = false
  for (const undo of undone) undo()
  await weir[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const text = 'word "quoted" '.repeat(30_000)
const schema = { type: 'object', properties: Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`p${i}`, {}])) }
const rows: readonly [name: string, path: string, small: JsonObject, large: JsonObject][] = [
  ['chat', '/v1/chat/completions', { messages: [] }, { messages: [{ role: 'user', content: text }] }],
  [
    'chat with tools',
    '/v1/chat/completions',
    { messages: [] },
    {
      messages: [{ role: 'user', content: text }],
      tools: [{ type: 'function', function: { name: 'f', parameters: schema } }],
    },
  ],
  ['responses', '/v1/responses', { input: 'hi' }, { input: text }],
  ['messages', '/v1/messages', { max_tokens: 9 }, { max_tokens: 9, messages: [{ role: 'user', content: text }] }],
]

describe.each(rows)('%s', (_, path, small, large) => {
  const hi = path.endsWith('responses') ? {} : { messages: [{ role: 'user', content: 'hi' }] }

  async function stepsOf(body: JsonObject): Promise<readonly number[]> {
    steps = {}
    const answer = await ask(weir.port, requestBytes(path, { key: KEY, body: { model: 'm', ...body } }))
    expect([answer.status, Object.keys(steps).toSorted()]).toEqual([200, STEPS.toSorted()])
    return STEPS.map((step) => steps[step] ?? 0)
  }

  test('large: a turn for each step', async () => {
    const [arrived = 0, ...later] = await stepsOf(large)
    let before = arrived
    for (const turn of later) {
      expect(turn).toBeGreaterThan(before)
      before = turn
    }
  })

  test('small: all in the turn in which it arrived', async () => {
    // The first time, code is compiled and a connection is made.
    await stepsOf({ ...small, ...hi })
    const [arrived = 0, ...later] = await stepsOf({ ...small, ...hi })
    expect(later).toEqual([arrived, arrived, arrived])
  })
})
