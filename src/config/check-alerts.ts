/** Checks of `alerts` beyond the schema: the addresses and secrets of the hooks, and the order of the shares. */

import { ALERT_NAMES } from '../core/alerts-config.ts'
import { isLoopback } from '../core/loopback.ts'
import { matches } from '../core/permission.ts'
import type { Check } from './check-context.ts'
import { didYouMean, type Path, UNREADABLE_ADDRESS } from './problems.ts'

type FileAlerts = NonNullable<Check['file']['alerts']>
type FileHook = NonNullable<NonNullable<FileAlerts['hooks']>[number]>

export function checkAlerts(check: Check): void {
  const { file, completed, problems } = check
  const { alerts } = file
  if (alerts === undefined) return
  const hooks = completed.alerts?.hooks ?? []
  if (alerts.webhook === undefined) {
    if (alerts.secret !== undefined) problems.add(['alerts', 'secret'], 'is the secret of `webhook`, which is missing')
    else if (alerts.hooks === undefined || alerts.hooks.length === 0)
      problems.add(['alerts', 'webhook'], 'is missing; set it, or hooks')
  } else {
    const problem = urlProblem(alerts.webhook)
    if (problem !== undefined) problems.add(['alerts', 'webhook'], problem)
    if (alerts.secret === undefined) problems.add(['alerts', 'secret'], 'is missing (required key)')
  }
  checkShares(alerts, problems)
  const seen = new Set<string>()
  for (const [i, hook] of hooks.entries()) {
    if (hook === undefined) continue
    const place: Path = ['alerts', 'hooks', i]
    const problem = hookProblem(hook)
    if (problem !== undefined) problems.add([...place, problem.key], problem.message)
    const name = `${hook.format} ${hook.url}`
    if (seen.has(name)) problems.add([...place, 'url'], 'is that of another hook of this format; give it one hook')
    seen.add(name)
    checkEvents(check, [...place, 'events'], hook.events ?? [])
  }
}

/** A warning: a later version may have such a type. */
function checkEvents({ problems, shown }: Check, path: Path, globs: readonly (string | undefined)[]): void {
  for (const [i, glob] of globs.entries()) {
    if (glob === undefined || ALERT_NAMES.some((name) => matches(glob, name))) continue
    const advice = didYouMean(glob, ALERT_NAMES) || '; correct it, or remove it'
    problems.warn([...path, i], `${shown([...path, i], glob)} matches no type of alert${advice}`)
  }
}

function checkShares(alerts: FileAlerts, problems: Check['problems']): void {
  const shares = alerts.spend ?? []
  for (const [index, share] of shares.entries()) {
    const before = shares[index - 1]
    if (share !== undefined && before !== undefined && share <= before)
      problems.add(['alerts', 'spend', index], `must be above the share before it (${before})`)
  }
}

/** PagerDuty calls it the integration key, and its API the routing key. */
const ROUTING_KEY = /^[0-9A-Za-z]{32}$/

function hookProblem({
  url,
  format,
  secret,
}: FileHook): { readonly key: string; readonly message: string } | undefined {
  // Many run without TLS in the network of the gateway. What is posted is signed by nothing, and a token is not sent.
  const isPlain = format === 'alertmanager' && secret === undefined
  const message = url === undefined ? undefined : urlProblem(url, isPlain)
  if (message !== undefined) return { key: 'url', message }
  switch (format) {
    case 'weir':
      if (secret !== undefined) return undefined
      return { key: 'secret', message: 'is missing; the format weir is signed with it (openssl rand -hex 32)' }
    case 'slack':
      if (secret === undefined) return undefined
      return { key: 'secret', message: 'has no effect with the format slack, whose address is the secret; remove it' }
    case 'pagerduty':
      if (secret !== undefined && ROUTING_KEY.test(secret)) return undefined
      return { key: 'secret', message: 'must be the integration key of a service of PagerDuty: 32 letters and digits' }
    default:
      return undefined
  }
}

function urlProblem(address: string, isPlain = false): string | undefined {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (!/^https?:\/\//i.test(address)) return 'must be an address that begins with https://'
  if (url === undefined) return UNREADABLE_ADDRESS
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user name or password; the secret proves who sends'
  if (url.hash !== '') return 'must not contain a fragment'
  if (url.protocol === 'http:' && !isPlain && !isLoopback(url.hostname))
    return 'must begin with https://; http:// is for addresses of this machine, such as 127.0.0.1'
  return undefined
}
