/** `scripts/chaos`: gateways and Redis killed, frozen and set back under load. Says whether every answer was charged once, and nothing else. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Provider } from './provider.ts'
import { Verdict } from './report.ts'
import { clusterWorld, type Ended, embeddedWorld, type Run, redisWorld } from './setups.ts'

const HELP = `usage: scripts/chaos [--seconds N] [--seed N] [--callers N]

Starts a gateway with the embedded ledger, two over a Redis, and one over a Redis Cluster, before a provider that knows what it
served, and callers in all dialects that leave at random. Meanwhile gateways, supervisors alone, workers and Redis are killed with SIGKILL and
started again, frozen, Redis is set back to what it was seconds ago, or to its last snapshot, its scripts are flushed, connections are cut, a master of the cluster is
killed and its replica takes over. Then it waits until all leases have run out, and prints what must be equal, with the figures; at
last it empties Redis under load, and looks whether the nodes give back what they wrote down. Exits 1 where something is not as it must be.

  --seconds N   how long (default 60); half a minute more for the leases
  --seed N      repeats the draws of another run
  --callers N   how many requests run at once in each of the three, half as many over the cluster (default 12)
`

function flags(): { readonly seconds: number; readonly seed: number; readonly callers: number } | undefined {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: String(crypto.getRandomValues(new Uint32Array(1))[0] ?? 1) },
      callers: { type: 'string', default: '12' },
      help: { type: 'boolean', default: false },
    },
  })
  const [seconds, seed, callers] = [Number(values.seconds), Number(values.seed), Number(values.callers)]
  return values.help || !(seconds > 0) || !(callers > 0) || !Number.isSafeInteger(seed)
    ? undefined
    : { seconds, seed, callers }
}

async function chaos(asked: NonNullable<ReturnType<typeof flags>>): Promise<boolean> {
  console.log(`seed ${asked.seed}, ${asked.seconds} s, ${asked.callers} callers for each`)
  const folder = await mkdtemp(join(tmpdir(), 'weir-chaos-'))
  await using provider = await Provider.start(asked.seed)
  const run: Run = { ...asked, provider, folder }
  const worlds = await Promise.all([embeddedWorld(run), redisWorld(run), clusterWorld(run)])
  await using rest = new AsyncDisposableStack()
  for (const world of worlds) rest.use(world)
  const verdict = new Verdict()
  for (const world of worlds) await report(world, verdict)
  if (verdict.good) await rm(folder, { recursive: true, force: true })
  else console.log(`\nThe logs and data directories are in ${folder}`)
  return verdict.good
}

async function report(ended: Ended, verdict: Verdict): Promise<void> {
  const counted = new Map<string, number>()
  for (const { end } of ended.asked) counted.set(end, (counted.get(end) ?? 0) + 1)
  const listed = (counts: ReadonlyMap<string, number>) =>
    [...counts]
      .sort()
      .map(([name, count]) => `${count} ${name}`)
      .join(' · ')
  console.log(`\n${ended.name}`)
  console.log(`     done: ${listed(ended.wrecked)}`)
  console.log(`     ${ended.asked.length} requests: ${listed(counted)}`)
  await ended.judge(verdict)
}

const asked = flags()
if (asked === undefined) {
  console.error(HELP)
  process.exit(2)
}
const good = await chaos(asked)
console.log(good ? '\nall is accounted for' : `\nscripts/chaos --seed ${asked.seed} --seconds ${asked.seconds}`)
process.exit(good ? 0 : 1)
