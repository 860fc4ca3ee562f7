/** The band "Targets": each model of a provider, the unhealthy ones first. */

import type { TargetRow } from '../admin/api-shapes.ts'
import { ago, count, duration, lastErrorText, percent, span } from '../core/figure-text.ts'
import { element, type State, StateMark, setText } from './elements.ts'
import { type Cell, type Column, LiveTable, numberColumn } from './live-table.ts'
import { linesColumn, stateAbove, twoLines } from './two-lines.ts'
import type { ServerClock } from './units.ts'

/** Below this share of successful attempts the figure is marked, if so many failed: somebody should look at it. */
const SUCCESS_SHARE_WARNING = 0.95
const SUCCESS_SHARE_BAD = 0.75
const FAILURES_MIN = 3
/** Requests wait soon, or go elsewhere, if less than this is left of a limit. */
const ROOM_WARNING = 0.05

export class TargetsBand {
  readonly table: LiveTable<TargetRow>

  constructor(
    private readonly section: HTMLElement,
    clock: ServerClock,
  ) {
    this.table = new LiveTable<TargetRow>({
      section,
      title: 'Targets',
      columns: columns(clock),
      keyOf: ({ provider, model, serves }) => JSON.stringify([provider, model, serves]),
      textOf: (row) => [row.provider, row.model, ...row.serves, row.state, row.reason ?? ''].join(' ').toLowerCase(),
      placeholder: 'Filter by provider or model',
      page: 10,
      filterFrom: 11,
      empty: 'No targets. Add a model with targets to the configuration, then run: weir reload',
      countOf,
    })
  }

  show(rows: readonly TargetRow[]): void {
    // Most configurations limit no provider.
    const hasNoRoom = rows.every(({ room }) => room.length === 0)
    this.section.classList.toggle('no-room', hasNoRoom)
    this.table.show([...rows.filter(isTrouble), ...rows.filter((row) => !isTrouble(row))])
  }
}

function isTrouble({ state }: TargetRow): boolean {
  return state !== 'healthy' && state !== 'unknown'
}

function countOf(rows: readonly TargetRow[]): string {
  const counts = new Map(rows.map(({ state }) => [state, rows.filter((row) => row.state === state).length]))
  if (counts.size === 1 && rows.every(({ state }) => state === 'healthy')) return `${rows.length}, all healthy`
  return [...counts].map(([state, count]) => `${count} ${STATES[state][1].toLowerCase()}`).join(', ')
}

function columns(clock: ServerClock): readonly Column<TargetRow>[] {
  return [
    { name: 'state', title: 'State', cell: stateCell },
    linesColumn(
      'target',
      'Target',
      ({ provider, model }) => `${provider} / ${model}`,
      ({ serves }) => (serves.length === 0 ? '' : `serves ${serves.join(', ')}`),
    ),
    { name: 'success', title: 'Success', isNumber: true, label: 'ok', cell: successCell },
    numberColumn('latency', 'First byte p50 · p95', latencyOf, 'p50 · p95'),
    { name: 'room', title: 'Room', isNumber: true, label: 'room', cell: roomCell },
    { name: 'share', title: 'Traffic', isNumber: true, label: 'traffic', cell: shareCell },
    numberColumn('attempts', 'Attempts', ({ attempts }) => count(attempts)),
    {
      name: 'error',
      title: 'Last error',
      cell: () => {
        const lines = twoLines<TargetRow>(
          ({ last_error }) => (last_error === null ? '' : lastErrorText(last_error)),
          ({ last_error }) => (last_error === null ? '' : ago(-clock.secondsUntil(last_error.at))),
        )
        return {
          ...lines,
          show: (row, cell) => {
            lines.show(row, cell)
            cell.classList.toggle('nothing', row.last_error === null)
          },
        }
      },
    },
  ]
}

function latencyOf({ first_byte_p50_ms: p50, first_byte_p95_ms: p95 }: TargetRow): string {
  return p50 === null ? '–' : `${duration(p50)} · ${duration(p95)}`
}

const STATES: Readonly<Record<TargetRow['state'], readonly [State, string]>> = {
  unknown: ['neutral', 'Unknown'],
  healthy: ['good', 'Healthy'],
  failing: ['warning', 'Failing'],
  resting: ['bad', 'Resting'],
  probing: ['probing', 'Probing'],
}

/** The state, and below it why and for how long. */
function stateCell(): Cell<TargetRow> {
  return stateAbove(({ state: name, reason, rest_seconds }) => {
    const [state, word] = STATES[name]
    const rest = rest_seconds === null || rest_seconds <= 0 ? [] : [span(rest_seconds)]
    const below = name === 'healthy' ? '' : [...(reason === null ? [] : [reason]), ...rest].join(' · ')
    return { state, word, below }
  })
}

function successCell(): Cell<TargetRow> {
  const mark = new StateMark()
  return {
    content: mark.node,
    show: ({ success_share: share, attempts }) => {
      const failures = Math.round(attempts * (1 - (share ?? 1)))
      const isMarked = share !== null && share < SUCCESS_SHARE_WARNING && failures >= FAILURES_MIN
      mark.show(!isMarked ? undefined : share < SUCCESS_SHARE_BAD ? 'bad' : 'warning', percent(share))
    },
  }
}

/** What is left of the scarcest limit; the title has all of them. */
function roomCell(): Cell<TargetRow> {
  const mark = new StateMark()
  return {
    content: mark.node,
    show: ({ room, provider }, cell) => {
      const left = room[0]?.left ?? null
      const isScarce = left !== null && left < ROOM_WARNING
      mark.show(isScarce ? 'warning' : undefined, percent(left))
      const lines = room.map(({ limit, of, left }) => {
        return `${limit}${of === 'provider' ? ` of ${provider}` : ''}: ${percent(left)} left`
      })
      cell.classList.toggle('nothing', room.length === 0)
      if (cell.title !== lines.join('\n')) cell.title = lines.join('\n')
    },
  }
}

function shareCell(): Cell<TargetRow> {
  const [number, used] = [element('span'), element('span', { class: 'used' })]
  return {
    content: element('div', { class: 'share' }, number, element('span', { class: 'bar', 'aria-hidden': 'true' }, used)),
    show: ({ traffic_share }) => {
      setText(number, percent(traffic_share))
      used.style.width = `${Math.round((traffic_share ?? 0) * 100)}%`
    },
  }
}
