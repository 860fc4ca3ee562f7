/** The console: puts the bands into the page and gives them what the admin API reports. */

import type { Status } from '../admin/api-shapes.ts'
import { AttentionBand } from './attention-band.ts'
import { BudgetsBand } from './budgets-band.ts'
import { ConnectionLine } from './connection-line.ts'
import { byId, StateMark, setText } from './elements.ts'
import { LiveFeed } from './live-feed.ts'
import { NowBand } from './now-band.ts'
import { showDetails } from './request-details.ts'
import { RequestsBand } from './requests-band.ts'
import { TargetsBand } from './targets-band.ts'
import { promptForToken } from './token-prompt.ts'
import { ago, ServerClock, span } from './units.ts'

const clock = new ServerClock()
const attention = new AttentionBand(byId('attention'), clock)
const now = new NowBand(byId('now'))
const targets = new TargetsBand(byId('targets'), clock)
const budgets = new BudgetsBand(byId('budgets'), clock)
const requests = new RequestsBand(byId('requests'), showDetails)
const readiness = new StateMark()
byId('readiness').append(readiness.node)

const feed = new LiveFeed({
  connection: (state) => connection.show(state),
  status(status) {
    clock.adjust(status.time)
    showStatus(status)
    now.show(status)
    attention.show(status.attention)
    byId('main').setAttribute('aria-busy', 'false')
  },
  targets: (rows) => targets.show(rows),
  budgets: (rows, more) => budgets.show(rows, more),
  recent: (lines) => requests.reset(lines),
  request: (line) => requests.add(line),
  omitted: (count) => requests.addOmitted(count),
  token: promptForToken,
})
const connection = new ConnectionLine(byId('connection'), () => feed.retry())

function showStatus({
  ready,
  reasons,
  version,
  commit,
  bun,
  uptime_seconds,
  last_reload,
  ledger,
  workers,
  attention,
}: Status) {
  readiness.show(ready ? 'good' : 'bad', ready ? 'Ready' : 'Not ready', reasons.join('\n'))
  const reload = last_reload === null ? 'not reloaded since' : reloadText(last_reload)
  setText(byId('facts'), [`version ${version}`, `up ${span(uptime_seconds)}`, reload].join(' · '))
  const processes = `${workers.ready} of ${workers.configured} workers`
  const restarts = workers.restarts === 0 ? [] : [`${workers.restarts} restarts`]
  const program = `weir ${version}${commit === null ? '' : ` (${commit})`}`
  const store = `${ledger.kind} ledger${ledger.up ? '' : ' down'}`
  setText(byId('build'), [program, `Bun ${bun}`, processes, ...restarts, store].join(' · '))
  const errors = attention.filter(({ level }) => level === 'error').length
  document.title = ready && errors === 0 ? 'weir' : `weir – ${ready ? `${errors} to look at` : 'not ready'}`
}

function reloadText({ at, ok }: NonNullable<Status['last_reload']>): string {
  return `${ok ? 'reloaded' : 'reload failed'} ${ago(-clock.secondsUntil(at))}`
}

void feed.run()
