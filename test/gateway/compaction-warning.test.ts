/**
 * A summary that the output limit cut off is a warning line: a caller that continues from it has lost the rest of the
 * conversation.
 */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { Serving } from '../support/serving.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import type { Speech } from '../support/speech-writer.ts'
import { Upstream } from '../support/upstream.ts'

const cut: Speech = { ...textAnswer('The user wan'), finish: 'length' }
const input = [{ role: 'user', content: 'hi' }]
const trigger = { type: 'compaction_trigger' }

const rows: readonly (readonly [string, Speech, string, JsonObject, boolean])[] = [
  ['streamed', cut, '/v1/responses', { input: [...input, trigger], stream: true }, true],
  ['whole', cut, '/v1/responses', { input: [...input, trigger] }, true],
  ['on its own path', cut, '/v1/responses/compact', { input }, true],
  ['a summary that is whole', textAnswer('All.'), '/v1/responses', { input: [...input, trigger] }, false],
  ['an answer that is none', cut, '/v1/responses', { input, stream: true }, false],
]

test.each(rows)('a cut summary alone is warned of: %s', async (_, speech, path, body, warned) => {
  await using upstream = await Upstream.start({ m: speaks('openai', () => speech) })
  await using serving = new Serving({ providers: { up: upstream.url } })
  const answer = await ask(serving.port, requestBytes(path, { key: KEY, body: { model: 'm', ...body } }))
  expect([answer.status, answer.end]).toEqual([200, 'whole'])
  await serving.idle()
  const warnings = serving.lines.filter((line) => line['event'] === 'compaction.truncated')
  const line = { level: 'warn', request_id: answer.header('x-request-id'), served_model: 'm', provider: 'up' }
  expect(warnings).toMatchObject(warned ? [{ ...line, organization: 'test', key: 'test-key' }] : [])
})
