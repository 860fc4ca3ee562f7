/**
 * `scripts/bench`: measures requests, events and streams in weir and in a bare pass-through server, under the same load
 * in the same run.
 */

import { parseArgs } from 'node:util'
import { scriptFlags } from '../../scripts/script-flags.ts'
import { idleNodes } from './idle-nodes.ts'
import { ownScenarios } from './ledger-scenarios.ts'
import { machine, openFilesMax } from './machine.ts'
import { nativeScenarios } from './native-scenarios.ts'
import { metrics, observed } from './observation-scenarios.ts'
import { measurePeers } from './peer-rows.ts'
import { priceMeasurements } from './price.ts'
import { Loader, type Server, startPassThrough, startProvider, startWeir } from './processes.ts'
import { limitMeasurements } from './provider-limits.ts'
import { FULL, type Measurement, type Plan, QUICK } from './rounds.ts'
import { scenarios } from './scenarios.ts'
import { socketScenarios } from './socket-scenarios.ts'

const alone = {
  ...ownScenarios,
  metrics,
  observed,
  price: priceMeasurements,
  limits: limitMeasurements,
  'idle-nodes': idleNodes,
  ...socketScenarios,
  ...nativeScenarios,
}
const NAMES = [...Object.keys(scenarios), ...Object.keys(alone)]

const HELP = `Usage: scripts/bench [--quick] [--only NAME,…] [--json] [--against-itself | --peers]

Starts a simulated provider, a bare pass-through server and weir, sends the same load to both, and prints medians and
their ratios. CPU time is that of the gateway's processes only (from /proc): other programs change it little.

  --quick           three short rounds instead of five
  --only NAME,…     only these scenarios, or all whose names begin so (burst, burst-messages):
${lines(NAMES)}
  --json            print the figures as JSON
  --peers           measure LiteLLM and Portkey, too, in three rows of their own; installs them on demand into .peers,
                    and needs python3
  --against-itself  measure a second pass-through instead of weir, to see how much equal servers differ on this machine

Exits 1 if a request failed or an answer was wrong. A figure that misses its goal is marked, and does not fail the run.
`

/** Names separated by commas, in lines that fit a terminal. */
function lines(names: readonly string[]): string {
  const indent = ' '.repeat(22)
  const wrapped = ['']
  for (const name of names) {
    if (`${indent}${wrapped.at(-1)}${name}, `.length > 100) wrapped.push('')
    wrapped[wrapped.length - 1] += `${name}, `
  }
  return wrapped
    .map((line) => `${indent}${line.trimEnd()}`)
    .join('\n')
    .replace(/,$/, '')
}

/** The scenarios that `only` names, in the order of the table; undefined if a name fits none. */
function chosenNames(only: string | undefined): readonly string[] | undefined {
  if (only === undefined) return NAMES
  const wanted = only.split(',')
  const fits = (name: string, prefix: string) => name === prefix || name.startsWith(`${prefix}-`)
  if (!wanted.every((prefix) => NAMES.some((name) => fits(name, prefix)))) return undefined
  return NAMES.filter((name) => wanted.some((prefix) => fits(name, prefix)))
}

interface Flags {
  readonly plan: Plan
  readonly only: readonly string[]
  readonly json: boolean
  readonly itself: boolean
  readonly peers: boolean
}

function parse() {
  return parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      json: { type: 'boolean', default: false },
      'against-itself': { type: 'boolean', default: false },
      peers: { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  })
}

function flagsOf(values: ReturnType<typeof parse>['values']): Flags | undefined {
  const only = chosenNames(values.only)
  const { quick, json, peers, 'against-itself': itself } = values
  return only && { plan: fitted(quick ? QUICK : FULL), only, json, itself, peers }
}

/** A gateway needs two open files for each stream, and rejects requests before it runs out of them. */
function fitted(plan: Plan): Plan {
  const streams = Math.floor(openFilesMax() / 2.6)
  if (streams >= plan.openStreams) return plan
  console.error(
    `The limit of open files is ${openFilesMax()} (ulimit -n): measuring ${streams} open streams instead of ` +
      `${plan.openStreams}.`,
  )
  return { ...plan, openStreams: streams }
}

