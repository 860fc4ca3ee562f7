/**
 * `weir nodes`: the nodes that share a Redis, and what they do when asked. The gateway that runs here answers; if none
 * does, Redis is read.
 */

import type { FleetView } from '../admin/supervision.ts'
import { dollars, percent, rate } from '../core/figure-text.ts'
import { isArray, isObject, type JsonObject, numberOf, objectOf, stringOf } from '../core/json.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { exit, misused, parseFlags, printToStderr } from './command.ts'
import { type Asked, askGateway, lines } from './gateway-client.ts'
import { configured, locateDataDir, unanswered } from './ledger-access.ts'
import { type Column, displayOf, TextTable } from './text-table.ts'

/** A node may take so long to take the request, and its workers to prepare a configuration. */
const CHANGE_MS_MAX = 75_000

export const actions = { drain, reload }

/** Returns the exit code. */
export async function list(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'nodes')
  const answer = await ask(flags['config'], 'GET /api/nodes', async (fleet) => fleet.list())
  if (flags['json'] === true) {
    process.stdout.write(`${JSON.stringify(answer)}\n`)
    return exit.done
  }
  const rows = objects(answer['nodes'])
  process.stdout.write(new TextTable(COLUMNS, displayOf(flags['wide'] === true)).print(rows))
  const names = new Map(rows.map((row) => [row['id'], text(row['name'])]))
  for (const { section, nodes: ids } of objects(answer['mixed'])) {
    const others = isArray(ids) ? ids.map((id) => names.get(id) ?? String(id)) : []
    process.stdout.write(`differs: ${text(section)} on ${others.join(', ')}\n`)
  }
  return exit.done
}

async function drain(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'nodes drain')
  const path = `POST /api/nodes/${encodeURIComponent(argument)}/drain` as const
  const answer = await ask(flags['config'], path, (fleet) => fleet.drain(argument, commandChanger()))
  process.stdout.write(`${text(answer['name'])} (${text(answer['id'])}): draining\n`)
  return exit.done
}

async function reload(args: readonly string[]): Promise<number> {
  const { flags, argument } = parseFlags(args, 'nodes reload')
  if (flags['all'] === true && argument !== '') return misused('--all excludes the name of a node')
  if (flags['all'] !== true && argument === '') return misused('missing NODE, or --all')
  const path = argument === '' ? 'reload' : `${encodeURIComponent(argument)}/reload`
  const answer = await ask(flags['config'], `POST /api/nodes/${path}`, async (fleet) => {
    return { nodes: await fleet.reload(argument === '' ? undefined : argument, commandChanger()) }
  })
  const done = isArray(answer['nodes']) ? objects(answer['nodes']) : [answer]
  let isRejected = false
  for (const { name, id, changes, problems } of done) {
    const found = lines(problems)
    const node = `${text(name)} (${text(id)})`
    isRejected ||= found.length > 0
    if (found.length > 0) for (const problem of found) printToStderr(`${node}: ${problem}`)
    else process.stdout.write(`${node}: ${lines(changes).join(', ') || 'nothing changed'}\n`)
  }
  return isRejected ? exit.wrong : exit.done
}

/** `asked` of the gateway that runs here, or `otherwise` of its Redis. Throws `GatewayProblem` and others. */
async function ask(
  flag: string | boolean | undefined,
  asked: Asked[0],
  otherwise: (fleet: FleetView) => Promise<object>,
): Promise<JsonObject> {
  const place = await locateDataDir(flag, { isQuiet: true })
  const answer = await askGateway(place.dataDir, asked, asked.startsWith('GET') ? undefined : CHANGE_MS_MAX)
  if (answer !== undefined) return answer
  const config = await configured(flag)
  const { ledger } = config
  if (ledger.kind === 'embedded') throw unanswered(place)
  const [{ withLedger }, { Fleet }] = await Promise.all([
    import('../reports/ledger-part.ts'),
    import('../process/fleet/fleet.ts'),
  ])
  const open = async () => {
    const fleet = await Fleet.observe(ledger.redis)
    return { fleet, close: () => fleet.leave() }
  }
  return { ...(await withLedger(open, config, ({ fleet }) => otherwise(fleet))) }
}

const number = (value: unknown) => numberOf(value) ?? 0

const COLUMNS: readonly Column<JsonObject>[] = [
  { heading: 'node', cell: (row) => text(row['name']) },
  { heading: 'id', cell: (row) => text(row['id']) },
  { heading: 'host', priority: 1, cell: (row) => text(row['host']) },
  { heading: 'version', priority: 4, cell: (row) => text(row['version']) },
  { heading: 'state', cell: (row) => text(row['state']) },
  { heading: 'since', priority: 2, cell: (row) => text(row['since']).slice(0, 19) },
  { heading: 'workers', isNumber: true, priority: 3, cell: (row) => String(numberOf(row['workers']) ?? '–') },
  { heading: 'requests/s', isNumber: true, priority: 8, cell: (row) => rate(number(row['requests_per_second'])) },
  { heading: 'streams', isNumber: true, priority: 7, cell: (row) => String(numberOf(row['open_streams']) ?? '–') },
  { heading: 'failed', isNumber: true, priority: 6, cell: (row) => percent(numberOf(row['failed_ratio']) ?? null) },
  { heading: 'spend/h', isNumber: true, priority: 5, cell: (row) => dollars(number(row['spend_micro_usd_per_hour'])) },
  {
    heading: 'configuration',
    priority: 3,
    cell: (row) => text(objectOf(row['digests'])?.['configuration']).slice(0, 8),
  },
]

function objects(value: unknown): readonly JsonObject[] {
  return isArray(value) ? value.filter(isObject) : []
}

function text(value: unknown): string {
  return stringOf(value) ?? '–'
}
