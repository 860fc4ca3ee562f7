/** weir in native mode beside weir in the mode of the specification: what reading and passing on more costs. */

import type { Bare } from './ledger-scenarios.ts'
import { type Server, startWeir } from './processes.ts'
import { closedRounds, figures, type Measurement, perAnswer } from './rounds.ts'
import { BURST_EVENTS, type Traffic } from './traffic.ts'

type Scenario = (bare: Bare) => Promise<readonly Measurement[]>

/** The thoughts of a stream reach the caller in native mode alone: then they are written, kept and sealed. */
const THOUGHTS: readonly (readonly [name: string, traffic: Pick<Traffic, 'caller' | 'provider'>])[] = [
  ['Messages → Anthropic', { caller: 'messages', provider: 'anthropic' }],
  ['Messages → OpenAI', { caller: 'messages', provider: 'openai' }],
  ['Chat → OpenAI', { caller: 'chat', provider: 'openai' }],
  ['Chat → Anthropic', { caller: 'chat', provider: 'anthropic' }],
]

export const nativeScenarios: Readonly<Record<string, Scenario>> = {
  ...Object.fromEntries(
    THOUGHTS.map(([name, traffic]): readonly [string, Scenario] => [
      `thoughts-${traffic.caller}-${traffic.provider}`,
      (bare) =>
        beside(
          bare,
          { ...traffic, kind: 'thoughts', size: 'small' },
          `${BURST_EVENTS} thoughts and ${BURST_EVENTS} texts at once, ${name}, native mode: CPU a stream`,
          1.2,
        ),
    ]),
  ),
  'native-200k': (bare) =>
    beside(
      bare,
      { caller: 'messages', provider: 'anthropic', kind: 'json', size: '200k' },
      'conversation of 200 KB, Messages → Anthropic, native mode: CPU a request',
      1,
    ),
  'native-burst': (bare) =>
    beside(
      bare,
      { caller: 'messages', provider: 'anthropic', kind: 'burst', size: 'small' },
      `${BURST_EVENTS} texts at once, Messages → Anthropic, native mode: CPU a stream`,
      1.05,
    ),
}

async function beside(bare: Bare, traffic: Traffic, name: string, ratioMax: number): Promise<readonly Measurement[]> {
  await using specification = await startWeir(bare.provider)
  await using native = await startWeir(bare.provider, { config: { compatibility: { mode: 'native' } } })
  const baseline: Server = { ...specification, name: 'weir by the specification' }
  const setup = { ...bare, gateways: [baseline, native] }
  const rounds = await closedRounds(setup, setup.gateways, traffic, traffic.size === 'small' ? 32 : 8)
  return [{ name, unit: 'µs', ratioMax, figures: figures(setup.gateways, rounds, perAnswer) }]
}
