/** The stage of the end-to-end tests: a provider simulator that speaks like the real one, and the gateway in front of it. */

import { LLMock } from '@copilotkit/aimock'
import { Gateway, type GatewaySetup } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'

export const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } as const
export const HELLO = 'Hello from the other side: 日本語, 👩‍👩‍👧‍👦 and "quotes"\n\twith tabs.'
export const OSLO = { name: 'get_weather', arguments: '{"city":"Oslo"}', id: 'call_oslo' } as const
export const ROME = { name: 'get_weather', arguments: '{"city":"Rome"}', id: 'call_rome' } as const
export const ORACLE = { name: 'ask_oracle', arguments: '{}', id: 'call_oracle' } as const

/** Public models whose provider answers with an error, and the status of it. */
export const ERRORS = {
  'error-400': {
    status: 400,
    error: {
      message: 'This model has a context of 10 tokens.',
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    },
  },
  'error-401': {
    status: 401,
    error: {
      message: 'Incorrect API key provided: provider-key-of-mock.',
      type: 'invalid_request_error',
      code: 'invalid_api_key',
    },
  },
  'error-429': {
    status: 429,
    retryAfter: 7,
    error: { message: 'Slow down.', type: 'requests', code: 'rate_limit_exceeded' },
  },
  'error-500': { status: 500, error: { message: 'Oh no, at host 10.0.0.1.', type: 'server_error' } },
  'error-503': { status: 503, error: { message: 'Overloaded.', type: 'server_error' } },
} as const

/** Ways for a provider to end a stream that is not whole; none of them may look whole to a caller. */
export const BREAKS: readonly (readonly [name: string, breaks: Scenario])[] = [
  ['a reset', (call) => call.reset()],
  ['a close without the last chunk', (call) => call.close()],
  ['a clean end in the middle', (call) => call.end()],
  ['an error event', does.rest(['data: {"error":{"message":"secret","code":500}}\n\n', 'data: [DONE]\n\n'])],
  ['broken chunk framing', (call) => void call.write('zz\r\nnot a chunk\r\n').then(() => call.close())],
  ['broken JSON', does.rest(['data: {"choices":[\n\n'])],
]

/** The simulator with everything that the tests ask it for. */
async function startMock(): Promise<LLMock> {
  const mock = new LLMock({ host: '127.0.0.1', port: 0, chunkSize: 5 })
  for (const [model, { status, error, ...more }] of Object.entries(ERRORS))
    mock.on({ model }, { status, error, ...more })
  mock.on({ userMessage: 'say hello' }, { content: HELLO, usage: USAGE })
  mock.on({ userMessage: 'say too much' }, { content: 'This goes on and', finishReason: 'length', usage: USAGE })
  mock.on({ userMessage: 'say it badly' }, { content: 'I think', finishReason: 'content_filter', usage: USAGE })
  mock.on({ userMessage: 'say nothing' }, { content: '', usage: USAGE })
  mock.on({ userMessage: 'as JSON' }, { content: '{"city":"Oslo","degrees":7}', usage: USAGE })
  const asking = (
    userMessage: string,
    toolCalls: { name: string; arguments: string; id: string }[],
    answer: string,
  ) => {
    mock.on({ userMessage, hasToolResult: false }, { toolCalls, usage: USAGE })
    mock.on({ userMessage, hasToolResult: true }, { content: answer, usage: USAGE })
  }
  asking('weather in Oslo and Rome', [OSLO, ROME], 'Seven degrees in Oslo, nineteen in Rome.')
  asking('weather in Oslo', [OSLO], 'Seven degrees in Oslo.')
  asking('ask the oracle', [ORACLE], 'The oracle is silent.')
  await mock.start()
  return mock
}

export interface Stage extends AsyncDisposable {
  readonly mock: LLMock
  readonly gateway: Gateway
}

/** The simulator behind the model `small` and one model an error; further providers and models as the test says. */
export async function startStage(more: GatewaySetup = { providers: {} }): Promise<Stage> {
  const mock = await startMock()
  const errors = Object.fromEntries(Object.keys(ERRORS).map((name) => [name, [`mock/${name}`]]))
  const gateway = await Gateway.start({
    ...more,
    providers: { mock: `${mock.url}/v1`, ...more.providers },
    models: { small: ['mock/mock-small'], ...errors, ...more.models },
  })
  return {
    mock,
    gateway,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await mock.stop()
    },
  }
}
