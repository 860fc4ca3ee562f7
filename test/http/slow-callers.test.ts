/**
 * Slow callers and providers, at the running program over raw sockets: which connections are closed, and which must
 * stay open. All start at once and are checked when they end, because the limits are 10 seconds and more.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Answer, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const CHAT = '/v1/chat/completions'
const PIECE_MS = 250

/** How a connection of a slow caller went. */
interface Course {
  readonly answer: Answer | undefined
  /** Seconds from the beginning to the answer and to the end of the connection; no end if the caller ended it. */
  readonly answerSeconds: number
  readonly endSeconds: number | undefined
}

let upstream: Upstream
let gateway: Gateway
const open: Caller[] = []
const courses = new Map<string, Promise<Course>>()

interface Slow {
  readonly first: string | Uint8Array
  /** Sent again and again, one every 250 ms, as long as there are any and the connection is open. */
  readonly pieces?: Iterable<string | Uint8Array>
  /** Whether the end of the connection is waited for. */
  readonly until: 'answer' | 'end'
}

async function course({ first, pieces = [], until }: Slow): Promise<Course> {
  const caller = await Caller.connect(gateway.port)
  open.push(caller)
  const beganMs = performance.now()
  const seconds = () => (performance.now() - beganMs) / 1000
  caller.send(first)
  let ended = false
  void caller.ended().then(() => {
    ended = true
  })
  const sending = (async () => {
    for (const piece of pieces) {
      await Bun.sleep(PIECE_MS)
      if (ended) return
      caller.send(piece)
    }
  })()
  const answer = await caller.answer().catch(() => undefined)
  const answerSeconds = seconds()
  if (until === 'answer') {
    await sending
    return { answer, answerSeconds, endSeconds: undefined }
  }
  await caller.ended()
  return { answer, answerSeconds, endSeconds: seconds() }
}

function* forEver(piece: string): Generator<string> {
  for (;;) yield piece
}

/** The text in `count` pieces. */
function pieces(text: string, count: number): string[] {
  const size = Math.ceil(text.length / count)
  return Array.from({ length: count }, (_, at) => text.slice(at * size, (at + 1) * size)).filter(Boolean)
}

const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const head = (path: string, declared: number) =>
  requestBytes(path, { method: 'POST', key: KEY, fields: { 'content-length': String(declared) } })
const chunked = requestBytes(CHAT, { method: 'POST', key: KEY, fields: { 'transfer-encoding': 'chunked' } })
const upload = JSON.stringify({ ...BODY, messages: [{ role: 'user', content: 'x'.repeat(30_000) }] })

const [role = '', hello = '', ...restOf] = does.chatFrames(['Hello'])

