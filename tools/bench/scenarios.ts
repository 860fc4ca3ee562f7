/** The scenarios of the bench that compare weir with the pass-through, and their goals. */

import type { Server } from './processes.ts'
import {
  bytesAStream,
  closedLoop,
  closedRounds,
  figures,
  held,
  interleaved,
  type Measurement,
  perAnswer,
  perEvent,
  type Setup,
  warmUp,
} from './rounds.ts'
import { median } from './statistics.ts'
import {
  BURST_EVENTS,
  BURSTS,
  CALLERS,
  type Caller,
  type ProviderName,
  type Size,
  STREAMED,
  type Traffic,
} from './traffic.ts'

export type Scenario = (setup: Setup) => Promise<readonly Measurement[]>

export const SMALL_JSON: Traffic = { kind: 'json', caller: 'chat', provider: 'openai', size: 'small' }

/** The pairs of large conversations, and how much of the pass-through's CPU time they may take. */
const CONVERSATIONS: readonly (readonly [caller: Caller, provider: ProviderName, ratioMax: number])[] = [
  ['chat', 'openai', 2],
  ['messages', 'anthropic', 2],
  ['chat', 'anthropic', 4],
  ['messages', 'openai', 4],
  ['responses', 'openai', 4],
  ['chat', 'gemini', 4],
  ['chat', 'bedrock', 4],
  ['chat', 'responses', 4],
  ['messages', 'responses', 4],
  ['responses', 'responses', 4],
]

const DIALECT_NAMES = { chat: 'Chat', messages: 'Messages', responses: 'Responses' } as const
const PROVIDER_NAMES = {
  openai: 'OpenAI',
  obfuscated: 'OpenAI obfuscated',
  responses: 'OpenAI Responses',
  anthropic: 'Anthropic',
  gemini: 'Gemini',
  bedrock: 'Bedrock',
} as const

const pairName = (caller: Caller, provider: ProviderName) => `${DIALECT_NAMES[caller]} → ${PROVIDER_NAMES[provider]}`

export const scenarios: Readonly<Record<string, Scenario>> = {
  latency,
  json,
  ...Object.fromEntries(
    CALLERS.flatMap((caller) =>
      STREAMED.map((provider) => [`burst-${caller}-${provider}`, (setup: Setup) => burst(setup, caller, provider)]),
    ),
  ),
  bulk,
  ...Object.fromEntries(CALLERS.map((caller) => [`paced-${caller}`, (setup: Setup) => paced(setup, caller, 'openai')])),
  'paced-chat-obfuscated': (setup) => paced(setup, 'chat', 'obfuscated'),
  ...Object.fromEntries(
    CALLERS.map((caller) => [`paced-${caller}-responses`, (setup: Setup) => paced(setup, caller, 'responses')]),
  ),
  open,
  ...Object.fromEntries(
    (['200k', '2m'] as const).flatMap((size) =>
      CONVERSATIONS.map(([caller, provider, ratioMax]) => [
        `conversation-${size}-${caller}-${provider}`,
        (setup: Setup) => conversation(setup, { kind: 'json', caller, provider, size }, ratioMax),
      ]),
    ),
  ),
}

/** Added by a gateway: the time of its answers minus the median time of the provider's own. */
async function latency(setup: Setup): Promise<readonly Measurement[]> {
  const rounds = await closedRounds(setup, [setup.provider, ...setup.gateways], SMALL_JSON, 1)
  const direct = rounds.get(setup.provider) ?? []
  return (
    [
      [50, 1.5],
      [99, 2],
    ] as const
  ).map(([p, ratioMax]) => {
    const provider = median(direct.map((round) => round.latency[`p${p}`]))
    return {
      name: `added latency of a small JSON answer, one at a time, p${p}`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup.gateways, rounds, (round) => round.latency[`p${p}`] - provider),
    }
  })
}

