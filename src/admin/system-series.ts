/** The metrics of weir as a whole: what the supervisor knows at the moment of a request for them. */

import type { Config } from '../config/config.ts'
import { priceAgeDays } from '../core/money.ts'
import { TARGET_STATES, type TargetState } from '../gateway/target-states.ts'
import type { BudgetRow, NodeRow } from './api-shapes.ts'
import type { SpendRow } from './spend-figures.ts'
import { type ProcessReading, RESTART_REASONS, type SupervisorFigures } from './supervision.ts'

export interface Figures extends SupervisorFigures {
  /** Absent while the ledger cannot be read. */
  readonly spend?: readonly SpendRow[] | undefined
  readonly limits?: readonly BudgetRow[] | undefined
  readonly priceAges?: readonly PriceAge[] | undefined
}

/** How old the price list of a model is. */
interface PriceAge {
  readonly model: string
  readonly days: number
}

/** Of the models whose prices are dated. */
export function priceAges({ models }: Pick<Config, 'models'>, nowMs = Date.now()): readonly PriceAge[] {
  return models.flatMap(({ name, price }) => {
    const days = price?.asOf === undefined ? Number.NaN : priceAgeDays(price.asOf, nowMs)
    return Number.isNaN(days) ? [] : [{ model: name, days }]
  })
}

export type Labels = Readonly<Record<string, string>>

interface SystemSeries {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly labels: readonly string[]
  readonly samples: (figures: Figures) => readonly { readonly labels: Labels; readonly value: number }[]
}

const NO_LABELS = {}
const TARGET = ['provider', 'model'] as const
const PROCESS = ['process', 'worker'] as const

function gauge(name: string, labels: readonly string[], help: string, samples: SystemSeries['samples']): SystemSeries {
  return { name, type: 'gauge', help, labels, samples }
}

function one(name: string, help: string, value: (figures: Figures) => number): SystemSeries {
  return gauge(name, [], help, (figures) => [{ labels: NO_LABELS, value: value(figures) }])
}

function ofTargets(name: string, help: string, value: (state: TargetState) => number): SystemSeries {
  const samples = ({ targets }: Figures) =>
    targets.map(({ target: { provider, model }, state }) => ({ labels: { provider, model }, value: value(state) }))
  return gauge(name, TARGET, help, samples)
}

function ofSpend(name: string, help: string, value: (row: SpendRow) => number | undefined): SystemSeries {
  const samples = ({ spend = [] }: Figures) =>
    spend.flatMap((row) => {
      const microUsd = value(row)
      const { organization, window } = row
      return microUsd === undefined ? [] : [{ labels: { organization, window }, value: microUsd / 1e6 }]
    })
  return gauge(name, ['organization', 'window'], help, samples)
}

function ofProcesses(name: string, help: string, value: (running: ProcessReading) => number): SystemSeries {
  const samples = ({ processes }: Figures) =>
    processes.flatMap(({ process, worker, running }) =>
      running === undefined ? [] : [{ labels: { process, worker }, value: value(running) }],
    )
  return gauge(name, PROCESS, help, samples)
}

/** What nodes may differ in. One that drains is allowed to. Digests are compared among nodes of one version. */
function differingIn(nodes: readonly NodeRow[]): Readonly<Record<string, boolean>> {
  const staying = nodes.filter(({ state }) => state === 'ready')
  const versions = [...Map.groupBy(staying, ({ version, commit }) => `${version} ${commit}`).values()]
  const isMixed = (of: (digests: NodeRow['digests']) => string) =>
    versions.some((alike) => new Set(alike.map(({ digests }) => of(digests))).size > 1)
  return {
    configuration: isMixed(({ configuration }) => configuration),
    version: versions.length > 1,
    prices: isMixed(({ prices }) => prices),
  }
}

