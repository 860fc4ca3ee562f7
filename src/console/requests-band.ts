/**
 * The band "Requests": the last 200 that ended, the newest first. It redraws once a second at most, and holds still if
 * somebody points at a row or moves through the rows with the keyboard: a row that moves cannot be clicked.
 */

import { count, dollars, duration } from '../core/figure-text.ts'
import { element, StateMark, setAttribute, setText } from './elements.ts'
import { type Cell, type Column, LiveTable, numberColumn } from './live-table.ts'
import {
  idsOf,
  isFailed,
  modelOf,
  ownerOf,
  type RequestView,
  resultState,
  resultWord,
  searchText,
} from './request-line-view.ts'
import { linesColumn } from './two-lines.ts'
import { clockTime } from './units.ts'

const LINES_MAX = 200
const REDRAW_MS = 1_000
/** If the row under a finger moves before the finger is lifted, the browser reports no click on it. */
const PRESS_MS = 800

export class RequestsBand {
  readonly table: LiveTable<RequestView>
  private readonly heldBack = element('p', { class: 'held-back' })
  private lines: readonly RequestView[] = []
  /** Arrived since the last redraw, the oldest first; at most `LINES_MAX`. */
  private arrived: RequestView[] = []
  private arrivedCount = 0
  private omitted = 0
  private redraw: ReturnType<typeof setTimeout> | undefined
  private drawnMs = 0
  private isPointedAt = false
  private pressedMs = 0
  private isReading = false

  /** `open` shows the details of a request. */
  constructor(
    section: HTMLElement,
    private readonly open: (line: RequestView) => Promise<void>,
  ) {
    this.table = new LiveTable<RequestView>({
      section,
      title: 'Requests',
      columns: columns(),
      keyOf: ({ request_id }) => request_id,
      textOf: searchText,
      idsOf,
      placeholder: 'Filter, for example: acme 429',
      page: 15,
      filterFrom: 1,
      empty: 'No requests yet. Send one with a key of the configuration; it appears here when it ends.',
      only: { title: 'Failed only', matches: isFailed },
      countOf: (lines) => `last ${lines.length}${this.omitted === 0 ? '' : `, ${count(this.omitted)} left out`}`,
    })
    this.table.head.insertBefore(this.heldBack, this.table.head.lastElementChild)
    this.listen()
  }

  /** Replaces all requests; the newest first. */
  reset(lines: readonly RequestView[]): void {
    this.lines = lines.slice(0, LINES_MAX)
    this.arrived = []
    this.arrivedCount = this.omitted = 0
    this.schedule()
  }

  add(line: RequestView): void {
    this.arrived.push(line)
    this.arrivedCount++
    if (this.arrived.length > 2 * LINES_MAX) this.arrived.splice(0, LINES_MAX)
    this.schedule()
  }

  /** Requests that the server did not send, because there were too many in a second. */
  addOmitted(requests: number): void {
    this.omitted += requests
    this.schedule()
  }

  private schedule(): void {
    this.redraw ??= setTimeout(
      () => {
        this.redraw = undefined
        this.draw()
      },
      Math.max(0, this.drawnMs + REDRAW_MS - Date.now()),
    )
  }

  private draw(): void {
    this.drawnMs = Date.now()
    if (this.isHeld()) {
      setText(this.heldBack, this.arrivedCount === 0 ? 'Held' : `Held, ${count(this.arrivedCount)} new`)
      return
    }
    setText(this.heldBack, '')
    // The answer to the first question and the events that followed it may have the same requests.
    const known = new Set(this.lines.map(({ request_id }) => request_id))
    const added = this.arrived.filter(({ request_id }) => !known.has(request_id)).reverse()
    this.lines = [...added, ...this.lines].slice(0, LINES_MAX)
    this.arrived = []
    this.arrivedCount = 0
    this.table.show(this.lines)
  }

  private isHeld(): boolean {
    const { body } = this.table
    const isPressed = Date.now() - this.pressedMs < PRESS_MS
    return isPressed || this.isReading || this.isPointedAt || body.querySelector(':focus-visible') !== null
  }

  private listen(): void {
    const { body, input } = this.table
    // Not `pointerenter`: after the details closed, the pointer may be here without having entered.
    body.addEventListener('pointermove', ({ pointerType }) => {
      this.isPointedAt = pointerType === 'mouse'
    })
    body.addEventListener('pointerdown', () => {
      this.pressedMs = Date.now()
      setTimeout(() => this.schedule(), PRESS_MS)
    })
    body.addEventListener('pointerleave', () => {
      this.isPointedAt = false
      this.schedule()
    })
    body.addEventListener('focusout', () => this.schedule())
    body.addEventListener('click', ({ target }) => void this.clicked(target))
    body.addEventListener('keydown', (event) => this.moved(event))
    document.addEventListener('keydown', (event) => {
      const isTyping = event.target instanceof HTMLInputElement
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      input.focus()
    })
  }

  private async clicked(target: EventTarget | null): Promise<void> {
    const row = target instanceof Element ? target.closest('tr') : null
    const line = row === null ? undefined : this.table.rowOf(row)
    if (line === undefined) return
    this.isReading = true
    await this.open(line)
    this.isReading = false
    this.schedule()
  }

  /** Arrow keys, Home and End move through the rows. */
  private moved(event: KeyboardEvent): void {
    const rows = [...this.table.body.children]
    const at = rows.findIndex((row) => row.contains(document.activeElement))
    const last = rows.length - 1
    const next = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last }[event.key]
    const button = next === undefined ? null : rows[next]?.querySelector('button')
    if (at === -1 || !button) return
    event.preventDefault()
    button.focus()
  }
}

function columns(): readonly Column<RequestView>[] {
  return [
    { name: 'time', title: 'Time', cell: timeCell },
    { name: 'result', title: 'Result', cell: resultCell },
    linesColumn('owner', 'Organisation · key', ownerOf, () => ''),
    linesColumn('model', 'Model', modelOf, ({ provider, dialect, transport }) =>
      [dialect, transport, provider].filter(Boolean).join(' · '),
    ),
    numberColumn('tokens', 'Tokens in → out', tokensOf),
    numberColumn('first', 'First byte', ({ first_byte_ms }) => duration(first_byte_ms)),
    numberColumn('total', 'Total', ({ total_ms }) => duration(total_ms)),
    numberColumn('cost', 'Cost', ({ cost_micro_usd: cost }) => (cost === undefined ? '–' : dollars(cost, 4))),
  ]
}

function tokensOf({ input_tokens, output_tokens }: RequestView): string {
  if (input_tokens === undefined && output_tokens === undefined) return '–'
  return `${count(input_tokens ?? 0)} → ${count(output_tokens ?? 0)}`
}

/** The button that opens the details; it covers the row. */
function timeCell(): Cell<RequestView> {
  const button = element('button', { class: 'open', type: 'button' })
  return {
    content: button,
    show: (line) => {
      const time = line.time === undefined ? '–' : clockTime(new Date(line.time))
      setText(button, time)
      setAttribute(button, 'aria-label', `${time}, details of the request for ${modelOf(line)}`)
    },
  }
}

function resultCell(): Cell<RequestView> {
  const mark = new StateMark()
  const code = element('span', { class: 'code' })
  mark.node.insertBefore(code, mark.node.lastChild)
  return {
    content: mark.node,
    show: (line) => {
      setText(code, line.status === undefined ? '' : String(line.status))
      mark.show(resultState(line), resultWord(line), resultWord(line))
    },
  }
}
