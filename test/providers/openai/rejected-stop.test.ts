/** A model that takes no stop sequences by Chat Completions: weir ends the text itself. */

import { expect, test } from 'bun:test'
import { KEY } from '../../support/gateway.ts'
import * as does from '../../support/scenarios.ts'
import { served } from '../../support/served.ts'

const { upstream, gateway } = await served((url) => ({ providers: { up: url }, models: { m: ['up/m'] } }))

const REJECTION = "Unsupported parameter: 'stop' is not supported with this model."

test.each([
  ['/v1/chat/completions', { stop: ['END'] }],
  ['/v1/messages', { stop_sequences: ['END'], max_tokens: 9 }],
])('%s', async (path, fields) => {
  upstream.otherwise((call) => {
    if ('stop' in call.json)
      return does.json(400, JSON.stringify({ error: { message: REJECTION, param: 'stop' } }))(call)
    return does.answersText('one E', 'ND two')(call)
  })
  for (const stream of [false, true]) {
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], stream, ...fields }
    const answer = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    // Only what the model wrote: an id is random, and may contain any few letters.
    const written = [...(await answer.text()).matchAll(/"(?:content|text)":"([^"]*)"/g)].map(([, text]) => text)
    expect([answer.status, written.join('')]).toEqual([200, 'one '])
  }
  // Two requests to learn it, and one for each after that.
  expect(upstream.calls.filter((call) => 'stop' in call.json)).toHaveLength(1)
})
