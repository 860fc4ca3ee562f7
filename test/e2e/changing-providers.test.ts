/**
 * A long tool loop whose provider changes from step to step, because each of four providers fails at random: the next
 * provider gets the whole conversation, every call with its result, whatever ids the previous one used.
 */

import { expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { generateText, isStepCount, tool } from 'ai'
import OpenAI from 'openai'
import { z } from 'zod'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { KEY, providerEntry } from '../support/gateway.ts'
import { Random } from '../support/random.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { calls, speaks, textAnswer } from '../support/speech.ts'
import type { Call, Upstream } from '../support/upstream.ts'

const STEPS = 24
const PROVIDERS = ['openai', 'anthropic', 'gemini', 'bedrock'] as const
type Name = (typeof PROVIDERS)[number]

const upstreams = new Map<Name, Upstream>()
let random: Random
let made = 0
/** Requests with calls and results that do not match. */
let mismatches: string[] = []

for (const name of PROVIDERS) {
  const upstream = await lastingUpstream()
  upstreams.set(
    name,
    upstream.otherwise((call) => answer(name, call)),
  )
}
const entry = (name: Name) => providerEntry(name, `http://127.0.0.1:${upstreams.get(name)?.port}`)
const gateway = await lastingGateway({
  validated: true,
  providers: Object.fromEntries(PROVIDERS.map((name) => [name, entry(name)])),
  models: { any: PROVIDERS.map((name) => `${name}/up`) },
  config: { routing: { max_attempts: PROVIDERS.length } },
})

/** Fails a third of the requests; otherwise takes the next step: one to three calls with ids of its own kind. */
function answer(name: Name, call: Call): void | Promise<void> {
  if (random.chance(0.3)) return call.answer(503, '{"error":{"message":"busy"}}')
  const { turns, results, open } = sentTo(name, call.json)
  if (open !== 0 || results !== made) mismatches.push(`${name} got ${results} results of ${made}, ${open} open`)
  if (turns >= STEPS) return speaks(name, () => textAnswer('Done.'))(call)
  const prefix = { openai: 'call_', anthropic: 'toolu_01', gemini: 'g-', bedrock: 'tooluse_' }[name]
  const count = random.between(1, 3)
  const steps = Array.from({ length: count }, (_, at) => ({
    id: `${prefix}${made + at}`,
    name: 'note',
    json: JSON.stringify({ word: `word ${made + at}` }),
  }))
  made += count
  return speaks(name, () => calls(random.chance(0.5) ? `Step ${turns}.` : '', ...steps))(call)
}

const objects = (value: unknown): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])

/** The numbers of turns with calls, of results, and of calls without their result, in each provider's API. */
function sentTo(
  name: Name,
  body: JsonObject,
): { readonly turns: number; readonly results: number; readonly open: number } {
  const messages = objects(body['messages'] ?? body['contents'])
  const blocks = (message: JsonObject) => objects(message['content'] ?? message['parts'])
  const callsIn = (message: JsonObject) =>
    name === 'openai'
      ? objects(message['tool_calls']).length
      : blocks(message).filter((block) => block['type'] === 'tool_use' || 'functionCall' in block || 'toolUse' in block)
          .length
  const resultsIn = (message: JsonObject) =>
    name === 'openai'
      ? Number(message['role'] === 'tool')
      : blocks(message).filter(
          (block) => block['type'] === 'tool_result' || 'functionResponse' in block || 'toolResult' in block,
        ).length
  let turns = 0
  let results = 0
  let open = 0
  for (const message of messages) {
    const called = callsIn(message)
    // Earlier calls must have their results by now.
    if (called > 0 && open > 0) return { turns, results, open }
    turns += Number(called > 0)
    results += resultsIn(message)
    open += called - resultsIn(message)
  }
  return { turns, results, open }
}

const PARAMETERS = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] } as const
const retries = { maxRetries: 5 }

const RUNNERS: Readonly<Record<string, (take: (word: string) => string) => Promise<unknown>>> = {
  async 'Chat Completions'(take) {
    const client = new OpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1`, ...retries })
    const note = {
      name: 'note',
      description: 'Takes a note.',
      parameters: { ...PARAMETERS, required: ['word'] },
      parse: (json: string): { word: string } => JSON.parse(json),
      function: ({ word }: { word: string }) => take(word),
    }
    const tools = [{ type: 'function' as const, function: note }]
    const messages = [{ role: 'user' as const, content: 'go' }]
    const body = { model: 'any', messages, tools, stream: true as const }
    return client.chat.completions.runTools(body, { maxChatCompletions: STEPS + 1 }).finalContent()
  },
  async Messages(take) {
    const client = new Anthropic({ apiKey: KEY, baseURL: gateway.url, ...retries })
    const run = ({ word }: { word: string }) => take(word)
    const note = betaTool({ name: 'note', description: 'Takes a note.', inputSchema: PARAMETERS, run })
    const messages = [{ role: 'user' as const, content: 'go' }]
    const last = await client.beta.messages
      .toolRunner({ model: 'any', max_tokens: 300, messages, tools: [note], stream: true })
      .runUntilDone()
    return last.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
  },
  async Responses(take) {
    const model = createOpenAI({ apiKey: KEY, baseURL: `${gateway.url}/v1` }).responses('any')
    const note = tool({ inputSchema: z.object({ word: z.string() }), execute: async ({ word }) => take(word) })
    const stopWhen = isStepCount(STEPS + 1)
    return (await generateText({ model, tools: { note }, stopWhen, prompt: 'go', ...retries })).text
  },
}

test.each(Object.entries(RUNNERS))('%s', async (_, run) => {
  random = new Random(11)
  made = 0
  mismatches = []
  const words: string[] = []
  const text = await run((word) => {
    words.push(word)
    return `noted ${word}`
  })
  expect(mismatches).toEqual([])
  expect(text).toBe('Done.')
  expect(words).toEqual(Array.from({ length: made }, (_, at) => `word ${at}`))
  const asked = PROVIDERS.filter((name) => (upstreams.get(name)?.calls.length ?? 0) > 0)
  expect(asked.length).toBeGreaterThan(2)
})
