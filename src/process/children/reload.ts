/**
 * A reload: the new configuration is checked as a whole, then all workers switch to it or none does. The supervisor
 * runs one at a time.
 */

import type { Config } from '../../config/config.ts'
import type { WorkerProcess } from './worker-process.ts'

/** The settings that a running weir cannot change, by their key in the file. */
const fixed: Readonly<Record<string, (config: Config) => unknown>> = {
  'listen.host': (config) => config.listen.host,
  'listen.port': (config) => config.listen.port,
  'listen.organization_body_bytes': (config) => config.listen.bodyBytes.organizationBytes,
  'listen.worker_body_bytes': (config) => config.listen.bodyBytes.workerBytes,
  'listen.proxy_protocol': (config) => config.listen.proxyProtocol,
  'admin.host': (config) => config.admin.host,
  'admin.port': (config) => config.admin.port,
  workers: (config) => config.workers,
  node_name: (config) => config.nodeName,
  data_dir: (config) => config.dataDir,
  ledger: (config) => config.ledger,
  ledger_unreachable: (config) => config.ledgerUnreachable,
  audit: (config) => config.audit,
  log: (config) => config.log,
  metrics: (config) => config.metrics,
}

/** The keys that only a restart can change. */
export const RESTART_KEYS: readonly string[] = Object.keys(fixed)

/** Why `next` cannot replace `current` without a restart, one line for each key; empty if it can. */
export function restartProblems(current: Config, next: Config): readonly string[] {
  return Object.entries(fixed)
    .filter(([, of]) => !Bun.deepEquals(of(current), of(next)))
    .map(([name]) => `${name}: changed, which needs a restart; nothing of the file was applied`)
}

/** Lets a worker that was replaced follow a reload: the keys that it withdraws end streams there, too. */
export async function reloadReplaced(worker: WorkerProcess, config: Config): Promise<void> {
  const problem = await worker.messages.prepare(config)
  worker.send({ type: problem === undefined ? 'commit' : 'abort' })
}

/**
 * Two phases: every worker builds all that follows from the configuration, and only if all succeed do they switch to
 * it. Resolves to the problems, in which case nothing has changed anywhere.
 */
export async function reloadAll(workers: readonly WorkerProcess[], config: Config): Promise<readonly string[]> {
  const ready = workers.filter((worker) => worker.state === 'ready')
  const problems = (await Promise.all(ready.map((worker) => worker.messages.prepare(config)))).filter(
    (problem) => problem !== undefined,
  )
  if (problems.length > 0) {
    for (const worker of ready) worker.send({ type: 'abort' })
    return [...new Set(problems)]
  }
  for (const worker of workers) worker.config = config
  for (const worker of ready) worker.send({ type: 'commit' })
  // A worker that was starting meanwhile got the old configuration.
  for (const worker of workers) if (!ready.includes(worker) && worker.state !== 'down') worker.replace()
  return []
}
