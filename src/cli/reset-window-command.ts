/** `weir ledger reset-window`: moves back budget windows that a wrong clock opened too early. */

import { openAuditLog, openUsageLog, openWindowReset } from '../assembly/open-ledger.ts'
import { auditedUsage } from '../ledger/audited-usage.ts'
import { firstDayNow } from '../ledger/window-reset.ts'
import { withLedger } from '../reports/ledger-part.ts'
import { exit, parseFlags, requiredText } from './command.ts'
import { configured } from './ledger-access.ts'

export const actions = { 'reset-window': resetWindow }

async function resetWindow(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'ledger reset-window')
  const organization = requiredText(flags, 'org')
  const config = await configured(flags['config'])
  const query = { sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER, organization }
  const owner = config.organizations.find(({ id }) => id === organization) ?? { id: organization }
  const count = await withLedger(openWindowReset, config, async (windows) => {
    const usage = await withLedger(openUsageLog, config, (log) => log.read(query))
    const sinceDay = firstDayNow(owner, Date.now())
    const audited = await withLedger(openAuditLog, config, (log) => auditedUsage(organization, usage, sinceDay, log))
    return await windows.reset(owner, audited)
  })
  const windows = count === 1 ? '1 window' : `${count} windows`
  process.stdout.write(
    count === 0 ? `no window of ${organization} is in the future\n` : `${windows} of ${organization} moved back\n`,
  )
  return exit.done
}
