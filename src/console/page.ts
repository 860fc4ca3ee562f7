/** The console: puts the bands into the page and gives them what the admin API reports. */

import type { Status } from '../admin/api-shapes.ts'
import { ago, span } from '../core/figure-text.ts'
import { AttentionBand } from './attention-band.ts'
import { BudgetsBand } from './budgets-band.ts'
import { ConnectionLine } from './connection-line.ts'
import { byId, StateMark, setText } from './elements.ts'
import { LiveFeed } from './live-feed.ts'
import { NodesBand } from './nodes-band.ts'
import { NowBand } from './now-band.ts'
import { showDetails } from './request-details.ts'
import { RequestsBand } from './requests-band.ts'
import { TargetsBand } from './targets-band.ts'
import { promptForToken } from './token-prompt.ts'
import { ServerClock } from './units.ts'

const clock = new ServerClock()
const attention = new AttentionBand(byId('attention'), clock, ({ band, search }) =>
  (band === 'targets' ? targets : budgets).table.find(search),
)
const now = new NowBand(byId('now'))
const nodes = new NodesBand(byId('nodes'), clock)
const targets = new TargetsBand(byId('targets'), clock)
const budgets = new BudgetsBand(byId('budgets'), clock, (words) => feed.searchBudgets(words))
const requests = new RequestsBand(byId('requests'), showDetails)
const readiness = new StateMark()
byId('readiness').append(readiness.node)

let lastStatus: Status | undefined
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
    lastStatus = status
    clock.adjust(status.time)
    showStatus(status)
    now.show(status)
    attention.show(status.attention, (status.targets['healthy'] ?? 0) > 0)
    byId('main').setAttribute('aria-busy', 'false')
  },
  targets(rows) {
    targets.show(rows)
    if (lastStatus !== undefined) showFirstRequest(lastStatus, rows[0]?.serves[0])
  },
  nodes: (answer) => nodes.show(answer),
  budgets: (answer) => budgets.show(answer),
  budgetsUnread: (problem) => budgets.table.fail(problem),
  recent: (lines) => requests.reset(lines),
  request: (line) => requests.add(line),
  omitted: (count) => requests.addOmitted(count),
  token: promptForToken,
})
const connection = new ConnectionLine(byId('connection'), () => feed.retry())

function showStatus(status: Status) {
  showReadiness(status)
  showFacts(status)
  const [own, all] = status.nodes !== null ? ['of this node', 'of all nodes'] : ['', '']
  targets.table.scope = requests.table.scope = own
  budgets.table.scope = all
}

/** Before the first request: how to send one. */
function showFirstRequest({ listen }: Status, model: string | undefined) {
  const isAny = listen.host === '0.0.0.0' || listen.host === '::'
  const host = isAny ? location.hostname : listen.host.includes(':') ? `[${listen.host}]` : listen.host
  const body = JSON.stringify({ model: model ?? 'MODEL', messages: [{ role: 'user', content: 'Hello' }] })
  const address = `http://${host}:${listen.port}/v1/chat/completions`
  requests.table.empty = `No requests yet. Send one: curl ${address} -H 'Authorization: Bearer KEY' -d '${body}'`
}

/** Green only if something has answered, and nothing is wrong. */
function showReadiness({ node, ready, reasons, problems, targets: states }: Status) {
  const messages = problems.map(({ message }) => message)
  if (!ready) readiness.show('bad', 'Not ready', reasons.join('\n'))
  else if (problems.length > 0) readiness.show('bad', problemWords(problems), messages.join('\n'))
  else if ((states['healthy'] ?? 0) > 0) readiness.show('good', 'Ready')
  else if ((states['unknown'] ?? 0) > 0) readiness.show('neutral', 'Ready', 'No target has been called yet.')
  else readiness.show('warning', 'Ready', 'No target answers.')
  const state = ready ? (problems.length === 0 ? undefined : problemWords(problems)) : 'not ready'
  document.title = ['weir', node, state].filter((part) => part !== undefined).join(' – ')
}

function problemWords(problems: Status['problems']): string {
  const down = problems.filter(({ kind }) => kind === 'model').length
  const [count, word] = down > 0 ? ([down, 'model'] as const) : ([problems.length, 'error'] as const)
  return `${count} ${word}${count === 1 ? '' : 's'}${down > 0 ? ' down' : ''}`
}

function showFacts({ node, version, commit, bun, uptime_seconds, last_reload, ledger, workers }: Status) {
  const reload = last_reload === null ? 'not reloaded since' : reloadText(last_reload)
  const place = location.hostname === node ? node : `${node} at ${location.host}`
  setText(byId('facts'), [place, `version ${version}`, `up ${span(uptime_seconds)}`, reload].join(' · '))
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
