/** The console: puts the bands into the page and gives them what the admin API reports. */

import type { Status } from '../admin/api-shapes.ts'
import { ago, span } from '../core/figure-text.ts'
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
import { ServerClock } from './units.ts'

const clock = new ServerClock()
const attention = new AttentionBand(byId('attention'), clock)
const now = new NowBand(byId('now'))
const targets = new TargetsBand(byId('targets'), clock)
const budgets = new BudgetsBand(byId('budgets'), clock, (words) => feed.searchBudgets(words))
const requests = new RequestsBand(byId('requests'), showDetails)
const readiness = new StateMark()
byId('readiness').append(readiness.node)

const feed = new LiveFeed({
  connection(state) {
    connection.show(state)
    if (state.kind === 'live') return
    // What is not reached is not called ready.
    const isLost = state.kind === 'lost'
    readiness.show(isLost ? 'bad' : 'neutral', isLost ? 'Not reached' : state.kind === 'paused' ? 'Paused' : '…')
    if (isLost) document.title = 'weir – not reached'
  },
  status(status) {
    clock.adjust(status.time)
    showStatus(status)
    now.show(status)
    attention.show(status.attention, (status.targets['healthy'] ?? 0) > 0)
    byId('main').setAttribute('aria-busy', 'false')
  },
  targets: (rows) => targets.show(rows),
  budgets: (answer) => budgets.show(answer),
  recent: (lines) => requests.reset(lines),
  request: (line) => requests.add(line),
  omitted: (count) => requests.addOmitted(count),
  token: promptForToken,
})
const connection = new ConnectionLine(byId('connection'), () => feed.retry())

function showStatus(status: Status) {
  showReadiness(status)
  showFacts(status)
}

/** Green only if something has answered, and nothing is wrong. */
function showReadiness({ ready, reasons, problems, targets: states }: Status) {
  const messages = problems.map(({ message }) => message)
  if (!ready) readiness.show('bad', 'Not ready', reasons.join('\n'))
  else if (problems.length > 0) readiness.show('bad', problemWords(problems), messages.join('\n'))
  else if ((states['healthy'] ?? 0) > 0) readiness.show('good', 'Ready')
  else if ((states['unknown'] ?? 0) > 0) readiness.show('neutral', 'Ready', 'No target has been called yet.')
  else readiness.show('warning', 'Ready', 'No target answers.')
  document.title = ready && problems.length === 0 ? 'weir' : `weir – ${ready ? problemWords(problems) : 'not ready'}`
}

function problemWords(problems: Status['problems']): string {
  const down = problems.filter(({ kind }) => kind === 'model').length
  const [count, word] = down > 0 ? ([down, 'model'] as const) : ([problems.length, 'error'] as const)
  return `${count} ${word}${count === 1 ? '' : 's'}${down > 0 ? ' down' : ''}`
}

function showFacts({ version, commit, bun, uptime_seconds, last_reload, ledger, workers }: Status) {
  const reload = last_reload === null ? 'not reloaded since' : reloadText(last_reload)
  setText(byId('facts'), [`version ${version}`, `up ${span(uptime_seconds)}`, reload].join(' · '))
  const processes = `${workers.ready} of ${workers.configured} workers`
  const restarts = workers.restarts === 0 ? [] : [`${workers.restarts} restarts`]
  const program = `weir ${version}${commit === null ? '' : ` (${commit})`}`
  const store = `${ledger.kind} ledger${ledger.up ? '' : ' down'}`
  setText(byId('build'), [program, `Bun ${bun}`, processes, ...restarts, store].join(' · '))
}

function reloadText({ at, ok }: NonNullable<Status['last_reload']>): string {
  return `${ok ? 'reloaded' : 'reload failed'} ${ago(-clock.secondsUntil(at))}`
}

void feed.run()
