/**
 * No key, no credential and no content may be written: secrets are planted wherever they could come from,
 * and then looked for.
 */

import { expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { closedPort, type Scenario, Upstream } from '../support/upstream.ts'
import { CHAT } from './stage.ts'

let planted = 0
/** A word that occurs nowhere else. All contain `canary`, so that one search finds each. */
const canary = (place: string) => `canary-${place}-${planted++}-0123456789`
/** A frame with the arguments of a tool call. */
const callFrame = (json: string) => {
  const delta = { tool_calls: [{ index: 0, function: { arguments: json } }] }
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: 'tool_calls' }] })}\n\n`
}

const key = canary('key')
const [role = '', hello = '', ...restOf] = does.chatFrames([canary('answer'), canary('answer')])
const quoted = () =>
  JSON.stringify({
    error: {
      message: `${canary('error')} ${canary('error')}`,
      type: canary('type'),
      code: canary('code'),
      param: canary('param'),
    },
  })
const errorEvent = () => `data: ${quoted()}\n\n`
const withHeaders = {
  'x-request-id': canary('header'),
  'set-cookie': canary('cookie'),
  location: `http://${canary('location')}/`,
}

const scenarios: Readonly<Record<string, Scenario>> = {
  answers: does.answersText(canary('answer')),
  ...Object.fromEntries(
    [400, 401, 403, 404, 413, 429, 500, 503, 504].map((status) => [
      `s${status}`,
      (call) => does.json(status, quoted(), withHeaders)(call),
    ]),
  ),
  redirect: does.redirects(`http://${canary('location')}.example/`),
  html: does.json(200, `<html>${canary('html')}`, { 'content-type': `text/html; ${canary('type')}` }),
  'no-json': does.json(200, `{"${canary('json')}`),
  'not-http': does.raw(`${canary('raw')}\r\n\r\n`),
  'error-event': does.stream([role, errorEvent()]),
  'error-later': does.stream([role, hello, errorEvent()]),
  'nonsense-later': does.stream([role, hello, `data: {"${canary('frame')}\n\n`]),
  'cut-later': does.withoutLastChunk([role, hello]),
  'gzip-lie': does.json(200, canary('body'), { 'content-encoding': 'gzip' }),
  gzip: does.json(200, gzipSync(canary('body')), { 'content-encoding': 'gzip' }),
  'bad-call': does.stream([callFrame(canary('arguments'))]),
  stalls: does.stalls([role, hello]),
  silent: does.silent(),
  rest: does.stream([role, hello, ...restOf]),
}

const conversation = () => ({
  messages: [
    { role: 'system', content: canary('system') },
    {
      role: 'user',
      content: [
        { type: 'text', text: canary('prompt') },
        { type: 'image_url', image_url: { url: `https://${canary('image')}.example.com/` } },
      ],
    },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: canary('call'), type: 'function', function: { name: 'f', arguments: `{"a":"${canary('arguments')}"}` } },
      ],
    },
    { role: 'tool', tool_call_id: 'x', content: canary('result') },
  ],
  user: canary('user'),
  tools: [
    {
      type: 'function',
      function: {
        name: 'f',
        description: canary('tool'),
        parameters: { type: 'object', properties: { [canary('field')]: {} } },
      },
    },
  ],
})

test('nothing that was planted is ever written', async () => {
  await using upstream = await Upstream.start(scenarios)
  const entry = (base_url: string) => ({
    dialect: 'openai',
    base_url,
    api_key: canary('provider-key'),
    headers: { 'x-team': canary('provider-header') },
  })
  await using gateway = await Gateway.start({
    providers: {
      up: entry(`http://127.0.0.1:${upstream.port}/${canary('base-path')}/v1`),
      gone: entry(`http://127.0.0.1:${await closedPort()}/${canary('base-path')}/v1`),
      nowhere: entry(`http://${canary('host')}.invalid/v1`),
      plain: entry(`https://127.0.0.1:${upstream.port}/${canary('base-path')}`),
    },
    models: {
      ...Object.fromEntries(Object.keys(scenarios).map((name) => [name, [`up/${name}`]])),
      gone: ['gone/x'],
      nowhere: ['nowhere/x'],
      plain: ['plain/x'],
    },
    config: {
      drain_seconds: 1,
      organizations: [
        {
          id: 'test',
          keys: [
            { id: 'test-key', key },
            { id: 'old', key: canary('old'), disabled: true },
          ],
        },
      ],
    },
  })
  const names = [...Object.keys(scenarios), 'gone', 'nowhere', 'plain']
  for (const name of names) {
    for (const stream of [true, false]) {
      await using caller = await Caller.connect(gateway.port)
      caller.send(
        requestBytes(CHAT, {
          key,
          body: { model: name, stream, ...conversation() },
          fields: { 'x-stainless-lang': canary('header'), cookie: canary('cookie') },
        }),
      )
      if (name === 'silent' || name === 'stalls') await upstream.call(name, stream ? 0 : 1)
      else await caller.answer().catch(() => undefined)
    }
  }
  await refusals(gateway)
  // Requests that run when the process ends are cut.
  await using last = await Caller.connect(gateway.port)
  last.send(requestBytes(CHAT, { key, body: { model: 'stalls', stream: true, ...conversation() } }))
  await last.until('data: ')
  expect(await gateway.stop()).toEqual({ code: 0, signal: null })

  const lines = gateway.lines.filter(({ msg }) => msg === 'request')
  expect(new Set(lines.map((line) => line['outcome']))).toEqual(
    new Set(['completed', 'refused', 'timed_out', 'caller_left', 'provider_cut', 'drained']),
  )
  expect(lines.length).toBeGreaterThan(2 * names.length)
  const found = gateway.output.split('\n').filter((line) => line.toLowerCase().includes('canary'))
  // A log line may hold two things of a request: the model name, even a made-up one, and a refused path, no query. Of a
  // provider it may have the code and the message of an error.
  const allowed = [
    /"requested_model":"made-up canary"/,
    /"path":"\/v1\/canary-path[^"?]*"/,
    /"provider_code":"canary-(?:code|type)-\d+-0123456789"/g,
    /"provider_message":"canary-error-\d+-0123456789 canary-error-\d+-0123456789"/g,
  ]
  const rest = (line: string) => allowed.reduce((text, part) => text.replace(part, ''), line.toLowerCase())
  expect(found.filter((line) => rest(line).includes('canary'))).toEqual([])
  expect(found.filter((line) => !line.includes('"provider_'))).toHaveLength(2)
})

/** What the edge refuses, with secrets in every place. */
async function refusals(gateway: Gateway): Promise<void> {
  const bodies = [
    `{"${canary('body')}`,
    '[]',
    { model: 'answers', api_key: canary('field') },
    { model: 'answers', messages: canary('field') },
  ]
  for (const body of bodies) await ask(gateway.port, requestBytes(CHAT, { key, body }))
  await ask(gateway.port, requestBytes(CHAT, { key, body: { model: 'made-up canary', ...conversation() } }))
  for (const wrong of [canary('wrong-key'), `${key}, ${key}`])
    await ask(gateway.port, requestBytes(CHAT, { key: wrong, body: {} }))
  await ask(gateway.port, requestBytes(CHAT, { key, body: {}, fields: { 'x-api-key': canary('wrong-key') } }))
  await ask(gateway.port, requestBytes(`/v1/${canary('path')}?key=${canary('query')}`, { key }))
  await ask(gateway.port, requestBytes('/v1/models', { key: canary('wrong-key') }))
}
