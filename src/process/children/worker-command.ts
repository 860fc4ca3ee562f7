/** How weir starts itself as a worker: the command and its environment. */

import { SERVICE_VARIABLES } from '../service-manager/service-manager.ts'

/** Settings that Bun reads from the environment only when a process starts. */
const RUNTIME = {
  /**
   * Threads resolve host names, by default one for each core, so two names that no DNS server answers delayed every
   * other look-up by 10 s. Requests for the same name share a look-up, and threads start on demand, so this is how
   * many names may be unresponsive at once.
   */
  UV_THREADPOOL_SIZE: '256',
  /**
   * By default addresses are cached for 30 s, even if they refuse connections, so a provider that moved was not found
   * for that long.
   */
  BUN_CONFIG_DNS_TIME_TO_LIVE_SECONDS: '5',
  /**
   * By default Bun collects garbage every second, also if a worker does nothing: half of what an idle worker took.
   * Under load the allocations start collections.
   */
  BUN_GC_TIMER_INTERVAL: '10000',
  /**
   * Milliseconds. A thread of the allocator looks for unused pages inside partly used memory up to ten times a second,
   * as long as the process wakes: 0.1 of the 0.2 % of a core that an idle worker took. Memory that is free as a whole
   * is still given back after 0.1 s.
   */
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '5000',
} as const

/**
 * The C library waits 5 s for a DNS server before it tries the next. That is longer than a connection may take, so
 * one dead DNS server would fail every request. The operator's own setting wins.
 */
const RESOLVER = { RES_OPTIONS: 'timeout:1 attempts:3' } as const

/** The environment of a worker, from that of the supervisor. */
export function workerEnvironment(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  const own = Object.fromEntries(SERVICE_VARIABLES.map((name) => [name, undefined]))
  return { ...RESOLVER, ...env, ...own, ...RUNTIME }
}

/**
 * Keeps Bun from loading files of the working directory: `.env`, the `preload` of bunfig.toml, the `paths` of
 * tsconfig.json. They could set credentials or run code. A compiled binary loads none of them.
 */
const ISOLATION = ['--no-env-file', '--config=/dev/null', '--tsconfig-override=/dev/null', '--no-install'] as const

/**
 * With the path of the script from a checkout, without one as a compiled binary. Both are paths: a worker is the
 * program in the file now, even if the file was replaced since weir started.
 */
export function workerCommand(role: 'worker' | 'ledger-owner' = 'worker'): string[] {
  const compiled = import.meta.path.startsWith('/$bunfs/')
  return compiled ? [process.execPath, role] : [process.execPath, ...ISOLATION, Bun.main, role]
}
