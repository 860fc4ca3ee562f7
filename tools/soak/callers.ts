/**
 * Callers that send requests in all dialects without a pause, and check the result: an answer, a well-formed error, or
 * a proper cut.
 */

import { type Answer, Caller, requestBytes } from '../../test/support/caller.ts'

const messages = [{ role: 'user', content: 'Describe the river.' }]
const DIALECTS = [
  { path: '/v1/chat/completions', body: { messages }, last: 'data: [DONE]' },
  { path: '/v1/responses', body: { input: messages }, last: 'event: response.completed' },
  { path: '/v1/messages', body: { messages, max_tokens: 500 }, last: 'event: message_stop' },
] as const

/** The statuses that a caller may get; a 500 is a bug. */
const STATUSES: ReadonlySet<number> = new Set([400, 413, 429, 502, 503, 504])
/** Three candidates have two deadlines of 700 ms each; the rest is for a busy machine. */
const ANSWER_MS_MAX = 30_000
/** The share of callers that disconnect. */
const DISCONNECTS = 0.05

export interface Outcomes {
  readonly kinds: Map<string, number>
  /** Wrong results, each with the end of its text. */
  readonly wrong: string[]
  fallbacks: number
}

/** Where callers wait between two requests while the gateway is at rest, so that only what stays is measured. */
export class Rest {
  private waiting = 0
  private reached: (() => void) | undefined
  private over: PromiseWithResolvers<void> | undefined

  constructor(private callers: number) {}

  /** Resolves when no caller has a request. `end` sends them on. */
  begin(): Promise<void> {
    this.over = Promise.withResolvers()
    return new Promise((resolve) => {
      this.reached = resolve
      this.look()
    })
  }

  end(): void {
    this.over?.resolve()
    this.over = undefined
    this.waiting = 0
  }

  /** A caller is between two requests. */
  async pass(): Promise<void> {
    if (this.over === undefined) return
    this.waiting++
    this.look()
    await this.over.promise
  }

  /** A caller sends no more. */
  leave(): void {
    this.callers--
    this.look()
  }

  private look(): void {
    if (this.waiting === this.callers) this.reached?.()
  }
}

interface Calling {
  readonly untilMs: number
  readonly port: number
  readonly key: string
  readonly rest: Rest
}

export async function callUntil({ untilMs, port, key, rest }: Calling, outcomes: Outcomes): Promise<void> {
  for (;;) {
    await rest.pass()
    if (performance.now() >= untilMs) return rest.leave()
    const kind = await one(port, key, outcomes).catch((error: unknown) => `wrong: ${String(error).slice(0, 300)}`)
    outcomes.kinds.set(kind.split(':')[0] ?? kind, (outcomes.kinds.get(kind.split(':')[0] ?? kind) ?? 0) + 1)
    if (kind.startsWith('wrong') && outcomes.wrong.length < 20) outcomes.wrong.push(kind)
  }
}

async function one(port: number, key: string, outcomes: Outcomes): Promise<string> {
  const dialect = DIALECTS[Math.floor(Math.random() * DIALECTS.length)] ?? DIALECTS[0]
  const stream = Math.random() < 0.7
  await using caller = await Caller.connect(port)
  caller.send(requestBytes(dialect.path, { key, body: { model: 'm', stream, ...dialect.body } }))
  if (Math.random() < DISCONNECTS) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40))
    caller.reset()
    return 'disconnected'
  }
  const late = Promise.withResolvers<'late'>()
  const timer = setTimeout(() => late.resolve('late'), ANSWER_MS_MAX)
  const answer = await Promise.race([caller.answer(), late.promise])
  clearTimeout(timer)
  if (answer === 'late') return `wrong: no answer within ${ANSWER_MS_MAX} ms`
  outcomes.fallbacks += Number(answer.header('x-gateway-fallback-count') ?? 0)
  return kindOf(answer, stream, dialect.last)
}

function kindOf(answer: Answer, stream: boolean, last: string): string {
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
