/** Shows whether the page is live. A lost connection is plain to see, with the time of the next attempt. */

import { element, setText } from './elements.ts'
import type { FeedState } from './live-feed.ts'
import { clockTime } from './units.ts'

export class ConnectionLine {
  private readonly words = element('span')
  /** Not read out: it changes every second. */
  private readonly wait = element('span', { 'aria-hidden': 'true' })
  private readonly retry = element('button', { class: 'link', type: 'button' }, 'Retry now')
  private state: FeedState = { kind: 'connecting' }
  private lastLive: Date | undefined

  constructor(node: HTMLElement, onRetry: () => void) {
    this.retry.hidden = true
    this.retry.addEventListener('click', onRetry)
    node.append(element('span', { class: 'dot', 'aria-hidden': 'true' }), this.words)
    node.after(this.wait, this.retry)
    setInterval(() => this.count(), 1_000)
    this.show(this.state)
  }

  show(state: FeedState): void {
    if (this.state.kind === 'live' && state.kind === 'lost') this.lastLive = new Date()
    this.state = state
    document.body.dataset['connection'] = state.kind
    setText(this.words, this.text())
    this.retry.hidden = state.kind !== 'lost'
    this.count()
  }

  private text(): string {
    const { state, lastLive } = this
    if (state.kind === 'live') return 'Live'
    if (state.kind === 'connecting') return 'Connecting …'
    if (state.kind === 'paused') return 'Paused'
    const since = lastLive === undefined ? '' : `; figures are of ${clockTime(lastLive)}`
    return state.problem ?? `Connection lost${since}`
  }

  private count(): void {
    const { state } = this
    const seconds = state.kind === 'lost' ? Math.ceil((state.retryAtMs - Date.now()) / 1000) : undefined
    this.wait.hidden = seconds === undefined
    setText(this.wait, seconds === undefined ? '' : seconds > 0 ? `retry in ${seconds} s` : 'retrying …')
  }
}
