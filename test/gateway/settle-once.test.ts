/**
 * Random ways out, in process over real sockets: each reservation is settled exactly once and has its one log line;
 * nothing stays open.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { pino } from 'pino'
import { InferenceService } from '../../src/assembly/inference-service.ts'
import { loadAdapters } from '../../src/assembly/provider-adapters.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { type Later, laterOf } from '../../src/core/later.ts'
import type { Account, Charge, Hold, Reservation } from '../../src/ledger/ledger.ts'
import { Caller } from '../support/caller.ts'
import { configOf } from '../support/gateway.ts'
import { UnlimitedLedger } from '../support/ledger.ts'
import { oneWorker } from '../support/one-worker.ts'
import { Random } from '../support/random.ts'
import * as does from '../support/scenarios.ts'
import { SEED } from '../support/seed.ts'
import { type Call, type Scenario, Upstream } from '../support/upstream.ts'
import { chat } from './stage.ts'

const CASES = 2000
const AT_ONCE = 40

class Counting extends UnlimitedLedger {
  readonly reserved = new Set<string>()
  readonly settled = new Map<string, Charge[]>()

  override reserve(account: Account, hold: Hold): Later<Reservation> {
    return laterOf(
      (async () => {
        // A slow store: callers leave meanwhile.
        if (this.reserved.size % 3 === 0) await turn()
        this.reserved.add(hold.id)
        return await super.reserve(account, hold)
      })(),
    )
  }

  override settle(reservation: Reservation, actual: Charge): Later<'settled' | 'already_settled'> {
    this.settled.getOrInsert(reservation.id, []).push(actual)
    return super.settle(reservation, actual)
  }
}

const frames = does.chatFrames(['Hel', 'lo', ' wor', 'ld'])
const error = 'data: {"error":{"message":"x"}}\n\n'

/** Frames up to `upTo` with turns of the event loop between them, and then something else. */
function slowly(upTo: number, then: Scenario): Scenario {
  return async (call) => {
    await call.head200()
    for (const frame of frames.slice(0, upTo)) {
      await turn()
      await call.chunk(frame)
    }
    await then(call)
  }
}

const end = (call: Call) => call.end()
const stay = () => {}
const upTo = [0, 1, 2, 3, 5] as const
/** Those that never end by themselves. */
const endless: Readonly<Record<string, Scenario>> = {
  silent: does.silent(),
  ...Object.fromEntries(upTo.map((count) => [`stall-${count}`, slowly(count, stay)])),
}
const finite: Readonly<Record<string, Scenario>> = {
  answers: does.answersText('Hello'),
  slow: slowly(frames.length, end),
  'no-done': slowly(frames.length - 1, end),
  'answers-in-turns': async (call) => {
    await turn()
    await does.answersText('Hello')(call)
  },
  'whole-for-stream': does.json(200, does.chatBody('Hello')),
  ...Object.fromEntries(upTo.map((count) => [`reset-${count}`, slowly(count, (call) => call.reset())])),
  ...Object.fromEntries(upTo.map((count) => [`close-${count}`, slowly(count, (call) => call.close())])),
  ...Object.fromEntries(
    upTo.map((count) => [`error-${count}`, slowly(count, (call) => call.chunk(error).then(end.bind(null, call)))]),
  ),
  'http-500': does.json(500, '{}'),
  'http-429': does.json(429, '{}'),
  'http-400': does.json(400, '{}'),
  html: does.json(200, '<html>', { 'content-type': 'text/html' }),
}

const ledger = new Counting()
const lines: JsonObject[] = []
let upstream: Upstream
let service: InferenceService
let server: ReturnType<typeof Bun.serve>

beforeAll(async () => {
  const scenarios = { ...endless, ...finite }
  upstream = await Upstream.start(scenarios)
  const names = Object.keys(scenarios)
  const models = names.flatMap((name) => [
    [name, [`up/${name}`]] as const,
    [`http-500+${name}`, ['up/http-500', `up/${name}`]] as const,
    [`error-1+${name}`, ['up/error-1', `up/${name}`]] as const,
  ])
  const config = configOf({ providers: { up: upstream.url }, models: Object.fromEntries(models) }, '/nowhere')
  const parsed = parseConfig(JSON.stringify(config), {
    env: {},
    readFile: () => ({ error: 'none' }),
    cores: 1,
  } as never)
  if (!parsed.ok) throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
  const logger = pino({}, { write: (line) => lines.push(JSON.parse(line)) })
  service = new InferenceService({
    config: parsed.config,
    adapters: await loadAdapters(parsed.config),
    log: { logger, request: (fields) => logger.info(JSON.parse(`{${fields}}`), 'request') },
    ledger,
    ...oneWorker(parsed.config),
  })
  server = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, ...service.app })
})

