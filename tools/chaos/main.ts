/**
 * `scripts/chaos`: kills, freezes and rolls back gateways and Redis under load, then checks that every answer was
 * charged exactly once.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { scriptFlags } from '../../scripts/script-flags.ts'
import { ArrivalClock } from './arrival-clock.ts'
import { runFleet } from './fleet.ts'
import { Provider } from './provider.ts'
import { Report } from './report.ts'
import { type Run, runCluster, runEmbedded, runRedis, runSentinel, type SetupResult } from './setups.ts'

const HELP = `Usage: scripts/chaos [--seconds N] [--seed N] [--callers N] [--setup NAME]…

Starts six setups in front of a simulated provider that records what it served: a gateway with the embedded ledger and
one worker, one with two workers, two gateways over one Redis, one gateway over a Redis Cluster, two over a master with
two replicas and three Sentinels, and a fleet of four that share the limits of providers over one Redis. Callers in all
dialects, a third of them over WebSockets, send short and long requests of several service tiers, and disconnect at
random. Meanwhile chaos kills gateways, supervisors, workers, the owner of the shared embedded ledger and Redis with
SIGKILL and restarts them, replaces workers, freezes processes, restores Redis from a copy that is seconds old or from
its last snapshot, flushes its scripts, cuts connections, kills a master of the cluster so that its replica takes over,
and orders and forces failovers by the Sentinels. A webhook that fails, hangs and is slow gets alerts about spend, and
keys are created, rotated and revoked. Then it waits until all leases have expired and all alerts have arrived, and
prints every check with its figures. Finally it flushes Redis under load and checks that the gateways restore what they
recorded. Nodes of the fleet have clocks that are two seconds apart; they are killed, and cut off from Redis, with parts
of the limits leased: no limit may be passed by more than its bound, and no request may wait for ever. With
WEIR_EARLIER_EXECUTABLE the last of them runs that program, of another version. Exits 1 if a check fails.

  --seconds N   duration of the faults (default 60); the leases take half a minute more
  --seed N      repeats the random choices of another run
  --callers N   concurrent requests in each setup, half as many over cluster and Sentinels (default 12)
  --setup NAME  only this setup, or several: embedded, shared, redis, cluster, sentinel, fleet (default: all);
                beside others, the faults of sentinel take two thirds of the time
`

interface Flags {
  readonly seconds: number
  readonly seed: number
  readonly callers: number
  readonly setups: readonly SetupName[]
}

const SETUPS = {
  embedded: (run: Run) => runEmbedded(run, 1),
  shared: (run: Run) => runEmbedded(run, 2),
  redis: runRedis,
  cluster: runCluster,
  sentinel: runSentinel,
  fleet: runFleet,
} as const

type SetupName = keyof typeof SETUPS

function isSetup(name: string): name is SetupName {
  return Object.hasOwn(SETUPS, name)
}

function parse() {
  return parseArgs({
    options: {
      seconds: { type: 'string', default: '60' },
      seed: { type: 'string', default: String(crypto.getRandomValues(new Uint32Array(1))[0] ?? 1) },
      callers: { type: 'string', default: '12' },
      setup: { type: 'string', multiple: true, default: Object.keys(SETUPS) },
      help: { type: 'boolean' },
    },
  })
}

function flagsOf(values: ReturnType<typeof parse>['values']): Flags | undefined {
  const [seconds, seed, callers] = [Number(values.seconds), Number(values.seed), Number(values.callers)]
  const setups = values.setup.filter(isSetup)
  const isGood = seconds > 0 && callers > 0 && Number.isSafeInteger(seed) && setups.length === values.setup.length
  return isGood ? { seconds, seed, callers, setups } : undefined
}

async function chaos(options: Flags): Promise<boolean> {
  console.log(`seed ${options.seed}, ${options.seconds} s, ${options.callers} callers in each setup`)
  const folder = await mkdtemp(join(tmpdir(), 'weir-chaos-'))
  await using provider = await Provider.start(options.seed)
  using clock = new ArrivalClock()
  const run: Run = { ...options, provider, folder, clock }
  const names = [...new Set(options.setups)]
  // Its last failover and the commands that wait for it end some 20 s later: beside others it must not end last.
  const shorter = { ...run, seconds: Math.ceil((run.seconds * 2) / 3) }
  const setups = await Promise.all(
    names.map((name) => SETUPS[name](name === 'sentinel' && names.length > 1 ? shorter : run)),
  )
  await using rest = new AsyncDisposableStack()
  for (const setup of setups) rest.use(setup)
  const report = new Report()
  for (const setup of setups) await printAndCheck(setup, report)
  if (report.passed) await rm(folder, { recursive: true, force: true })
  else console.log(`\nThe logs and data directories are in ${folder}`)
  return report.passed
}

async function printAndCheck(setup: SetupResult, report: Report): Promise<void> {
  const counted = new Map<string, number>()
  for (const { end } of setup.results) counted.set(end, (counted.get(end) ?? 0) + 1)
  const faults = new Map<string, number>()
  for (const { name } of setup.faults) faults.set(name, (faults.get(name) ?? 0) + 1)
  const listed = (counts: ReadonlyMap<string, number>) =>
    [...counts]
      .sort()
      .map(([name, count]) => `${count} ${name}`)
      .join(' · ')
  console.log(`\n${setup.name}`)
  console.log(`     faults: ${listed(faults)}`)
  console.log(`     ${setup.results.length} requests: ${listed(counted)}`)
  await setup.check(report)
}

const options = scriptFlags(HELP, parse, flagsOf)
const passed = await chaos(options)
console.log(
  passed
    ? '\nall checks passed'
    : `\nrepeat with: scripts/chaos --seed ${options.seed} --seconds ${options.seconds}` +
        [...new Set(options.setups)].map((name) => ` --setup ${name}`).join(''),
)
process.exit(passed ? 0 : 1)
