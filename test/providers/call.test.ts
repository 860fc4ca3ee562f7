/** One call to a provider: how it is aborted. */

import { expect, test } from 'bun:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { UpstreamCall } from '../../src/providers/upstream.ts'
import { headOf, textOf } from './exchange.ts'

function endpointAt(baseUrl: string): Endpoint {
  const deadlines = { connectMs: 1000, firstByteMs: { stream: 1000, whole: 1000 }, idleMs: 1000, totalMs: 5000 }
  return { name: 'p', baseUrl, apiKey: 'a-secret', headers: {}, deadlines }
}

test('a call aborted before it begins sends nothing, and does not abort the next one', async () => {
  let requests = 0
  await using server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => {
      requests++
      return new Response('{}', { headers: { 'content-type': 'application/json' } })
    },
  })
  const endpoint = endpointAt(server.url.href)
  const callTo = () =>
    new UpstreamCall({ url: server.url.href, headers: {}, body: '{}' }, endpoint, false, Number.POSITIVE_INFINITY)
  const aborted = callTo()
  aborted.abort()
  expect(await headOf(aborted).catch((error: unknown) => error)).toBeInstanceOf(ProviderError)
  expect(requests).toBe(0)
  // A finished call shares its abort controller with the next: aborting it again must abort nothing.
  const first = callTo()
  expect(await textOf(first)).toBe('{}')
  const second = callTo()
  const answer = textOf(second)
  first.abort()
  expect(await answer).toBe('{}')
})
