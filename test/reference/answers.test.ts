/** What weir sends matches `docs/openapi.json`: golden bodies and streams, and every error in every shape. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CALLER_ERRORS, CallerError } from '../../src/core/caller-error.ts'
import { errorBody } from '../../src/dialects/error-body.ts'
import { imagesEvents } from '../../src/dialects/images/answer.ts'
import type { ErrorKind } from '../../tools/openapi/error-responses.ts'
import { checkSent, checkStream } from '../support/api-schema.ts'

const FOLDER = join(import.meta.dir, '../fixtures/callers')
const golden = (file: string) => readFileSync(join(FOLDER, file), 'utf8')

const DIALECTS = [
  ['chat', 'ChatAnswer', 'ChatChunk'],
  ['responses', 'Response', 'ResponsesEvent'],
  ['messages', 'Message', 'MessagesEvent'],
] as const

describe.each(DIALECTS)('%s', (dialect, answer, event) => {
  const files = [...new Bun.Glob('*').scanSync({ cwd: join(FOLDER, dialect) })].sort()
  test('there are golden bodies and streams', () => expect(files.length).toBeGreaterThan(15))

  test.each(files)('%s', (file) => {
    const text = golden(`${dialect}/${file}`)
    if (file.endsWith('.json')) checkSent(answer, JSON.parse(text))
    else checkStream(event, text)
  })
})

describe.each(Object.keys(CALLER_ERRORS) as ErrorKind[])('%s', (kind) => {
  const details = kind === 'thread_not_found' ? { error_code: 'thread_not_found' } : undefined
  const error = new CallerError(kind, 'What is wrong.', { param: 'model', details })

  test('matches the schema on every path', () => {
    checkSent('Error', errorBody(error, 'chat', 'req_1'))
    const shape = error.row.stage === 'body' ? 'MessagesBodyError' : 'MessagesError'
    checkSent(shape, errorBody(error, 'messages', 'req_1'))
    checkSent('MessagesPathError', errorBody(error, 'messages', 'req_1'))
  })
})

test('streams of images match their schema', () => {
  const body = {
    created: 1,
    data: [{ b64_json: 'AA==' }, { b64_json: 'AB==' }],
    size: '1x1',
    usage: { total_tokens: 3 },
  }
  checkStream('ImageEvent', imagesEvents('generations', { text: '', body, model: 'm' }))
  checkStream('ImageEvent', imagesEvents('edits', { text: '', body, model: 'm' }))
  checkSent('Images', body)
})

describe('what does not match is found', () => {
  const body = JSON.parse(golden('chat/text.json'))
  const rows: readonly (readonly [string, () => void])[] = [
    ['a field that the document does not have', () => checkSent('ChatAnswer', { ...body, extra: 1 })],
    ['a missing field', () => checkSent('ChatAnswer', { ...body, usage: undefined })],
    ['a wrong type', () => checkSent('ChatAnswer', { ...body, created: 'now' })],
    ['an unknown event', () => checkStream('MessagesEvent', 'event: x\ndata: {"type":"x"}\n\n')],
    [
      'an event under the name of another',
      () => checkStream('MessagesEvent', 'event: ping\ndata: {"type":"message_stop"}\n\n'),
    ],
    [
      'a field of the wrong event',
      () => checkStream('MessagesEvent', 'event: ping\ndata: {"type":"ping","index":0}\n\n'),
    ],
    ['a schema that does not exist', () => checkSent('NoSuchSchema', {})],
  ]
  test.each(rows)('%s', (_, check) => expect(check).toThrow())
})