async function json(setup: Setup): Promise<readonly Measurement[]> {
  const rounds = await closedRounds(setup, setup.gateways, SMALL_JSON, 32)
  return [
    {
      name: 'small JSON, 32 connections: CPU a request',
      unit: 'µs',
      ratioMax: 1.7,
      figures: figures(setup.gateways, rounds, perAnswer),
    },
  ]
}

async function burst(setup: Setup, caller: Caller, provider: ProviderName): Promise<readonly Measurement[]> {
  const traffic: Traffic = { kind: 'burst', caller, provider, size: 'small' }
  const rounds = await closedRounds(setup, setup.gateways, traffic, 32)
  return [
    {
      name: `${BURST_EVENTS} events at once, ${pairName(caller, provider)}: CPU a stream`,
      unit: 'µs',
      ratioMax: 1.5,
      figures: figures(setup.gateways, rounds, perAnswer),
    },
  ]
}

async function bulk(setup: Setup): Promise<readonly Measurement[]> {
  const rounds = await interleaved(
    setup,
    setup.gateways,
    (target) => warmUp(setup, target, { ...SMALL_JSON, kind: 'burst' }, 32),
    (target) => closedLoop(setup, target, { ...SMALL_JSON, kind: 'bulk' }, 8),
  )
  return [
    {
      name: `${BURSTS.bulk} × ${BURST_EVENTS} events at once, Chat → OpenAI: CPU an event`,
      unit: 'µs',
      figures: figures(setup.gateways, rounds, perEvent),
    },
  ]
}

async function paced(setup: Setup, caller: Caller, provider: ProviderName): Promise<readonly Measurement[]> {
  const { pacedStreams: streams } = setup.plan
  const traffic = { caller, provider, size: 'small' } as const
  const run = (target: Server) => held(setup, target, { ...traffic, kind: 'paced' }, streams)
  const rounds = await interleaved(
    setup,
    setup.gateways,
    async (target) => {
      await warmUp(setup, target, { ...traffic, kind: 'burst' }, 32)
      await run(target)
    },
    run,
  )
  const name = `${streams} streams of 50 events a second, ${pairName(caller, provider)}`
  return [
    {
      name: `${name}: CPU an event`,
      unit: 'µs',
      ratioMax: 1.15,
      figures: figures(setup.gateways, rounds, perEvent),
    },
    ...([50, 99] as const).map((p) => ({
      name: `${name}: delay of an event, p${p}`,
      unit: 'µs',
      ...(p === 99 ? { ratioMax: 1.5 } : {}),
      figures: figures(setup.gateways, rounds, (round) => round.latency[`p${p}`]),
    })),
  ]
}

/** Runs once for each gateway: in a second round, memory that the allocator kept would count as free. */
async function open(setup: Setup): Promise<readonly Measurement[]> {
  const { openStreams: streams } = setup.plan
  const sizes = new Map<Server, readonly number[]>()
  for (const gateway of setup.gateways) {
    await warmUp(setup, gateway, SMALL_JSON, 32)
    sizes.set(gateway, [await bytesAStream(setup, gateway, { ...SMALL_JSON, kind: 'slow' }, streams)])
  }
  return [
    {
      name: `${streams} open streams of an event a second: memory a stream`,
      unit: 'KiB',
      valueMax: 18,
      figures: figures(setup.gateways, sizes, (bytes) => bytes / 1024),
    },
  ]
}

const SIZE_NAMES: Readonly<Record<Size, string>> = { small: 'small', '200k': '200 KB', '2m': '2 MB' }

async function conversation(setup: Setup, traffic: Traffic, ratioMax: number): Promise<readonly Measurement[]> {
  const rounds = await closedRounds(setup, setup.gateways, traffic, traffic.size === '2m' ? 4 : 8)
  return [
    {
      name: `conversation of ${SIZE_NAMES[traffic.size]}, ${pairName(traffic.caller, traffic.provider)}: CPU a request`,
      unit: 'µs',
      ratioMax,
      figures: figures(setup.gateways, rounds, perAnswer),
    },
  ]
}