afterAll(async () => {
  await server.stop(true)
  await upstream[Symbol.asyncDispose]()
})

/** One request and its end: read to the last byte, or left at some moment in some way. */
async function one(random: Random): Promise<void> {
  const leaves = random.chance(0.6)
  const name =
    random.pick(['', '', 'http-500+', 'error-1+']) + random.pick(namesOf(leaves ? { ...endless, ...finite } : finite))
  await using caller = await Caller.connect(server.port ?? 0)
  const bytes = chat(name, random.chance(0.7) ? { stream: true } : {})
  const whole = !leaves || random.chance(0.9)
  caller.send(whole ? bytes : bytes.subarray(0, random.between(1, bytes.length)))
  if (!leaves) {
    await caller.answer()
    return
  }
  for (let turns = random.below(random.pick([2, 8, 40])); turns > 0; turns--) await turn()
  if (random.chance(0.5)) caller.close()
  else if (random.chance(0.8)) caller.reset()
  else caller.halfClose()
}

function namesOf(scenarios: Readonly<Record<string, Scenario>>): readonly [string, ...string[]] {
  const [first = '', ...others] = Object.keys(scenarios)
  return [first, ...others]
}

test(`${CASES} requests (WEIR_SEED=${SEED})`, async () => {
  const random = new Random(SEED)
  for (let at = 0; at < CASES; at += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, () => one(new Random(random.below(2 ** 31)))))
  }
  const { inFlight } = service.state
  while (inFlight.size > 0) await inFlight.idle()
  expect(new Set(ledger.settled.keys())).toEqual(ledger.reserved)
  expect([...ledger.settled.values()].filter((settlements) => settlements.length !== 1)).toEqual([])
  const requests = lines.filter(({ msg }) => msg === 'request')
  expect(new Set(requests.map((line) => line['request_id'])).size).toBe(requests.length)
  // Targets rest after their failures, which is a warning.
  expect(lines.filter(({ level, event }) => level !== 30 && event !== 'target.open')).toEqual([])
  expect(requests.length).toBeGreaterThan(CASES * 0.8)
  for (const line of requests) expectTrue(line)
  const outcomes = new Set(requests.map((line) => line['outcome']))
  expect([...outcomes].sort()).toEqual(['caller_left', 'completed', 'provider_cut', 'refused'])
  console.log(
    Object.fromEntries(
      [...outcomes].map((outcome) => [outcome, requests.filter((line) => line['outcome'] === outcome).length]),
    ),
  )
  // Aborted connections are closed, complete ones may be reused, and nothing else is open.
  await turn()
  expect(upstream.openConnections).toBeLessThan(AT_ONCE + 1)
})

/** The log line has the figures of the ledger. */
function expectTrue(line: JsonObject): void {
  const [settlement] = ledger.settled.get(String(line['request_id'])) ?? []
  if (settlement === undefined) {
    for (const name of ['cost_micro_usd', 'provider', 'attempts']) expect(line).not.toHaveProperty(name)
    return
  }
  const { outcome, model, provider, estimated } = settlement
  expect(outcome).toBe(line['outcome'] === 'timed_out' ? 'refused' : (line['outcome'] as typeof outcome))
  if (model === '') {
    expect([settlement.costMicroUsd, line['cost_micro_usd']]).toEqual([0, undefined])
    return
  }
  expect(line).toMatchObject({
    ...{
      input_tokens: settlement.inputTokens,
      output_tokens: settlement.outputTokens,
      cost_micro_usd: settlement.costMicroUsd,
    },
    ...{ served_model: model, provider, usage: estimated ? 'estimated' : 'provider' },
  })
  // A provider was called.
  expect(settlement.costMicroUsd).toBeGreaterThan(0)
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
