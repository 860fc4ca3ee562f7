/** The band "Budgets": each limit of an organisation, a key or a budget, those that refuse first, then the fullest. */

import type { BudgetRow, Budgets } from '../admin/api-shapes.ts'
import { amountText, count, percent, roughSpan, span } from '../core/figure-text.ts'
import { element, StateMark, setAttribute } from './elements.ts'
import { type Cell, type Column, LiveTable } from './live-table.ts'
import { linesColumn, stateAbove, twoLines } from './two-lines.ts'
import type { ServerClock } from './units.ts'

const FULL_SHARE_WARNING = 0.8

export class BudgetsBand {
  readonly table: LiveTable<BudgetRow>
  private more = 0

  /** `search` reads the budgets with all of the words. */
  constructor(section: HTMLElement, clock: ServerClock, search: (words: string) => void) {
    this.table = new LiveTable<BudgetRow>({
      section,
      title: 'Budgets',
      columns: columns(clock),
      keyOf: ({ organization, key, budget, value, limit }) => JSON.stringify([organization, key, budget, value, limit]),
      placeholder: 'Filter by organisation, key, budget or limit',
      page: 10,
      filterFrom: 11,
      empty: 'No limits are set. Add limits to an organisation or a key in the configuration, then run: weir reload',
      countOf: (rows) => this.countOf(rows),
      // There may be any number of organisations; the page has the fullest alone.
      search,
    })
  }

  show({ rows, more, total }: Budgets): void {
    this.more = more
    this.table.show(rows, { total, more })
  }

  private countOf(rows: readonly BudgetRow[]): string {
    const refusing = rows.filter(({ state }) => state === 'refusing').length
    const full = rows.filter((row) => shareOf(row) >= FULL_SHARE_WARNING).length
    const all = this.more > 0 ? `${count(rows.length)} fullest of ${count(rows.length + this.more)}` : `${rows.length}`
    const counts = [
      ...(refusing === 0 ? [] : [`${refusing} refusing`]),
      ...(full === 0 ? [] : [`${full} above ${percent(FULL_SHARE_WARNING)}`]),
    ]
    return [all, ...counts].join(', ')
  }
}

/** The organisation, and the key or the budget with its value. */
function ownerText({ organization, key, budget, value }: BudgetRow, between: string): string {
  return [organization, key ?? budget, value].filter((part) => part != null).join(between)
}

function shareOf({ amount, used, held }: BudgetRow): number {
  return amount === 0 ? 1 : (used + held) / amount
}

/** Requests are refused, or the next one is. */
function isUsedUp(row: BudgetRow): boolean {
  return row.state === 'refusing' || shareOf(row) >= 1
}

function columns(clock: ServerClock): readonly Column<BudgetRow>[] {
  return [
    linesColumn(
      'owner',
      'Limit',
      (row) => ownerText(row, ' · '),
      ({ limit }) => limit,
    ),
    { name: 'bar', title: 'Used', cell: meterCell },
    {
      name: 'amounts',
      title: 'Amount',
      isNumber: true,
      cell: () =>
        twoLines(
          (row) => `${amountText(row.unit, row.used)} of ${amountText(row.unit, row.amount)}`,
          (row) => (row.held === 0 ? '' : `${amountText(row.unit, row.held)} held`),
        ),
    },
    { name: 'renews', title: 'Renews', cell: () => renewalCell(clock) },
  ]
}

/** A bar of what is used and held, with the percentage. */
function meterCell(): Cell<BudgetRow> {
  const [usedBar, heldBar] = [element('span', { class: 'used' }), element('span', { class: 'held' })]
  const number = new StateMark('state percent')
  number.node.setAttribute('aria-hidden', 'true')
  const range = { 'aria-valuemin': '0', 'aria-valuemax': '100' }
  const bar = element('div', { class: 'bar', role: 'meter', ...range }, usedBar, heldBar)
  return {
    content: element('div', { class: 'meter' }, bar, number.node),
    show: (row) => {
      const share = shareOf(row)
      const usedPart = row.amount === 0 ? 100 : Math.min(100, (row.used / row.amount) * 100)
      const heldPart = row.amount === 0 ? 0 : Math.min(100 - usedPart, (row.held / row.amount) * 100)
      usedBar.style.width = `${usedPart.toFixed(1)}%`
      heldBar.style.width = `${heldPart.toFixed(1)}%`
      const state = isUsedUp(row) ? 'bad' : share >= FULL_SHARE_WARNING ? 'warning' : undefined
      number.show(state, percent(share))
      setAttribute(bar, 'data-state', state)
      setAttribute(bar, 'aria-label', `${row.limit} of ${ownerText(row, ' ')}`)
      setAttribute(bar, 'aria-valuenow', String(Math.min(100, Math.round(share * 100))))
      const [used, held, amount] = [row.used, row.held, row.amount].map((each) => amountText(row.unit, each))
      const text = `${used} used, ${held} held, of ${amount}${row.state === 'refusing' ? ', refuses requests' : ''}`
      setAttribute(bar, 'aria-valuetext', text)
    },
  }
}

/** When the limit renews and, if before that, when it is used up. */
function renewalCell(clock: ServerClock): Cell<BudgetRow> {
  return stateAbove((row) => {
    const renewal = renewalText(row, clock)
    const forecast = forecastText(row, clock)
    if (forecast === undefined) return { state: undefined, word: renewal, below: '', title: renewal }
    const state = isUsedUp(row) ? 'bad' : 'warning'
    return { state, word: forecast, below: renewal, title: `${forecast}\n${renewal}` }
  })
}

function renewalText({ limit, renews_at }: BudgetRow, clock: ServerClock): string {
  if (renews_at !== null) return `renews in ${span(clock.secondsUntil(renews_at))}`
  if (limit === 'spend.total') return 'never renews'
  return limit === 'concurrent_requests' ? 'as requests end' : 'refills evenly'
}

function forecastText(row: BudgetRow, clock: ServerClock): string | undefined {
  if (row.state === 'refusing') return 'refuses requests'
  if (shareOf(row) >= 1) return 'used up'
  if (row.used_up_at === null) return undefined
  const seconds = clock.secondsUntil(row.used_up_at)
  return seconds < 60 ? 'used up within a minute' : `used up in about ${roughSpan(seconds)}`
}