/** Starts new processes for each scenario, so that memory of one scenario does not count in the next. */
async function measure(name: string, { plan, itself }: Flags): Promise<readonly Measurement[]> {
  await using provider = await startProvider()
  await using loader = await Loader.start()
  const own = new Map(Object.entries(alone)).get(name)
  if (own !== undefined) return await own({ provider, loader, plan })
  const scenario = scenarios[name]
  if (scenario === undefined) return []
  await using passThrough = await startPassThrough(provider)
  await using other: Server = itself ? await startPassThrough(provider) : await startWeir(provider)
  const second: Server = itself ? { ...other, name: 'weir' } : other
  return await scenario({ provider, gateways: [passThrough, second], loader, plan })
}

/**
 * One line of the table: the figures (the baseline first, if there is one), their ratio, and the goal, if there is one.
 */
function row({ figures, ratioMax, ratioMin, valueMax, unit, name }: Measurement): string {
  const weir = figures.at(-1)?.value ?? Number.NaN
  const baseline = figures.length > 1 ? figures[0]?.value : undefined
  // A figure of 0 or less is noise, and has no ratio.
  const ratio = baseline === undefined || baseline <= 0 || weir <= 0 ? Number.NaN : weir / baseline
  const missed = ratio > (ratioMax ?? Infinity) || ratio < (ratioMin ?? 0) || weir > (valueMax ?? Infinity)
  const goal = [
    ratioMax === undefined ? '' : `≤ ${ratioMax} ×`,
    ratioMin === undefined ? '' : `≥ ${ratioMin} ×`,
    valueMax === undefined ? '' : `≤ ${valueMax} ${unit}`,
  ].join('')
  const cells = [
    baseline === undefined ? '' : `${baseline.toFixed(2)} ${unit}`,
    `${weir.toFixed(2)} ${unit}`,
    Number.isNaN(ratio) ? '' : `${ratio.toFixed(2)} ×`,
    goal,
    missed ? 'missed' : '',
  ]
  return `${name.padEnd(88)}${cells.map((cell) => cell.padStart(13)).join('')}`.trimEnd()
}

/** A line for each measurement, with a column for each gateway. */
async function printPeers({ plan, json }: Flags): Promise<void> {
  const all = await measurePeers(plan)
  if (json) return console.log(JSON.stringify({ machine: machine(), plan, measurements: all }, null, 2))
  const line = (name: string, cells: readonly string[]) =>
    console.log(`${name.padEnd(42)}${cells.map((cell) => cell.padStart(18)).join('')}`)
  line('', all[0]?.figures.map(({ gateway }) => gateway) ?? [])
  for (const { name, unit, figures } of all)
    line(
      name,
      figures.map(({ value }) => `${value.toFixed(unit === 'µs' ? 1 : 0)} ${unit}`),
    )
}

async function main(): Promise<number> {
  const chosen = scriptFlags(HELP, parse, flagsOf)
  const { cpu, cores, bun, date } = machine()
  if (!chosen.json) {
    console.log(
      `${cpu}, ${cores} cores, Bun ${bun}, ${date}; ` +
        `medians of ${chosen.plan.rounds} rounds of ${chosen.plan.seconds} s\n`,
    )
    if (!chosen.peers)
      console.log(
        `${''.padEnd(88)}${['pass-through', 'weir', 'ratio', 'goal'].map((cell) => cell.padStart(13)).join('')}`,
      )
  }
  if (chosen.peers) {
    await printPeers(chosen)
    return 0
  }
  const all: Measurement[] = []
  for (const name of chosen.only) {
    const measurements = await measure(name, chosen)
    all.push(...measurements)
    if (!chosen.json) for (const measurement of measurements) console.log(row(measurement))
  }
  if (chosen.json)
    console.log(JSON.stringify({ machine: { cpu, cores, bun, date }, plan: chosen.plan, measurements: all }, null, 2))
  return 0
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
