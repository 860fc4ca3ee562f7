/**
 * The connection to the admin API: first the state as a whole, then its changes as events, and every two seconds the
 * tables, which have no events. Reconnects with growing pauses after a loss. Disconnects while the page is hidden.
 */

import type { Budgets, Nodes, Status, TargetRow, Targets } from '../admin/api-shapes.ts'
import { ApiError, askJson, TokenNeeded } from './api-client.ts'
import type { RequestView } from './request-line-view.ts'
import { readEvents } from './server-events.ts'

/** Tables are asked for this long after their last answer. */
const TABLES_MS = 2_000
/** `status` comes every second; without it for this long the connection is dead, even without an error. */
const SILENCE_MS_MAX = 6_000
const RETRY_MS_MIN = 500
const RETRY_MS_MAX = 10_000
/** How long the page stays connected after it was hidden, so that a short look elsewhere loses nothing. */
const HIDDEN_MS_MAX = 30_000

/** What the page shows as the state of its connection. */
export type FeedState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'paused' }
  /** `problem` is a message of the API; undefined if it could not be reached. */
  | { readonly kind: 'lost'; readonly retryAtMs: number; readonly problem: string | undefined }

interface FeedListener {
  connection(state: FeedState): void
  status(status: Status): void
  targets(rows: readonly TargetRow[]): void
  nodes(answer: Nodes): void
  budgets(answer: Budgets): void
  /** The API answers, and cannot read the budgets. */
  budgetsUnread(problem: string): void
  /** The last requests that ended, the newest first. */
  recent(lines: readonly RequestView[]): void
  /** Another one has ended. */
  request(line: RequestView): void
  omitted(requests: number): void
  /** Resolves when the person has entered a token. */
  token(wasRejected: boolean): Promise<void>
}

export class LiveFeed {
  private failures = 0
  private abort = new AbortController()
  private lastEventMs = 0
  private retryNow: (() => void) | undefined
  /** What the person searches budgets for; '' for all. */
  private budgetSearch = ''
  private readTablesNow: (() => void) | undefined

  constructor(private readonly listener: FeedListener) {}

  /** Never resolves: connects, and connects again. */
  async run(): Promise<never> {
    this.watchVisibility()
    setInterval(() => this.watchSilence(), 1_000)
    for (;;) {
      await this.visible()
      if (this.failures === 0) this.listener.connection({ kind: 'connecting' })
      this.abort = new AbortController()
      try {
        await this.connected(this.abort)
        throw new Error('the stream of events ended')
      } catch (error) {
        this.abort.abort()
        await this.pauseAfter(error)
      }
    }
  }

  /** Ends the pause before the next attempt. */
  retry(): void {
    this.retryNow?.()
  }

  /** Reads the budgets that have all of the words, now and from now on. */
  searchBudgets(words: string): void {
    this.budgetSearch = words
    this.readTablesNow?.()
  }

  private async connected(abort: AbortController): Promise<void> {
    const { listener } = this
    const status = await askJson<Status>('/api/status?history=true')
    const recent = await askJson<{ readonly rows: readonly RequestView[] }>('/api/requests?recent=200')
    this.failures = 0
    this.lastEventMs = Date.now()
    listener.connection({ kind: 'live' })
    listener.status(status)
    listener.recent(recent.rows)
    const tables = this.readTables(abort.signal)
    const events = readEvents('/api/events', abort.signal, (name, data) => {
      this.lastEventMs = Date.now()
      this.deliver(name, data)
    })
    await Promise.race([events, tables])
  }

  private deliver(name: string, data: string): void {
    // The name of an event stands for the shape of its data.
    if (name === 'status') this.listener.status(JSON.parse(data))
    else if (name === 'request') this.listener.request(JSON.parse(data))
    else if (name === 'omitted') {
      const { requests }: { readonly requests: number } = JSON.parse(data)
      this.listener.omitted(requests)
    }
  }

  private async readTables(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (!document.hidden) {
        const { budgetSearch } = this
        const [targets, nodes, budgets] = await Promise.all([
          askJson<Targets>('/api/targets'),
          askJson<Nodes>('/api/nodes'),
          askBudgets(budgetSearch),
        ])
        if (signal.aborted) return
        this.listener.targets(targets.rows)
        this.listener.nodes(nodes)
        // Meanwhile something else was typed.
        if (budgetSearch !== this.budgetSearch) continue
        if (budgets instanceof ApiError) this.listener.budgetsUnread(budgets.message)
        else this.listener.budgets(budgets)
      }
      await new Promise<void>((resolve) => {
        this.readTablesNow = resolve
        setTimeout(resolve, TABLES_MS)
      })
    }
  }

  private async pauseAfter(error: unknown): Promise<void> {
    if (error instanceof TokenNeeded) return await this.listener.token(error.wasRejected)
    if (document.hidden) return
    // Half of it is random, so that the tabs of many people do not return at the same moment.
    const longest = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.failures)
    const pauseMs = longest / 2 + (Math.random() * longest) / 2
    this.failures++
    const problem = error instanceof ApiError ? error.message : undefined
    this.listener.connection({ kind: 'lost', retryAtMs: Date.now() + pauseMs, problem })
    await new Promise<void>((resolve) => {
      this.retryNow = resolve
      setTimeout(resolve, pauseMs)
    })
  }

  private watchSilence(): void {
    if (this.lastEventMs !== 0 && Date.now() - this.lastEventMs > SILENCE_MS_MAX) {
      this.lastEventMs = 0
      this.abort.abort()
    }
  }

  private watchVisibility(): void {
    let hidden: ReturnType<typeof setTimeout> | undefined
    document.addEventListener('visibilitychange', () => {
      clearTimeout(hidden)
      if (document.hidden) hidden = setTimeout(() => this.abort.abort(), HIDDEN_MS_MAX)
    })
  }

  private async visible(): Promise<void> {
    if (!document.hidden) return
    this.listener.connection({ kind: 'paused' })
    this.lastEventMs = 0
    await new Promise<void>((resolve) => {
      document.addEventListener('visibilitychange', () => resolve(), { once: true })
    })
  }
}

/** An error of the API is no lost connection: without the ledger there are no budgets, and everything else is there. */
async function askBudgets(words: string): Promise<Budgets | ApiError> {
  try {
    return await askJson<Budgets>(`/api/budgets${words === '' ? '' : `?search=${encodeURIComponent(words)}`}`)
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
}