beforeAll(async () => {
  const release = Promise.withResolvers<void>()
  upstream = await Upstream.start({
    m: does.answersText('Hel', 'lo'),
    silent: does.waits([role, hello], release.promise, does.rest(restOf)),
    late: async (call) => {
      await release.promise
      await does.answersText('late')(call)
    },
  })
  gateway = await Gateway.start({
    providers: { up: upstream.url },
    models: { m: ['up/m'], silent: ['up/silent'], late: ['up/late'] },
    // Bun's own limit on silence of a provider, 300 s unless set: it must not apply before those of the configuration.
    env: { BUN_CONFIG_HTTP_IDLE_TIMEOUT: '1' },
  })
  const begin = (name: string, slow: Slow) => courses.set(name, course(slow))
  begin('a connection that sends nothing', { first: '', until: 'end' })
  begin('half a request line', { first: 'POST /v1/ch', until: 'end' })
  begin('a head that trickles', {
    first: 'GET /v1/models HTTP/1.1\r\nHost: h\r\nX-Slow: ',
    pieces: forEver('a'),
    until: 'end',
  })
  begin('a head that trickles, with a key', {
    first: `GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${KEY}\r\nX-Slow: `,
    pieces: forEver('a'),
    until: 'end',
  })
  begin('a body without a key', {
    first: requestBytes(CHAT, { method: 'POST', fields: { 'content-length': '100' } }),
    until: 'end',
  })
  for (const path of [CHAT, '/v1/messages'])
    begin(`half a body, at ${path}`, { first: Buffer.concat([head(path, 100), Buffer.from('{"mo')]), until: 'end' })
  begin('a body that trickles', { first: head(CHAT, 2000), pieces: forEver(' '), until: 'end' })
  begin('a slow upload', { first: head(CHAT, upload.length), pieces: pieces(upload, 56), until: 'answer' })
  begin('a slow upload in chunks', {
    first: chunked,
    pieces: [...pieces(upload, 56).map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`), '0\r\n\r\n'],
    until: 'answer',
  })
  for (const name of ['silent', 'late'])
    begin(name, {
      first: requestBytes(CHAT, { key: KEY, body: { ...BODY, model: name, stream: name === 'silent' } }),
      until: 'answer',
    })
  begin('silent, as Messages', {
    first: requestBytes('/v1/messages', { key: KEY, body: { ...BODY, model: 'silent', stream: true, max_tokens: 9 } }),
    until: 'answer',
  })
  // Past the idle limit of the runtime and past the first sign of life.
  void Bun.sleep(16_500).then(() => release.resolve())
})

afterAll(async () => {
  for (const caller of open) caller.close()
  await gateway[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

async function ofCourse(name: string): Promise<Course> {
  const found = await courses.get(name)
  if (found === undefined) throw new Error(`nothing was begun under the name ${name}`)
  return found
}

describe('closed without an answer, within 15 s', () => {
  test.each([
    'a connection that sends nothing',
    'half a request line',
    'a head that trickles',
    'a head that trickles, with a key',
  ])('%s', async (name) => {
    const { answer, endSeconds } = await ofCourse(name)
    expect(answer).toBeUndefined()
    expect(endSeconds).toBeWithin(5, 15)
  })
})

test('a body is not waited for without a key', async () => {
  const { answer, endSeconds } = await ofCourse('a body without a key')
  expect(answer?.status).toBe(401)
  expect(endSeconds).toBeLessThan(15)
})

describe('a body below 1 KiB/s is 408 and the end of its connection', () => {
  test.each([`half a body, at ${CHAT}`, 'half a body, at /v1/messages', 'a body that trickles'])('%s', async (name) => {
    const { answer, answerSeconds, endSeconds } = await ofCourse(name)
    expect(answer?.status).toBe(408)
    expect(answer?.json()).toMatchObject({ error: { code: 'request_timeout', type: 'invalid_request_error' } })
    expect(['cache-control', 'connection', 'x-should-retry'].map((field) => answer?.header(field))).toEqual([
      ...['no-store', 'close', 'false'],
    ])
    expect(answerSeconds).toBeWithin(14, 20)
    expect(endSeconds).toBeLessThan(answerSeconds + 1)
    expect(await gateway.request(answer?.header('x-request-id'))).toMatchObject({
      ...{ status: 408, outcome: 'refused', error: 'request_timeout', organization: 'test' },
    })
  })
})

describe('slow, and not closed', () => {
  test.each(['a slow upload', 'a slow upload in chunks'])('%s, above 1 KiB/s', async (name) => {
    const { answer, answerSeconds } = await ofCourse(name)
    expect(answer?.status).toBe(200)
    expect(answerSeconds).toBeGreaterThan(13)
  })

  test('a provider that falls silent in a stream: a comment every 15 s', async () => {
    const { answer, answerSeconds } = await ofCourse('silent')
    expect(answer?.text).toContain('"Hello"')
    expect(answer?.text).toContain('\n\n: keep-alive\n\n')
    expect([answer?.end, answer?.text.endsWith('data: [DONE]\n\n')]).toEqual(['whole', true])
    expect(answerSeconds).toBeGreaterThan(16)
  })

  test('the same as Messages: a ping every 15 s', async () => {
    const { answer } = await ofCourse('silent, as Messages')
    expect(answer?.text).toContain('\n\nevent: ping\ndata: {"type":"ping"}\n\n')
    expect([answer?.end, answer?.text.includes('event: message_stop')]).toEqual(['whole', true])
  })

  test('a provider that thinks before a whole answer', async () => {
    const { answer, answerSeconds } = await ofCourse('late')
    expect([answer?.status, answer?.end]).toEqual([200, 'whole'])
    expect(answerSeconds).toBeGreaterThan(16)
  })
})
