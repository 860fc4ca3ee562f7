/** A new configuration while requests run: checked as a whole first, then swapped in all workers or in none. */

import type { Config } from '../config/config.ts'
import type { Child } from './worker-process.ts'

/** What a running program cannot change, by its name in the file. */
const fixed: Readonly<Record<string, (config: Config) => unknown>> = {
  'listen.host': (config) => config.listen.host,
  'listen.port': (config) => config.listen.port,
  'listen.organization_body_bytes': (config) => config.listen.bodyBytes.organizationBytes,
  'listen.worker_body_bytes': (config) => config.listen.bodyBytes.workerBytes,
  admin: (config) => config.admin,
  workers: (config) => config.workers,
  data_dir: (config) => config.dataDir,
  ledger: (config) => config.ledger,
  ledger_unreachable: (config) => config.ledgerUnreachable,
  audit: (config) => config.audit,
}

/** The keys that only a restart can change. */
export const NEEDS_RESTART: readonly string[] = Object.keys(fixed)

/** Why `next` cannot take the place of `current` without a restart; none where it can. */
export function needsRestart(current: Config, next: Config): readonly string[] {
  return Object.entries(fixed)
    .filter(([, of]) => !Bun.deepEquals(of(current), of(next)))
    .map(([name]) => `${name}: changed, which needs a restart; nothing of the file was taken over`)
}

/**
 * Two phases: every worker builds all that follows from the configuration, and only when all have done so are they told to use it.
 * Resolves to what stands against it; then nothing has changed anywhere.
 */
export async function swap(children: readonly Child[], config: Config): Promise<readonly string[]> {
  const taking = children.filter((child) => child.state === 'ready')
  const problems = (await Promise.all(taking.map((child) => child.prepare(config)))).filter(
    (problem) => problem !== undefined,
  )
  if (problems.length > 0) {
    for (const child of taking) child.abort()
    return [...new Set(problems)]
  }
  for (const child of children) child.config = config
  for (const child of taking) child.commit()
  // A worker that was starting meanwhile got the old configuration.
  for (const child of children) if (!taking.includes(child) && child.state !== 'down') child.replace()
  return []
}
