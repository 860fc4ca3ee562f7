/** Checks of `alerts` beyond the schema: the address of the webhook, and the order of the shares. */

import { isLoopback } from '../core/loopback.ts'
import type { Check } from './check-context.ts'

export function checkAlerts({ file, problems }: Check): void {
  const { alerts } = file
  if (alerts === undefined) return
  const problem = alerts.webhook === undefined ? undefined : webhookProblem(alerts.webhook)
  if (problem !== undefined) problems.add(['alerts', 'webhook'], problem)
  const shares = alerts.spend ?? []
  for (const [index, share] of shares.entries()) {
    const before = shares[index - 1]
    if (share !== undefined && before !== undefined && share <= before)
      problems.add(['alerts', 'spend', index], `must be above the share before it (${before})`)
  }
}

function webhookProblem(webhook: string): string | undefined {
  const url = URL.canParse(webhook) ? new URL(webhook) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    return 'must be an address that begins with https://'
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user name or password; the signature proves who sends'
  if (url.hash !== '') return 'must not contain a fragment'
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    return 'must begin with https://; http:// is for addresses of this machine, such as 127.0.0.1'
  return undefined
}
