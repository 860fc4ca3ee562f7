/** `weir ledger reset-window`: takes back days and months of budgets that a wrong clock began too early. */

import { openUsageLog, openWindowReset } from '../assembly/open-ledger.ts'
import { complain, exit, parseFlags } from './command.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'

const HELP = `Usage: weir ledger reset-window --org ID [--config FILE]

Budgets of a day or a month never go back to an earlier one: after a clock that was ahead they would not renew until the true
time has caught up. This sets those of an organisation and its keys back to today and this month, with what \`weir usage\` says
was spent since these began. With the embedded ledger stop the gateway first; with Redis it may run, and what runs at that moment
counts in the total alone.

  --org ID       the organisation
  --config FILE  the configuration (default: weir.yaml here, then /etc/weir/weir.yaml)
  --help         prints this

Exit codes: 0 done, 1 the ledger cannot be used, 2 wrong usage.
`

/** Returns the exit code. */
export async function ledger([action, ...args]: readonly string[]): Promise<number> {
  const isHelp = action === '--help' || action === '-h'
  if (action !== 'reset-window' && !isHelp) {
    complain('ledger needs an action: reset-window (see weir ledger --help)')
    return exit.usage
  }
  const parsed = parseFlags(isHelp ? [action] : args, HELP, { org: { type: 'string' }, config: { type: 'string' } })
  if ('code' in parsed) return parsed.code
  const { org: organization, config: flag } = parsed.flags
  if (typeof organization !== 'string') {
    complain('ledger reset-window needs --org ID (see weir ledger --help)')
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
      count === 0 ? `no window of ${organization} lies ahead\n` : `${windows} of ${organization} set back\n`,
    )
    return exit.done
  })
}
