/** `weir serve`: runs the gateway in the foreground. */

import { exit, parseFlags, printToStderr } from './command.ts'

const HELP = `Usage: weir serve [--config FILE] [--port N] [--workers N]

Runs the gateway in the foreground.

  --config FILE  configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)
  --port N       listen on this port instead of the configured one; 0 picks a free port
  --workers N    run N worker processes instead of the configured number; more than 1 needs Redis
  --help         show this help

Signals: SIGTERM and SIGINT shut down after running requests have finished, within drain_seconds; a second signal cuts
them. SIGHUP checks the configuration and applies it. SIGQUIT, SIGUSR1 and SIGUSR2 are ignored.
`

export async function serve(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, HELP, {
    config: { type: 'string' },
    port: { type: 'string' },
    workers: { type: 'string' },
  })
  if ('code' in parsed) return parsed.code
  const { config, port, workers } = parsed.flags
  const overrides = { port: wholeNumber(port, 0, 65_535), workers: wholeNumber(workers, 1, 1024) }
  if (overrides.port === 'wrong') return wrong(`--port must be a whole number from 0 to 65535, not "${port}"`)
  if (overrides.workers === 'wrong') return wrong(`--workers must be a whole number from 1 to 1024, not "${workers}"`)
  const { configLoader } = await import('../assembly/served-config.ts')
  const { environment } = await import('../config/load.ts')
  const { supervise } = await import('../process/supervisor.ts')
  const load = configLoader(typeof config === 'string' ? config : undefined, {
    port: overrides.port,
    workers: overrides.workers,
  })
  const { code, problems } = await supervise({ env: environment(), load })
  for (const problem of problems) printToStderr(problem)
  process.exit(code)
}

function wrong(line: string): number {
  printToStderr(`${line} (see --help)`)
  return exit.usage
}

function wholeNumber(value: string | boolean | undefined, min: number, max: number): number | undefined | 'wrong' {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^\d{1,5}$/.test(value)) return 'wrong'
  const number = Number(value)
  return number >= min && number <= max ? number : 'wrong'
}
