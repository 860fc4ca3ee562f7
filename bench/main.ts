/** `scripts/bench`: what a request, an event and a stream cost in weir, beside a bare pass-through under the same load in the same run. */

import { parseArgs } from 'node:util'
import { machine, openFilesMax } from './machine.ts'
import { type Served, startPassThrough, startProvider, startWeir } from './processes.ts'
import { FULL, ledgerScenarios, type Measurement, type Plan, QUICK, scenarios } from './scenarios.ts'

const NAMES = [...Object.keys(scenarios), ...Object.keys(ledgerScenarios)]

const HELP = `usage: scripts/bench [--quick] [--only NAME,…] [--json] [--against-itself]

Starts a provider, a bare pass-through server and weir, drives both gateways with the same load, and prints medians and
their ratios. CPU time is that of the gateway's processes alone (/proc), so other programs on the machine disturb it little.

  --quick           three short rounds instead of five
  --only            of: ${NAMES.join(', ')}
  --json            figures as JSON on standard output
  --against-itself  a second pass-through in the place of weir: shows how far two equal things differ here

Exits 1 where a request failed or an answer was wrong. A figure that misses its goal is marked, and does not fail the run.
`

interface Flags {
  readonly plan: Plan
  readonly only: readonly string[]
  readonly json: boolean
  readonly itself: boolean
}

function flags(args: readonly string[]): Flags | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      json: { type: 'boolean', default: false },
      'against-itself': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const only = values.only?.split(',') ?? NAMES
  if (values.help || only.some((name) => !NAMES.includes(name))) return undefined
  return { plan: fitted(values.quick ? QUICK : FULL), only, json: values.json, itself: values['against-itself'] }
}

/** A gateway needs two open files a stream, and refuses work before it runs out of them. */
function fitted(plan: Plan): Plan {
  const streams = Math.floor(openFilesMax() / 2.6)
  if (streams >= plan.openStreams) return plan
  console.error(
    `Only ${openFilesMax()} open files are allowed here (ulimit -n): ${streams} open streams instead of ${plan.openStreams}.`,
  )
  return { ...plan, openStreams: streams }
}

/** Fresh processes for each scenario: what one left behind in memory does not count for the next. */
async function measure(name: string, { plan, itself }: Flags): Promise<readonly Measurement[]> {
  await using provider = await startProvider()
  const ledger = ledgerScenarios[name]
  if (ledger !== undefined) return await ledger(provider, plan)
  const scenario = scenarios[name]
  if (scenario === undefined) return []
  await using passThrough = await startPassThrough(provider)
  await using other: Served = itself ? await startPassThrough(provider) : await startWeir(provider)
  const second: Served = itself ? { ...other, name: 'weir' } : other
  return await scenario({ provider, gateways: [passThrough, second], plan })
}

/** One line of the table: the figures, their ratio, and the goal where there is one. The yardstick comes first, where there is one. */
function row({ figures, ratioMax, valueMax, unit, name }: Measurement): string {
  const weir = figures.at(-1)?.value ?? Number.NaN
  const yardstick = figures.length > 1 ? figures[0]?.value : undefined
  const ratio = yardstick === undefined ? Number.NaN : weir / yardstick
  const missed = (ratioMax !== undefined && ratio > ratioMax) || (valueMax !== undefined && weir > valueMax)
  const goal = ratioMax !== undefined ? `≤ ${ratioMax} ×` : valueMax !== undefined ? `≤ ${valueMax} ${unit}` : ''
  const cells = [
    yardstick === undefined ? '' : `${yardstick.toFixed(2)} ${unit}`,
    `${weir.toFixed(2)} ${unit}`,
    yardstick === undefined ? '' : `${ratio.toFixed(2)} ×`,
    goal,
    missed ? 'missed' : '',
  ]
  return `${name.padEnd(66)}${cells.map((cell) => cell.padStart(13)).join('')}`.trimEnd()
}

async function main(): Promise<number> {
  const chosen = flags(process.argv.slice(2))
  if (chosen === undefined) {
    console.error(HELP)
    return 2
  }
  const { cpu, cores, bun, date } = machine()
  if (!chosen.json) {
    console.log(
      `${cpu}, ${cores} cores, Bun ${bun}, ${date}; medians of ${chosen.plan.rounds} rounds of ${chosen.plan.seconds} s\n`,
    )
    console.log(
      `${''.padEnd(66)}${['pass-through', 'weir', 'ratio', 'goal'].map((cell) => cell.padStart(13)).join('')}`,
    )
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
