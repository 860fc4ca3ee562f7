/** `weir serve`: runs the gateway in the foreground. */

import { misused, parseFlags, printToStderr } from './command.ts'

export async function serve(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'serve')
  const { config, port, workers } = flags
  const overrides = { port: wholeNumber(port, 0, 65_535), workers: wholeNumber(workers, 1, 1024) }
  if (overrides.port === 'wrong') return misused(`--port must be a whole number from 0 to 65535, not "${port}"`)
  if (overrides.workers === 'wrong') return misused(`--workers must be a whole number from 1 to 1024, not "${workers}"`)
  const { configLoader } = await import('../assembly/served-config.ts')
  const { configFile, environment } = await import('../config/load.ts')
  const { supervise } = await import('../process/supervisor.ts')
  const flag = typeof config === 'string' ? config : undefined
  const load = configLoader(flag, { port: overrides.port, workers: overrides.workers })
  const { code, problems } = await supervise({ env: environment(), file: await configFile(flag), load })
  for (const problem of problems) printToStderr(problem)
  process.exit(code)
}

function wholeNumber(value: string | boolean | undefined, min: number, max: number): number | undefined | 'wrong' {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^\d{1,5}$/.test(value)) return 'wrong'
  const number = Number(value)
  return number >= min && number <= max ? number : 'wrong'
}
