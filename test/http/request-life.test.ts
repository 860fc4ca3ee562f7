/**
 * A request whose transport is not HTTP: its body is there at once, its answer goes to a responder of the test, and the
 * connection outlives it.
 */

import { expect, test } from 'bun:test'
import type { CallerError } from '../../src/core/caller-error.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { Answer } from '../../src/gateway/answer.ts'
import type { CallerStream } from '../../src/gateway/caller-stream.ts'
import { Pump } from '../../src/gateway/pump.ts'
import { runChat } from '../../src/http/inference-endpoints.ts'
import { RequestLife, type Responder, type Run } from '../../src/http/request-life.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'

const [role = '', hello = '', ...others] = does.chatFrames(['Hello', ' world'])
const release = Promise.withResolvers<void>()

const upstream = await lastingUpstream({
  answers: does.answersText('Hel', 'lo'),
  stalls: does.stalls([role, hello]),
  breaks: does.resets([role, hello]),
  waits: does.waits([role, hello], release.promise, does.rest(others)),
  rejects: does.json(400, '{"error":{"message":"no"}}'),
})
const models = Object.fromEntries(
  ['answers', 'stalls', 'breaks', 'waits', 'rejects'].map((name) => [name, [`up/${name}`]]),
)
const weir = lasting(new Serving({ providers: { up: upstream.url }, models }))

/** One turn on a connection that outlives it. Notes everything that it hears. */
class Turn implements Responder, CallerStream {
  hasLeft = false
  progressMs = performance.now()
  readonly heard: string[] = []
  readonly text: string[] = []
  readonly life: RequestLife
  error: CallerError | undefined
  private readonly over = Promise.withResolvers<void>()
  private readonly begun = Promise.withResolvers<void>()
  private full: PromiseWithResolvers<void> | undefined

  constructor(body: JsonObject, key = KEY) {
    const head = { method: 'GET', url: '/v1/responses', headers: new Headers({ authorization: `Bearer ${key}` }) }
    this.life = new RequestLife(weir.service.state, this, head, '192.0.2.1', { family: 'chat', dialect: 'responses' })
    const run: Run = (life, of, bytes) => runChat(life, of, bytes, life.parts.dialects.responses)
    try {
      this.life.admit()
      this.life.begin(run)
      const bytes = Buffer.from(JSON.stringify(body))
      this.life.take(bytes.length)
      this.life.body(bytes)
    } catch (error) {
      this.life.failed(error)
    }
  }

  get ends(): Promise<void> {
    return this.over.promise
  }

  get begins(): Promise<void> {
    return this.begun.promise
  }

  answered(answer: Answer | string): void {
    this.heard.push('answered')
    if (typeof answer === 'string' || !(answer.content instanceof Pump)) throw new Error('not a stream')
    answer.content.attach(this)
  }

  failed(error: CallerError): void {
    this.error = error
    this.heard.push('failed')
  }

  ended(): void {
    this.heard.push('ended')
    this.over.resolve()
  }

  /** From now on it takes nothing until `drain`. */
  fill(): void {
    this.full = Promise.withResolvers<void>()
  }

  drain(): void {
    this.full?.resolve()
    this.full = undefined
  }

  write(bytes: string | Uint8Array): Promise<unknown> | undefined {
    this.text.push(Buffer.from(bytes).toString())
    this.begun.resolve()
    return this.full?.promise
  }

  writeIdle(bytes: string | Uint8Array): void {
    this.write(bytes)
  }

  finish(bytes: string | Uint8Array): void {
    this.write(bytes)
    this.heard.push('finish')
  }

  close(outcome: string): void {
    this.heard.push(`close ${outcome}`)
  }
}

const turn = (model: string, key?: string) => new Turn({ model, input: 'hi', stream: true }, key)

/** The log line of a turn, after it has ended. */
async function lineOf(of: Turn): Promise<JsonObject> {
  await of.ends
  return await weir.lineOf(of.life.log.requestId)
}

test('a turn is a request: its stream, its settlement, its log line, and then its end', async () => {
  const one = turn('answers')
  expect(await lineOf(one)).toMatchObject({ outcome: 'completed', status: 200, streamed: true, remote: '192.0.2.1' })
  expect(one.heard).toEqual(['answered', 'finish', 'close completed', 'ended'])
  expect(one.text.join('')).toContain('"response.completed"')
  expect(weir.ledger.wrong).toEqual([])
})

test('a turn that fails gets its error before it ends, and the connection has the next one', async () => {
  const one = turn('rejects')
  expect(await lineOf(one)).toMatchObject({ outcome: 'refused', status: 400 })
  expect([one.heard, one.error?.row.status]).toEqual([['failed', 'ended'], 400])
  const next = turn('answers')
  expect(await lineOf(next)).toMatchObject({ outcome: 'completed' })
})

test.each([
  ['without a valid key', 'unknown-key-0123456789', 'answers', 401],
  ['for a model that does not exist', KEY, 'nothing', 404],
])('a turn %s is refused as a POST is', async (_, key, model, status) => {
  const one = turn(model, key)
  await one.ends
  expect([one.heard, one.error?.row.status]).toEqual([['failed', 'ended'], status])
})

test('no turn is begun while the worker drains', async () => {
  weir.service.state.draining = true
  try {
    const one = turn('answers')
    expect(await lineOf(one)).toMatchObject({ error: 'shutting_down', status: 503 })
  } finally {
    weir.service.state.draining = false
  }
})

test('a stream that breaks off is closed with its outcome, and never finished', async () => {
  const one = turn('breaks')
  expect(await lineOf(one)).toMatchObject({ outcome: 'provider_cut' })
  expect(one.heard).toEqual(['answered', 'close provider_cut', 'ended'])
})

test('a caller that leaves aborts its turn, which is settled', async () => {
  const one = turn('stalls')
  await one.begins
  one.hasLeft = true
  one.life.left()
  expect(await lineOf(one)).toMatchObject({ outcome: 'caller_left' })
  expect(one.heard).toEqual(['answered', 'close caller_left', 'ended'])
  expect(weir.ledger.wrong).toEqual([])
})

test('nothing is written to a turn whose connection is full, until it drains; then all of it', async () => {
  const [full, other] = [turn('waits'), turn('waits')]
  full.fill()
  await Promise.all([full.begins, other.begins])
  const before = full.text.join('')
  release.resolve()
  // Its provider sends the rest at the same time, and all of it has come to another turn.
  await other.ends
  expect(other.heard).toContain('close completed')
  expect([full.text.join(''), full.heard]).toEqual([before, ['answered']])
  full.drain()
  expect(await lineOf(full)).toMatchObject({ outcome: 'completed' })
  expect(full.heard).toEqual(['answered', 'finish', 'close completed', 'ended'])
  const deltas = full.text.join('').match(/"delta":"[a-zA-Z ]+"/g)
  expect(deltas).toEqual(['"delta":"Hello"', '"delta":" world"'])
})
