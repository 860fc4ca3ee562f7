/** The configuration of `weir serve`: the file, overridden by the flags of the command line. */

import { configFile, environment, type LoadResult, loadConfig } from '../config/load.ts'

interface Overrides {
  readonly port: number | undefined
  readonly workers: number | undefined
}

/** `revoked`: since when keys of the configuration are revoked by command, by id, for warnings. */
export type ConfigLoader = (revoked?: ReadonlyMap<string, number>) => Promise<LoadResult>

/**
 * Returns a function that reads and checks the file each time it is called, as `weir check` does. `flag`: the value
 * of `--config`.
 */
export function configLoader(flag: string | undefined, overrides: Overrides): ConfigLoader {
  return async (revoked) => {
    const file = await configFile(flag)
    const loaded = await loadConfig(file, environment(), { revoked })
    if (!loaded.ok) return loaded
    const config = {
      ...loaded.config,
      listen: { ...loaded.config.listen, port: overrides.port ?? loaded.config.listen.port },
      workers: overrides.workers ?? loaded.config.workers,
    }
    return { ...loaded, config }
  }
}
