/**
 * The setup of the end-to-end tests: a third-party provider simulator, a provider over TCP, and the gateway in front of
 * both.
 */

import { afterAll, beforeAll } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { Gateway } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { calls, inSteps, textAnswer } from '../support/speech.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

export const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } as const
export const HELLO = 'Hello from the other side: 日本語, 👩‍👩‍👧‍👦 and "quotes"\n\twith tabs.'
export const OSLO = { name: 'get_weather', arguments: '{"city":"Oslo"}', id: 'call_oslo' } as const
export const ROME = { name: 'get_weather', arguments: '{"city":"Rome"}', id: 'call_rome' } as const
export const ORACLE = { name: 'ask_oracle', arguments: '{}', id: 'call_oracle' } as const

/** Public models whose provider answers with an error, and its status. */
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

/** Ways for a provider to end an incomplete stream; none of them may look complete to a caller. */
export const BREAKS: readonly (readonly [name: string, breaks: Scenario])[] = [
  ['a reset', (call) => call.reset()],
  ['a close without the last chunk', (call) => call.close()],
  ['a clean end in the middle', (call) => call.end()],
  ['an error event', does.rest(['data: {"error":{"message":"secret","code":500}}\n\n', 'data: [DONE]\n\n'])],
  ['broken chunk framing', (call) => void call.write('zz\r\nnot a chunk\r\n').then(() => call.close())],
  ['broken JSON', does.rest(['data: {"choices":[\n\n'])],
]

/** The simulator with every answer that the tests need. */
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

/** A text that the TCP provider sends in three pieces. */
export const FRAMES = does.chatFrames(['one', ' two', ' three'])

/** A model that calls the weather tool twice, one call after the other, with a text before each. */
export const THREE_STEPS = inSteps(
  calls('First Oslo.', { id: 'call_1', name: 'get_weather', json: '{"city":"Oslo"}' }),
  calls('Now Rome.', { id: 'call_2', name: 'get_weather', json: '{"city":"Rome"}' }),
  textAnswer('Done.'),
)

/** The messages of that model's last step, for any caller: every text and call, each call followed by its result. */
export const afterThreeSteps = (result: (call: string) => string) => [
  { role: 'user', content: 'Oslo, then Rome' },
  { role: 'assistant', content: 'First Oslo.', tool_calls: [{ id: 'call_1' }] },
  { role: 'tool', tool_call_id: 'call_1', content: result('call_1') },
  { role: 'assistant', content: 'Now Rome.', tool_calls: [{ id: 'call_2' }] },
  { role: 'tool', tool_call_id: 'call_2', content: result('call_2') },
]

export interface Stage {
  /** Answers the model `small`, and one model per error. */
  readonly mock: LLMock
  /** Answers the models `raw` and `steps` with the test's scenario. */
  readonly raw: Upstream
  readonly gateway: Gateway
}

async function startStage(): Promise<Stage> {
  const [mock, raw] = await Promise.all([startMock(), Upstream.start()])
  const errors = Object.fromEntries(Object.keys(ERRORS).map((name) => [name, [`mock/${name}`]]))
  const gateway = await Gateway.start({
    validated: true,
    providers: { mock: `${mock.url}/v1`, raw: raw.url },
    models: { small: ['mock/mock-small'], ...errors, raw: ['raw/raw'], steps: ['raw/steps'] },
  })
  return { mock, raw, gateway }
}

/**
 * The setup of a test file. It exists from before the first test until after the last; using it at any other time
 * throws.
 */
export function useStage(): Stage {
  let standing: Stage | undefined
  const stage = () => {
    if (standing === undefined) throw new Error('the stage exists only while tests run')
    return standing
  }
  beforeAll(async () => {
    standing = await startStage()
  })
  afterAll(async () => {
    const { gateway, raw, mock } = stage()
    await gateway[Symbol.asyncDispose]()
    await raw[Symbol.asyncDispose]()
    await mock.stop()
  })
  return {
    get mock() {
      return stage().mock
    },
    get raw() {
      return stage().raw
    },
    get gateway() {
      return stage().gateway
    },
  }
}
