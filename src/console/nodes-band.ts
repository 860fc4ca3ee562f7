/** The band "Nodes": each node that shares the Redis; absent on a single node. */

import type { NodeRow, Nodes } from '../admin/api-shapes.ts'
import { count, dollars, percent, rate, span } from '../core/figure-text.ts'
import { type Cell, type Column, LiveTable, numberColumn } from './live-table.ts'
import { linesColumn, stateAbove } from './two-lines.ts'
import type { ServerClock } from './units.ts'

/** A row, with the sections in which its node differs from most. */
type Row = NodeRow & { readonly differs: readonly string[] }

/** Below a state; `weir nodes` has all of them. */
const SECTIONS_SHOWN = 2

export class NodesBand {
  readonly table: LiveTable<Row>

  constructor(
    private readonly section: HTMLElement,
    clock: ServerClock,
  ) {
    this.table = new LiveTable<Row>({
      section,
      title: 'Nodes',
      columns: columns(clock),
      keyOf: ({ id }) => id,
      textOf: (row) => [row.name, row.host, row.version, row.state, ...row.differs].join(' ').toLowerCase(),
      idsOf: ({ id }) => [id],
      placeholder: 'Filter by name, host or version',
      page: 10,
      filterFrom: 11,
      empty: 'No nodes.',
      countOf,
    })
    section.hidden = true
  }

  show({ nodes, mixed }: Nodes): void {
    this.section.hidden = nodes.length < 2
    const differs = (id: string) => mixed.flatMap((each) => (each.nodes.includes(id) ? [each.section] : []))
    this.table.show(nodes.map((row) => ({ ...row, differs: differs(row.id) })))
  }
}

function countOf(rows: readonly Row[]): string {
  const [draining, different] = [
    rows.filter(({ state }) => state === 'draining').length,
    rows.filter(({ differs }) => differs.length > 0).length,
  ]
  const parts = [
    ...(draining === 0 ? [] : [`${draining} draining`]),
    ...(different === 0 ? [] : [`${different} with another configuration or version`]),
  ]
  return parts.length === 0 ? `${rows.length}, all alike` : [`${rows.length}`, ...parts].join(', ')
}

function columns(clock: ServerClock): readonly Column<Row>[] {
  return [
    { name: 'state', title: 'State', cell: stateCell },
    linesColumn(
      'node',
      'Node',
      ({ name }) => name,
      ({ id, host, name }) => (host === name ? id : `${id} on ${host}`),
    ),
    linesColumn(
      'version',
      'Version',
      ({ version, commit }) => (commit === null ? version : `${version} (${commit})`),
      ({ since }) => `up ${span(-clock.secondsUntil(since))}`,
    ),
    numberColumn('workers', 'Workers', ({ workers }) => count(workers), 'workers'),
    numberColumn('rate', 'Requests/s', (row) => rate(row.requests_per_second), 'a second'),
    numberColumn('streams', 'Streams', ({ open_streams }) => count(open_streams), 'streams'),
    numberColumn('failed', 'Failed', ({ failed_ratio }) => percent(failed_ratio), 'failed'),
    numberColumn('spend', 'Spend/h', (row) => dollars(row.spend_micro_usd_per_hour), 'an hour'),
  ]
}

/** The state, and below it what the node has otherwise than most. */
function stateCell(): Cell<Row> {
  return stateAbove(({ state, differs }) => {
    const more = differs.length - SECTIONS_SHOWN
    const below = [...differs.slice(0, SECTIONS_SHOWN), ...(more > 0 ? [`${more} more`] : [])].join(', ')
    const words = { below, title: differs.join('\n') }
    if (state === 'draining') return { state: 'neutral', word: 'Draining', ...words }
    return differs.length > 0
      ? { state: 'warning', word: 'Differs', ...words }
      : { state: 'good', word: 'Ready', ...words }
  })
}
