/** What the admin port shows of weir as a whole: its state for the status, and its figures for the metrics. */

import { hostname } from 'node:os'
import type { FleetView, SupervisorFigures, SystemState } from '../admin/supervision.ts'
import { targetsOf } from '../assembly/targets.ts'
import { buildOf, versionOf } from '../assembly/version.ts'
import type { WorkerSet } from './children/worker-set.ts'
import type { ConfigInForce } from './config-in-force.ts'
import { ProcessUsages } from './system/process-usage.ts'
import { bytesIn, spaceOf } from './watchers/disk-watch.ts'

export class SystemReport {
  private readonly usages = new ProcessUsages()
  private readonly startedAtMs = Date.now() - performance.now()

  constructor(
    private readonly workers: WorkerSet,
    private readonly config: ConfigInForce,
    private readonly alertFailures: () => SystemState['alertFailures'],
    private readonly fleet: Pick<FleetView, 'list'>,
  ) {}

  figures(): SupervisorFigures {
    const { workers } = this
    const { current: config, lastReload, loadedMs } = this.config
    const targets = config === undefined ? [] : targetsOf(config)
    return {
      counted: workers.reports.figures,
      targets: targets.map((target) => ({ target, state: workers.reports.targets.stateOf(target) })),
      workers: {
        configured: workers.size,
        ready: workers.readyCount,
        restarts: workers.restarts,
        loopLag: workers.loopLag(),
      },
      ledgerUp: workers.reports.isLedgerUp,
      ledgerFields: workers.reports.fields,
      freeBytes: config === undefined ? undefined : spaceOf(config.dataDir)?.freeBytes,
      dataDirBytes: config === undefined ? undefined : bytesIn(config.dataDir),
      lastReload: { isSuccess: (lastReload?.problems.length ?? 0) === 0, succeededMs: loadedMs },
      nodes: this.fleet.list().nodes,
      node: config?.nodeName ?? hostname(),
      builds: [{ process: 'supervisor', ...buildOf(versionOf()) }, ...workers.builds()],
      processes: this.usages.read([{ process: 'supervisor', worker: '', pid: process.pid }, ...workers.processes()]),
    }
  }

  /** Only called after the configuration was read. `port`: of the inference API. */
  state(port: number): SystemState {
    const { workers } = this
    const { current: config, lastReload, warnings } = this.config
    if (config === undefined) throw new Error('The admin port is open before the configuration is read.')
    const restarts = Object.values(workers.restarts).reduce((sum, count) => sum + count, 0)
    return {
      ...versionOf(),
      config,
      node: config.nodeName ?? hostname(),
      port,
      startedAtMs: this.startedAtMs,
      lastReload,
      warnings,
      isLedgerUp: workers.reports.isLedgerUp,
      ledgerProblem: workers.reports.ledgers.find(({ up }) => !up)?.problem,
      workers: { configured: workers.size, ready: workers.readyCount, restarts },
      lastDeath: workers.lastDeath,
      space: spaceOf(config.dataDir),
      rests: workers.reports.health.rests(),
      stateOf: (target) => workers.reports.targets.stateOf(target),
      hints: workers.reports.hints.recent(),
      alertFailures: this.alertFailures(),
    }
  }
}
