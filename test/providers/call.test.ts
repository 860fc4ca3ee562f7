/** One call to a provider, by itself: how it ends from outside. */

import { expect, test } from 'bun:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { UpstreamCall } from '../../src/providers/upstream.ts'

function endpointAt(baseUrl: string): Endpoint {
  const deadlines = { connectMs: 1000, firstByteMs: { stream: 1000, whole: 1000 }, idleMs: 1000, totalMs: 5000 }
  return { name: 'p', baseUrl, apiKey: 'a-secret', headers: {}, deadlines }
}

test('a call that is ended before it begins asks nobody, and the next one is not ended with it', async () => {
  let asked = 0
  await using server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      asked++
      return new Response('{}', { headers: { 'content-type': 'application/json' } })
    },
  })
  const endpoint = endpointAt(server.url.href)
  const callTo = () =>
    new UpstreamCall({ url: server.url.href, headers: {}, body: '{}' }, endpoint, false, Number.POSITIVE_INFINITY)
  const ended = callTo()
  ended.abort()
  expect(await ended.open().catch((error: unknown) => error)).toBeInstanceOf(ProviderError)
  expect(asked).toBe(0)
  // Whatever a finished call leaves to the next one: to end it again ends nothing.
  const first = callTo()
  await first.open()
  expect(await first.text()).toBe('{}')
  const second = callTo()
  const opening = second.open()
  first.abort()
  await opening
  expect(await second.text()).toBe('{}')
})
