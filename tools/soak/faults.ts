/** The answers of the soak's providers: four out of five are good, the others have one fault each. */

import { isArray, isObject } from '../../src/core/json.ts'
import * as scenario from '../../test/support/scenarios.ts'
import type { Scenario } from '../../test/support/upstream.ts'

const PIECES = ['Water ', 'finds ', 'its ', 'way ', 'around ', 'every ', 'stone.']
const frames = scenario.chatFrames(PIECES)
const [role = '', first = ''] = frames
const begun = frames.slice(0, 4)
const html = { 'content-type': 'text/html' }
const errorEvent = 'data: {"error":{"message":"boom","type":"server_error"}}\n\n'
const halfEvent = 'data: {"choices":[{"index":0,"delta":{"content":"lo'
const errorBody = (message: string) => JSON.stringify({ error: { message } })

/** By name, for the counts in the output. A fault that never answers is ended by the gateway's deadlines. */
export const FAULTS: Readonly<Record<string, Scenario>> = {
  '429': scenario.json(429, errorBody('slow down')),
  '429 with retry-after': scenario.json(429, errorBody('slow down'), { 'retry-after-ms': '40' }),
  '500': scenario.json(500, errorBody('oh')),
  '500 html': scenario.json(500, '<html>', html),
  '502 nothing': scenario.json(502, ''),
  '503': scenario.json(503, errorBody('busy')),
  '529': scenario.json(529, errorBody('busy')),
  '401': scenario.json(401, errorBody('wrong key')),
  '400': scenario.json(400, errorBody('your mistake')),
  '404': scenario.json(404, errorBody('no such model')),
  redirect: scenario.redirects('http://127.0.0.1:1/'),
  'html 200': scenario.json(200, '<html>', html),
  'empty 200': scenario.json(200, ''),
  'half json': scenario.json(200, scenario.chatBody('x').slice(0, 60)),
  'error in 200': scenario.json(200, errorBody('boom')),
  'not http': scenario.raw('220 mail.example ESMTP\r\n'),
  'closed at once': scenario.raw(''),
  'reset at once': (call) => call.reset(),
  silent: scenario.silent(),
  'empty stream': scenario.stream([]),
  'error first': scenario.stream([errorEvent]),
  'malformed first': scenario.stream(['data: {"choices":[}\n\n']),
  'role and end': scenario.stream([role]),
  'endless event': scenario.endless([halfEvent], 'x'.repeat(256 * 1024)),
  bomb: scenario.gzipped(`{"x":"${' '.repeat(34 * 1024 * 1024)}"}`),
  'stalls at once': scenario.stalls([]),
  'stalls later': scenario.stalls(begun),
  'reset later': scenario.resets(begun),
  'no last chunk': scenario.withoutLastChunk(begun),
  'clean end too early': scenario.stream(begun),
  'error later': scenario.stream([...begun, errorEvent]),
  'malformed later': scenario.stream([...begun, 'data: nonsense\n\n']),
  'half an event': scenario.stream([...begun, halfEvent]),
  'broken chunks': scenario.brokenChunks([role, first]),
  'too short': scenario.tooShort(begun),
}

const names = Object.keys(FAULTS)
/** These take so much time that they would dominate the run. */
const RARE: ReadonlySet<string> = new Set(['bomb', 'endless event'])

/** A provider that fails in `share` of its answers; `count` gets the name of each fault. */
export function unreliable(share: number, count: (fault: string) => void): Scenario {
  return (call) => {
    const name = Math.random() < share ? (names[Math.floor(Math.random() * names.length)] ?? '') : ''
    const fault = RARE.has(name) && Math.random() < 0.9 ? undefined : FAULTS[name]
    if (fault === undefined) return good(call)
    count(name)
    return fault(call)
  }
}

const good: Scenario = async (call) => {
  const { messages, stream } = call.json
  if (!isArray(messages) || !messages.every(isObject)) return call.answer(400, errorBody('no messages'))
  if (stream !== true) return call.answer(200, scenario.chatBody(PIECES.join('')))
  await call.head200()
  for (const frame of frames) {
    await new Promise((resolve) => setTimeout(resolve, 2))
    if (!(await call.chunk(frame))) return
  }
  await call.end()
}
