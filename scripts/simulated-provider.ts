/**
 * A provider to try the gateway with: answers every conversation as Chat Completions on a free loopback port, word by
 * word. Started by `quickstart.ts`, to which it sends its address, and with which it ends.
 */

const WORD_MS = 20
const GREETING = 'Hello! This answer was made by a simulated provider and came through the gateway, word by word.'
const OTHERWISE =
  'This is the simulated provider: it answers everything with this text. ' +
  'Set OPENAI_API_KEY or ANTHROPIC_API_KEY to use a real one.'

interface Asked {
  readonly model: string
  readonly stream: boolean
  readonly text: string
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function read(body: unknown): Asked {
  const { model, stream, messages } = isObject(body) ? body : {}
  const last: unknown = Array.isArray(messages)
    ? messages.findLast((message) => isObject(message) && message['role'] === 'user')
    : {}
  const content = isObject(last) ? last['content'] : ''
  return {
    model: typeof model === 'string' ? model : 'simulated',
    stream: stream === true,
    text: typeof content === 'string' ? content : JSON.stringify(content ?? ''),
  }
}

/** Plausible usage: a token is a word here. */
function usageOf(asked: Asked, answer: string): object {
  const count = (text: string) => text.split(/\s+/).filter(Boolean).length
  const [prompt_tokens, completion_tokens] = [count(asked.text), count(answer)]
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

async function* events(asked: Asked, answer: string): AsyncGenerator<string> {
  const head = { ...identity('chat.completion.chunk'), model: asked.model }
  const event = (more: object) => `data: ${JSON.stringify({ ...head, ...more })}\n\n`
  const choice = (delta: object, finish_reason: string | null = null) => [{ index: 0, delta, finish_reason }]
  yield event({ choices: choice({ role: 'assistant', content: '' }) })
  for (const content of answer.match(/\s*\S+/g) ?? []) {
    await Bun.sleep(WORD_MS)
    yield event({ choices: choice({ content }) })
  }
  yield event({ choices: choice({}, 'stop') })
  yield event({ choices: [], usage: usageOf(asked, answer) })
  yield 'data: [DONE]\n\n'
}

function identity(object: string): object {
  return { id: `chatcmpl-${crypto.randomUUID()}`, object, created: Math.floor(Date.now() / 1000) }
}

async function answer(request: Request): Promise<Response> {
  if (request.method !== 'POST' || !request.url.endsWith('/v1/chat/completions')) {
    return Response.json({ error: { message: 'Only POST /v1/chat/completions is simulated.' } }, { status: 404 })
  }
  const asked = read(await request.json())
  const text = /\bhello\b/i.test(asked.text) ? GREETING : OTHERWISE
  if (asked.stream) {
    const headers = { 'content-type': 'text/event-stream' }
    return new Response(events(asked, text), { headers })
  }
  const message = { role: 'assistant', content: text }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  return Response.json({ ...identity('chat.completion'), model: asked.model, choices, usage: usageOf(asked, text) })
}

// Ctrl-C goes to every process of a terminal; this one is needed until the gateway has ended.
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
process.on('disconnect', () => process.exit(0))

const provider = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
process.send?.({ url: `http://127.0.0.1:${provider.port}` })
