/** `weir ledger reset-window`: moves back daily and monthly budget windows that a wrong clock opened too early. */

import { openUsageLog, openWindowReset } from '../assembly/open-ledger.ts'
import { exit, parseFlags, printToStderr } from './command.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'

const HELP = `Usage: weir ledger reset-window --org ID [--config FILE]

Budgets of a day or a month never return to an earlier window. If a clock was ahead, they would not renew until the
true time has caught up. This command moves the windows of an organisation and its keys back to today and this month,
with the spend that \`weir usage\` reports for them. With the embedded ledger, stop the gateway first. With Redis it may
run; requests that are in flight at that moment count in the total budget only.

  --org ID       the organisation
  --config FILE  configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)
  --help         show this help

Exit codes: 0 done, 1 the ledger cannot be used, 2 wrong usage.
`

/** Returns the exit code. */
export async function ledger([action, ...args]: readonly string[]): Promise<number> {
  const isHelp = action === '--help' || action === '-h'
  if (action !== 'reset-window' && !isHelp) {
    printToStderr('missing action: reset-window (see weir ledger --help)')
    return exit.usage
  }
  const parsed = parseFlags(isHelp ? [action] : args, HELP, { org: { type: 'string' }, config: { type: 'string' } })
  if ('code' in parsed) return parsed.code
  const { org: organization, config: flag } = parsed.flags
  if (typeof organization !== 'string') {
    printToStderr('missing --org ID (see weir ledger --help)')
    return exit.usage
  }
  const read = await configured(flag)
  if ('code' in read) return read.code
  const { config } = read
  return untilProblem(async () => {
    const query = { sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER, organization }
    const count = await withLedger(openWindowReset, config, async (windows) =>
      windows.reset(organization, await withLedger(openUsageLog, config, (log) => log.read(query))),
    )
    const windows = count === 1 ? '1 window' : `${count} windows`
    process.stdout.write(
      count === 0 ? `no window of ${organization} is in the future\n` : `${windows} of ${organization} moved back\n`,
    )
    return exit.done
  })
}
