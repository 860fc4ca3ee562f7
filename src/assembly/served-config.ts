/** The configuration as `weir serve` runs it: the file, with the command line's flags over it. */

import type { Config } from '../config/config.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'

export { environment } from '../config/load.ts'

export type Loaded =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problems: readonly string[] }

interface Overrides {
  readonly port: number | undefined
  readonly workers: number | undefined
}

/** Reads and checks the file anew each time that it is called, so that a reload sees the file as `weir check` would. */
export function loader(flag: string | undefined, overrides: Overrides): () => Promise<Loaded> {
  return async () => {
    const file = await configFile(flag)
    const loaded = await loadConfig(file, environment())
    if (!loaded.ok) return loaded
    const config = {
      ...loaded.config,
      listen: { ...loaded.config.listen, port: overrides.port ?? loaded.config.listen.port },
      workers: overrides.workers ?? loaded.config.workers,
    }
    if (config.workers > 1 && config.ledger.kind === 'embedded') {
      return {
        ok: false,
        problems: [`--workers ${config.workers}: more than one worker needs Redis (ledger: { redis: … })`],
      }
    }
    return { ok: true, config }
  }
}
