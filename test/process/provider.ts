/** A provider that speaks Chat Completions and streams at the test's command. */

const encoder = new TextEncoder()

function frame(delta: object, finish: string | null = null): Uint8Array {
  const chunk = {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'upstream',
    choices: [{ index: 0, delta, finish_reason: finish }],
  }
  return encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`)
}

export interface Provider extends Disposable {
  readonly baseUrl: string
  /** Lets every stream end that has begun, and those that begin later. */
  finish(): void
}

/** Every answer is the text "one", and " two" after the test calls `finish`. */
export function provider(): Provider {
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch() {
      const body = new ReadableStream<Uint8Array>({
        async start(controller) {
          try {
            controller.enqueue(frame({ role: 'assistant', content: 'one' }))
            await finished
            controller.enqueue(frame({ content: ' two' }))
            controller.enqueue(frame({}, 'stop'))
            controller.enqueue(encoder.encode('data: [DONE]\n\n'))
            controller.close()
          } catch {
            // The gateway has gone away, which is what some tests want.
          }
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  return { baseUrl: `http://127.0.0.1:${server.port}/v1`, finish, [Symbol.dispose]: () => void server.stop(true) }
}
