/** What the providers of the soak do: a good answer four times out of five, else one of everything that providers do wrong. */

import { isArray, isObject } from '../src/core/json.ts'
import * as does from '../test/support/scenarios.ts'
import type { Scenario } from '../test/support/upstream.ts'

const PIECES = ['Water ', 'finds ', 'its ', 'way ', 'around ', 'every ', 'stone.']
const frames = does.chatFrames(PIECES)
const [role = '', first = ''] = frames
const begun = frames.slice(0, 4)
const html = { 'content-type': 'text/html' }
const errorEvent = 'data: {"error":{"message":"boom","type":"server_error"}}\n\n'
const halfEvent = 'data: {"choices":[{"index":0,"delta":{"content":"lo'
const said = (message: string) => JSON.stringify({ error: { message } })

/** By name, so that a figure can be printed for each. Those that wait end by the gateway's deadlines. */
export const FAULTS: Readonly<Record<string, Scenario>> = {
  '429': does.json(429, said('slow down')),
  '429 with retry-after': does.json(429, said('slow down'), { 'retry-after-ms': '40' }),
  '500': does.json(500, said('oh')),
  '500 html': does.json(500, '<html>', html),
  '502 nothing': does.json(502, ''),
  '503': does.json(503, said('busy')),
  '529': does.json(529, said('busy')),
  '401': does.json(401, said('wrong key')),
  '400': does.json(400, said('your mistake')),
  '404': does.json(404, said('no such model')),
  redirect: does.redirects('http://127.0.0.1:1/'),
  'html 200': does.json(200, '<html>', html),
  'empty 200': does.json(200, ''),
  'half json': does.json(200, does.chatBody('x').slice(0, 60)),
  'error in 200': does.json(200, said('boom')),
  'not http': does.raw('220 mail.example ESMTP\r\n'),
  'closed at once': does.raw(''),
  'reset at once': (call) => call.reset(),
  silent: does.silent(),
  'empty stream': does.stream([]),
  'error first': does.stream([errorEvent]),
  'malformed first': does.stream(['data: {"choices":[}\n\n']),
  'role and end': does.stream([role]),
  'endless event': does.endless([halfEvent], 'x'.repeat(256 * 1024)),
  bomb: does.gzipped(`{"x":"${' '.repeat(34 * 1024 * 1024)}"}`),
  'stalls at once': does.stalls([]),
  'stalls later': does.stalls(begun),
  'reset later': does.resets(begun),
  'no last chunk': does.withoutLastChunk(begun),
  'clean end too early': does.stream(begun),
  'error later': does.stream([...begun, errorEvent]),
  'malformed later': does.stream([...begun, 'data: nonsense\n\n']),
  'half an event': does.stream([...begun, halfEvent]),
  'broken chunks': does.brokenChunks([role, first]),
  'too short': does.tooShort(begun),
}

const names = Object.keys(FAULTS)
/** These cost so much time that they would be all that is measured. */
const RARE: ReadonlySet<string> = new Set(['bomb', 'endless event'])

/** `note` takes the name of each fault. */
export function fickle(share: number, note: (fault: string) => void): Scenario {
  return (call) => {
    const name = Math.random() < share ? (names[Math.floor(Math.random() * names.length)] ?? '') : ''
    const fault = RARE.has(name) && Math.random() < 0.9 ? undefined : FAULTS[name]
    if (fault === undefined) return good(call)
    note(name)
    return fault(call)
  }
}

const good: Scenario = async (call) => {
  const { messages, stream } = call.json
  if (!isArray(messages) || !messages.every(isObject)) return call.answer(400, said('no messages'))
  if (stream !== true) return call.answer(200, does.chatBody(PIECES.join('')))
  await call.head200()
  for (const frame of frames) {
    await new Promise((resolve) => setTimeout(resolve, 2))
    if (!(await call.chunk(frame))) return
  }
  await call.end()
}
