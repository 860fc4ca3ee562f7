/** `--peers`: weir beside other gateways, with the provider, the load and the run of the other rows. */

import { residentBytesOfTree } from '../../test/support/process-table.ts'
import { installPeers, startLitellm, startPortkey } from './peers.ts'
import { Loader, startPassThrough, startProvider, startWeir } from './processes.ts'
import { closedRounds, type Figure, figures, type Measurement, type Plan, perAnswer, type Setup } from './rounds.ts'
import { SMALL_JSON } from './scenarios.ts'
import type { Traffic } from './traffic.ts'

const ROWS: readonly (readonly [name: string, traffic: Traffic, connections: number])[] = [
  ['small JSON', SMALL_JSON, 32],
  ['64 events at once', { ...SMALL_JSON, kind: 'burst' }, 32],
  ['conversation of 200 KB', { ...SMALL_JSON, size: '200k' }, 8],
]

/** All gateways receive Chat Completions and send them to one provider that speaks the same. */
export async function measurePeers(plan: Plan): Promise<readonly Measurement[]> {
  await installPeers()
  await using disposed = new AsyncDisposableStack()
  const provider = disposed.use(await startProvider())
  const loader = disposed.use(await Loader.start())
  const gateways = [
    disposed.use(await startPassThrough(provider)),
    disposed.use(await startWeir(provider)),
    disposed.use(await startLitellm(provider)),
    disposed.use(await startPortkey(provider)),
  ]
  const setup: Setup = { provider, gateways, loader, plan }
  const idle = memory(setup)
  const all: Measurement[] = []
  for (const [name, traffic, connections] of ROWS) {
    const rounds = await closedRounds(setup, gateways, traffic, connections)
    const perSecond = (round: { readonly seconds: number; readonly answers: number }) => round.answers / round.seconds
    all.push(
      { name: `${name}: CPU a request`, unit: 'µs', figures: figures(gateways, rounds, perAnswer) },
      { name: `${name}: answers a second`, unit: '/s', figures: figures(gateways, rounds, perSecond) },
    )
  }
  all.push({ name: 'memory after the start', unit: 'MiB', figures: idle })
  all.push({ name: 'memory after these loads', unit: 'MiB', figures: memory(setup) })
  return all
}

function memory({ gateways }: Setup): readonly Figure[] {
  return gateways.map(({ name, pid }) => ({ gateway: name, value: residentBytesOfTree(pid) / 2 ** 20 }))
}
