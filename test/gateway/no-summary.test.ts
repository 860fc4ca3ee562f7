/**
 * An answer to a compaction that is no summary fails the request, and is no failure of its target: a caller who asks
 * for one token, or whose conversation a filter stops, must not make the target rest for others.
 */

import { expect, test } from 'bun:test'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { chatBody, json, stream } from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { calls, speaks, textAnswer } from '../support/speech.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

const OTHER_KEY = 'other-key-0123456789abcdef'
const organizations = [
  { id: 'test', keys: [{ id: 'test-key', key: KEY }] },
  { id: 'other', keys: [{ id: 'other-key', key: OTHER_KEY }] },
]
const COMPACTION = { input: [{ role: 'user', content: 'hi' }, { type: 'compaction_trigger' }] }
const answers = (...speech: Parameters<typeof textAnswer>) => speaks('openai', () => textAnswer(...speech))
const TOOL_CALL = speaks('openai', () => calls('', { id: 'call_1', name: 'f', json: '{}' }))
const REFUSED = { refusal: 'I cannot help with that.' }
const refuses: Scenario = (call) => {
  const choice = { index: 0, finish_reason: 'stop' }
  const chunk = `data: ${JSON.stringify({ choices: [{ ...choice, delta: REFUSED }] })}\n\n`
  if (call.json['stream'] === true) return stream([chunk, 'data: [DONE]\n\n'])(call)
  return json(200, JSON.stringify({ choices: [{ ...choice, message: { role: 'assistant', ...REFUSED } }] }))(call)
}

const rows: readonly (readonly [string, Scenario, RegExp])[] = [
  ['cut by the output limit', answers('', 'length'), /output limit .*Raise 'max_output_tokens'/],
  ['blank', answers(' \n'), /answer of the model is empty/],
  ['stopped by a filter', answers('', 'filter'), /content filter/],
  ['begun and stopped by a filter', answers('The user wan', 'filter'), /content filter/],
  ['a tool call', TOOL_CALL, /called a tool/],
  ['a refusal', refuses, /refused/],
]

test.each(rows)('%s', async (_, scenario, message) => {
  await using upstream = await Upstream.start({ m: scenario, spare: answers('All is well.') })
  await using serving = new Serving({
    providers: { up: upstream.url },
    models: { only: ['up/m'], m: ['up/m', 'up/spare'] },
    config: { organizations },
  })
  const compact = (model: string, stream: boolean) =>
    ask(serving.port, requestBytes('/v1/responses', { key: KEY, body: { model, stream, ...COMPACTION } }))
  for (let i = 0; i < 4; i++) {
    const answer = await compact('only', false)
    expect(answer.status).toBe(502)
    expect(JSON.parse(answer.text).error).toMatchObject({
      code: 'upstream_failed',
      message: expect.stringMatching(message),
    })
  }
  // Of a stream, the events before the summary may have been sent.
  for (let i = 0; i < 4; i++) {
    const { status, end, text } = await compact('only', true)
    expect(['502 whole', '200 cut']).toContain(`${status} ${end === 'whole' ? 'whole' : 'cut'}`)
    expect(text).not.toContain('"type":"compaction"')
  }
  expect(JSON.parse((await compact('m', false)).text).output).toMatchObject([{ type: 'compaction' }])
  await serving.idle()
  expect(serving.peerUpdates.filter(({ about }) => about === 'rest')).toEqual([])

  upstream.on('m', json(200, chatBody('Hello')))
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
  const answer = await ask(serving.port, requestBytes('/v1/chat/completions', { key: OTHER_KEY, body }))
  expect([answer.status, upstream.calls.at(-1)?.model]).toEqual([200, 'm'])
})