export const systemSeries: readonly SystemSeries[] = [
  ofSpend('weir_spend_used_usd', 'Dollars that were spent in the window.', ({ usedMicroUsd }) => usedMicroUsd),
  ofSpend(
    'weir_spend_held_usd',
    'Dollars that running requests hold in the window.',
    ({ heldMicroUsd }) => heldMicroUsd,
  ),
  ofSpend(
    'weir_spend_limit_usd',
    'The limit of the organisation in the window, if it has one.',
    ({ limitMicroUsd }) => limitMicroUsd,
  ),
  gauge(
    'weir_limit_refusing',
    ['organization', 'key', 'limit'],
    '1 while a spend limit refuses requests because of what is spent; key="": the limit of the organisation.',
    ({ limits = [] }) =>
      limits.map(({ organization, key, limit, state }) => ({
        labels: { organization, key: key ?? '', limit },
        value: state === 'refusing' ? 1 : 0,
      })),
  ),
  gauge(
    'weir_in_flight_requests',
    ['streamed'],
    'Requests that run; streamed="true": streams that have begun.',
    ({ counted }) => {
      const { inFlight, streams } = counted.gauges()
      return [
        { labels: { streamed: 'true' }, value: streams },
        { labels: { streamed: 'false' }, value: inFlight - streams },
      ]
    },
  ),
  one('weir_sockets', 'WebSockets of callers that are open.', ({ counted }) => counted.gauges().sockets),
  one(
    'weir_socket_state_bytes',
    'Bytes of the conversations that open WebSockets may continue.',
    ({ counted }) => counted.gauges().socketStateBytes,
  ),
  one('weir_nodes', 'Nodes that share the ledger, this one included.', ({ nodes }) => nodes.length),
  gauge(
    'weir_nodes_mixed',
    ['what'],
    '1 while nodes differ in their version, or those of one version in their configuration or prices; else 0.',
    ({ nodes }) =>
      Object.entries(differingIn(nodes)).map(([what, isMixed]) => ({ labels: { what }, value: isMixed ? 1 : 0 })),
  ),
  gauge('weir_queue_waiting', ['class'], 'Requests that wait for room at a provider.', ({ counted }) =>
    Object.entries(counted.gauges().waiting ?? {}).map(([name, value]) => ({ labels: { class: name }, value })),
  ),
  gauge(
    'weir_target_room_ratio',
    ['target', 'unit'],
    'What is left of a limit of the provider or target for all nodes, from 0 to 1. target is provider or ' +
      'provider/model.',
    ({ counted }) =>
      Object.entries(counted.gauges().left ?? {}).map(([name, value]) => {
        const at = name.lastIndexOf('/')
        return { labels: { target: name.slice(0, at), unit: name.slice(at + 1) }, value }
      }),
  ),
  ofTargets(
    'weir_target_resting',
    '1 while the target is skipped after failures, or until a probe of it succeeds; else 0.',
    ({ rest }) => (rest === undefined ? 0 : 1),
  ),
  ofTargets('weir_target_rest_seconds', 'Seconds until the target is tried again.', ({ rest }) =>
    rest === undefined || rest.probing ? 0 : rest.restMs / 1000,
  ),
  gauge(
    'weir_target_state',
    [...TARGET, 'state'],
    '1 for the state of the target: unknown (never called), healthy, failing, resting or probing; else 0.',
    ({ targets }) =>
      targets.flatMap(({ target: { provider, model }, state: { state: current } }) =>
        TARGET_STATES.map((state) => ({ labels: { provider, model, state }, value: state === current ? 1 : 0 })),
      ),
  ),
  ofTargets(
    'weir_target_failing_seconds',
    'From the first to the last failed call since the target last answered; 0 if it has not failed since. It does ' +
      'not grow while nothing calls the target.',
    ({ failing }) => (failing === undefined ? 0 : (failing.lastMs - failing.sinceMs) / 1000),
  ),
  gauge(
    'weir_price_age_days',
    ['model'],
    'Days since the day of the price list that the prices of the model are from (price.as_of).',
    ({ priceAges: ages = [] }) => ages.map(({ model, days }) => ({ labels: { model }, value: days })),
  ),
  one('weir_ledger_up', '1 while the ledger answers and API keys can be read; else 0.', ({ ledgerUp }) =>
    ledgerUp ? 1 : 0,
  ),
  one(
    'weir_outbox_pending',
    'Settlements that have not reached the store of the ledger yet.',
    ({ counted }) => counted.gauges().outboxPending,
  ),
  one('weir_data_dir_bytes', 'Bytes of the files in data_dir.', ({ dataDirBytes = Number.NaN }) => dataDirBytes),
  one('weir_data_dir_free_bytes', 'Free bytes on the disk of data_dir.', ({ freeBytes = Number.NaN }) => freeBytes),
  one(
    'weir_ledger_fields',
    'Fields of the largest organisation in Redis, about one for each key. If far more than its keys in use, ' +
      'revoke unused keys.',
    ({ ledgerFields = 0 }) => ledgerFields,
  ),
  one('weir_config_last_reload_success', '1 if the last reload of the configuration succeeded; else 0.', (figures) =>
    figures.lastReload.isSuccess ? 1 : 0,
  ),
  one(
    'weir_config_last_reload_timestamp_seconds',
    'When the configuration in force was loaded, in Unix seconds.',
    ({ lastReload }) => lastReload.succeededMs / 1000,
  ),
  one('weir_workers', 'Configured workers.', ({ workers }) => workers.configured),
  one('weir_workers_ready', 'Workers that accept requests.', ({ workers }) => workers.ready),
  {
    name: 'weir_worker_restarts_total',
    type: 'counter',
    help: 'Workers that died and were started again. reason: exit, signal, or stuck (its event loop stood still).',
    labels: ['reason'],
    samples: ({ workers: { restarts } }) =>
      RESTART_REASONS.map((reason) => ({ labels: { reason }, value: restarts[reason] })),
  },
  gauge(
    'weir_event_loop_lag_seconds',
    ['worker'],
    'The longest time in the last second that the event loop of the worker was late.',
    ({ workers: { loopLag } }) =>
      [...loopLag].map(([worker, value]) => ({ labels: { worker: String(worker) }, value })),
  ),
  gauge(
    'weir_build_info',
    ['process', 'version', 'commit', 'bun', 'node'],
    '1 for each build that runs. After an upgrade with SIGUSR2 the workers have the new one. node: node_name.',
    ({ builds, node }) => builds.map((build) => ({ labels: { ...build, node }, value: 1 })),
  ),
  {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    help: 'CPU time, with that of earlier processes of the same worker.',
    labels: PROCESS,
    samples: ({ processes }) =>
      processes.map(({ process, worker, cpuSeconds }) => ({ labels: { process, worker }, value: cpuSeconds })),
  },
  ofProcesses('process_resident_memory_bytes', 'Resident memory.', ({ residentBytes }) => residentBytes),
  ofProcesses('process_virtual_memory_bytes', 'Virtual memory.', ({ virtualBytes }) => virtualBytes),
  ofProcesses('process_open_fds', 'Open file descriptors.', ({ openFiles }) => openFiles),
  ofProcesses('process_max_fds', 'The limit on open file descriptors.', ({ maxFiles }) => maxFiles),
  ofProcesses(
    'process_start_time_seconds',
    'When the process was started, in Unix seconds; the newest, while a worker is replaced.',
    ({ startSeconds }) => startSeconds,
  ),
]
