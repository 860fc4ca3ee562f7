/** Callers that ask without a pause, in all dialects, and judge what they get: an answer, an error as it should be, or a proper cut. */

import { type Answer, Caller, requestBytes } from '../test/support/caller.ts'

const messages = [{ role: 'user', content: 'Tell me of the river.' }]
const DIALECTS = [
  { path: '/v1/chat/completions', body: { messages }, last: 'data: [DONE]' },
  { path: '/v1/responses', body: { input: messages }, last: 'event: response.completed' },
  { path: '/v1/messages', body: { messages, max_tokens: 500 }, last: 'event: message_stop' },
] as const

/** What a caller may be told; a 500 is a bug. */
const STATUSES: ReadonlySet<number> = new Set([400, 413, 429, 502, 503, 504])
/** Two deadlines of 700 ms a candidate, three candidates, and a busy machine. */
const PATIENCE_MS = 30_000
const LEAVES = 0.05

export interface Tallied {
  readonly kinds: Map<string, number>
  /** What should not be, with its beginning. */
  readonly wrong: string[]
  fallbacks: number
}

export async function callUntil(untilMs: number, port: number, key: string, tallied: Tallied): Promise<void> {
  while (performance.now() < untilMs) {
    const kind = await one(port, key, tallied).catch((error: unknown) => `wrong: ${String(error).slice(0, 300)}`)
    tallied.kinds.set(kind.split(':')[0] ?? kind, (tallied.kinds.get(kind.split(':')[0] ?? kind) ?? 0) + 1)
    if (kind.startsWith('wrong') && tallied.wrong.length < 20) tallied.wrong.push(kind)
  }
}

async function one(port: number, key: string, tallied: Tallied): Promise<string> {
  const dialect = DIALECTS[Math.floor(Math.random() * DIALECTS.length)] ?? DIALECTS[0]
  const stream = Math.random() < 0.7
  await using caller = await Caller.connect(port)
  caller.send(requestBytes(dialect.path, { key, body: { model: 'm', stream, ...dialect.body } }))
  if (Math.random() < LEAVES) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40))
    caller.reset()
    return 'left'
  }
  const late = Promise.withResolvers<'late'>()
  const timer = setTimeout(() => late.resolve('late'), PATIENCE_MS)
  const answer = await Promise.race([caller.answer(), late.promise])
  clearTimeout(timer)
  if (answer === 'late') return `wrong: no answer within ${PATIENCE_MS} ms`
  tallied.fallbacks += Number(answer.header('x-gateway-fallback-count') ?? 0)
  return judge(answer, stream, dialect.last)
}

function judge(answer: Answer, stream: boolean, last: string): string {
  const { status, end, text } = answer
  const shown = `${status} ${end} ${text.slice(-200)}`
  if (status !== 200) {
    if (!STATUSES.has(status) || end !== 'whole' || !text.includes('"error"')) return `wrong: ${shown}`
    JSON.parse(text)
    return `error ${status}`
  }
  if (!stream) {
    JSON.parse(text)
    return end === 'whole' && text.includes('stone.') ? 'answered' : `wrong: ${shown}`
  }
  const finished = text.includes(last)
  if (end === 'whole') return finished && text.includes('stone.') ? 'streamed' : `wrong: ${shown}`
  if (finished || !(text === '' || text.endsWith('\n\n'))) return `wrong: ${shown}`
  return 'cut'
}
