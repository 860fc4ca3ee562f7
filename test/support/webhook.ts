/** A receiver of alerts: checks signatures with WebCrypto, which weir does not use, and answers as the test wants. */

import type { JsonObject } from '../../src/core/json.ts'

export const ALERT_SECRET = 'a-secret-of-the-test-0123456789'

export interface ReceivedAlert {
  readonly alert: JsonObject
  /** The header. */
  readonly signature: string
  readonly isGenuine: boolean
}

export interface TestWebhook extends Disposable {
  readonly url: string
  /** Every request, in order. */
  readonly received: ReceivedAlert[]
  /** The answer from now on; by default 200. */
  answer: (attempt: number) => Response | Promise<Response>
  /** Resolves to the alerts that match, once there are `count`. */
  until(count: number, matches?: (alert: JsonObject) => boolean): Promise<readonly JsonObject[]>
}

export function webhook(): TestWebhook {
  const waiting = new Set<() => void>()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const body = await request.text()
      const signature = request.headers.get('weir-signature') ?? ''
      made.received.push({ alert: JSON.parse(body), signature, isGenuine: await isGenuine(body, signature) })
      for (const resolve of waiting) resolve()
      waiting.clear()
      return await made.answer(made.received.length)
    },
  })
  const made: TestWebhook = {
    url: `http://127.0.0.1:${server.port}/hook`,
    received: [],
    answer: () => new Response(),
    async until(count, matches = () => true) {
      for (;;) {
        const found = made.received.map(({ alert }) => alert).filter(matches)
        if (found.length >= count) return found
        await new Promise<void>((resolve) => waiting.add(resolve))
      }
    },
    [Symbol.dispose]: () => void server.stop(true),
  }
  return made
}

async function isGenuine(body: string, signature: string): Promise<boolean> {
  const [, time = '', hex = ''] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature) ?? []
  const text = new TextEncoder()
  const key = await crypto.subtle.importKey(
    'raw',
    text.encode(ALERT_SECRET),
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['verify'],
  )
  return await crypto.subtle.verify('HMAC', key, Buffer.from(hex, 'hex'), text.encode(`${time}.${body}`))
}
