/**
 * The simulated providers: one server, a path for each. They answer Chat Completions with as many words as the last
 * message asks for, at the pace of real ones, and fail as real ones do.
 */

import { type Random, spread } from './world.ts'

interface Behaviour {
  /** Until the first token. */
  readonly firstTokenMs: number
  readonly tokensPerSecond: number
  /** The share of requests that fail with this status. */
  readonly failures: (sinceStartMs: number) => { readonly share: number; readonly status: number }
}

const MINUTE_MS = 60_000

const behaviours: Readonly<Record<string, Behaviour>> = {
  openai: { firstTokenMs: 320, tokensPerSecond: 90, failures: () => ({ share: 0.004, status: 500 }) },
  azure: { firstTokenMs: 410, tokensPerSecond: 70, failures: () => ({ share: 0.02, status: 503 }) },
  mistral: { firstTokenMs: 260, tokensPerSecond: 80, failures: () => ({ share: 0.002, status: 500 }) },
  // Down for 40 s of every four minutes, the first time after half a minute.
  local: {
    firstTokenMs: 180,
    tokensPerSecond: 55,
    failures: (ms) => ({ share: isWithin(ms % (4 * MINUTE_MS), 30_000, 70_000) ? 1 : 0, status: 503 }),
  },
}

export const PROVIDERS: readonly string[] = Object.keys(behaviours)

const CHUNK_MS = 100
const WORDS = 'the weir holds the river back and lets a measured stream pass on to the mills below it'.split(' ')

/** What the demo's callers ask for at the end of their prompt. */
const WANTED = /in (\d+) words/

function isWithin(value: number, from: number, to: number): boolean {
  return value >= from && value < to
}

/** Starts the providers on a free loopback port. */
export function startProviders(random: Random): { readonly url: string; stop(): Promise<void> } {
  const startedMs = Date.now()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const behaviour = behaviours[new URL(request.url).pathname.split('/')[1] ?? '']
      if (behaviour === undefined) return Response.json({ error: { message: 'no such provider' } }, { status: 404 })
      const { share, status } = behaviour.failures(Date.now() - startedMs)
      if (random() < share) return Response.json({ error: { message: 'overloaded' } }, { status })
      return await answer(request, behaviour, random)
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

interface Asked {
  readonly model: string
  readonly stream?: boolean
  readonly messages: readonly { readonly content: string }[]
}

async function answer(request: Request, behaviour: Behaviour, random: Random): Promise<Response> {
  const asked = (await request.json()) as Asked
  const text = asked.messages.map(({ content }) => content).join(' ')
  const words = Number(WANTED.exec(text.slice(-100))?.[1] ?? 20)
  const firstTokenMs = spread(behaviour.firstTokenMs, random)
  const usage = { prompt_tokens: text.split(' ').length, completion_tokens: words }
  const reported = { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens }
  if (asked.stream === true) {
    const body = streamed(asked.model, {
      words,
      firstTokenMs,
      tokensPerSecond: behaviour.tokensPerSecond,
      usage: reported,
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
  await Bun.sleep(firstTokenMs + (words / behaviour.tokensPerSecond) * 1000)
  const message = { role: 'assistant', content: sentence(0, words) }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  return Response.json({ ...head('chat.completion', asked.model), choices, usage: reported })
}

interface Pace {
  readonly words: number
  readonly firstTokenMs: number
  readonly tokensPerSecond: number
  readonly usage: object
}

async function* streamed(model: string, { words, firstTokenMs, tokensPerSecond, usage }: Pace): AsyncGenerator<string> {
  const common = head('chat.completion.chunk', model)
  const event = (more: object) => `data: ${JSON.stringify({ ...common, ...more })}\n\n`
  const choice = (delta: object, finish_reason: string | null = null) => [{ index: 0, delta, finish_reason }]
  await Bun.sleep(firstTokenMs)
  yield event({ choices: choice({ role: 'assistant', content: '' }) })
  const step = Math.max(1, Math.round((tokensPerSecond * CHUNK_MS) / 1000))
  for (let at = 0; at < words; at += step) {
    yield event({ choices: choice({ content: sentence(at, Math.min(words, at + step)) }) })
    await Bun.sleep(CHUNK_MS)
  }
  yield event({ choices: choice({}, 'stop') })
  yield event({ choices: [], usage })
  yield 'data: [DONE]\n\n'
}

function sentence(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, at) => `${WORDS[(from + at) % WORDS.length]} `).join('')
}

function head(object: string, model: string): object {
  return { id: `chatcmpl-${crypto.randomUUID()}`, object, created: Math.floor(Date.now() / 1000), model }
}
