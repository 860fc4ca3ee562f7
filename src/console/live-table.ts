/**
 * A table whose rows change every second: it makes elements only for the rows of a page, keeps the element of a row as
 * long as the row is there, and writes only what differs. With 1,000 rows of data it still has those of one page.
 */

import { count } from '../core/figure-text.ts'
import { element, setText } from './elements.ts'

/** What shows one value of a row. */
export interface Cell<Row> {
  readonly content: Node | string
  show(row: Row, cell: HTMLTableCellElement): void
}

export interface Column<Row> {
  /** The class of its cells. */
  readonly name: string
  readonly title: string
  readonly isNumber?: boolean
  /** Before the value on a narrow screen, which has no heads of columns. */
  readonly label?: string
  readonly cell: () => Cell<Row>
}

interface TableSetup<Row> {
  readonly section: HTMLElement
  readonly title: string
  readonly columns: readonly Column<Row>[]
  readonly keyOf: (row: Row) => string
  /** What the filter searches, in lower case; absent with `search`. */
  readonly textOf?: (row: Row) => string
  /** Random ids of a row, in lower case. The filter finds one by `ID_CHARS_MIN` of its characters. */
  readonly idsOf?: (row: Row) => readonly string[]
  readonly placeholder: string
  /** Rows before "show more". */
  readonly page: number
  /** The filter appears from this number of rows on. */
  readonly filterFrom: number
  /** The words of the empty table: why it is empty, and what to do. */
  readonly empty: string
  /** The words after the title. */
  readonly countOf: (rows: readonly Row[]) => string
  /** A button that leaves only some of the rows. */
  readonly only?: { readonly title: string; readonly matches: (row: Row) => boolean }
  /** Searches more rows than the page has: what was typed is given to it, and all rows that are shown match. */
  readonly search?: (typed: string) => void
}

/** A shorter word, such as a status, would be in some ids by chance. */
const ID_CHARS_MIN = 8

/** How many rows there are in all, and how many of those that match were not given. */
interface Counts {
  readonly total: number
  readonly more: number
}

interface RowView<Row> {
  readonly element: HTMLTableRowElement
  readonly cells: readonly { readonly cell: Cell<Row>; readonly element: HTMLTableCellElement }[]
  row: Row
}

/** A column of numbers, as plain text. `label`: as of `Column`. */
export function numberColumn<Row>(
  name: string,
  title: string,
  textOf: (row: Row) => string,
  label?: string,
): Column<Row> {
  const show = (row: Row, cell: HTMLTableCellElement) => {
    const text = textOf(row)
    setText(cell, text)
    if (cell.title !== text) cell.title = text
  }
  return { name, title, isNumber: true, ...(label && { label }), cell: () => ({ content: '', show }) }
}

export class LiveTable<Row> {
  readonly body = element('tbody', { role: 'rowgroup' })
  readonly head = element('div', { class: 'band-head' })
  readonly input: HTMLInputElement
  private readonly count = element('p', { class: 'count' })
  private readonly more = element('button', { class: 'more', type: 'button' })
  private scopeWords = ''
  private emptyText: string
  /** Why there are no rows although there may be some. */
  private problem: string | undefined
  private readonly emptyNote = element('p', { class: 'empty' })
  private readonly table: HTMLTableElement
  private readonly filter: HTMLElement
  private readonly only = element('button', { class: 'only', type: 'button', 'aria-pressed': 'false' })
  private readonly found = element('p', { class: 'unseen', role: 'status' })
  private readonly views = new Map<string, RowView<Row>>()
  private rows: readonly Row[] = []
  private words: readonly string[] = []
  private isOnly = false
  /** The rows are still those of before. */
  private isSearching = false
  private limit: number
  /** If `rows` are those that match what was searched for. */
  private counts: Counts | undefined

  constructor(private readonly setup: TableSetup<Row>) {
    const { section, title, columns, page, placeholder } = setup
    this.limit = page
    this.emptyText = setup.empty
    const titleId = `${section.id}-title`
    this.input = element('input', {
      type: 'search',
      placeholder,
      'aria-label': `Filter ${title.toLowerCase()}`,
      autocomplete: 'off',
      spellcheck: 'false',
    })
    this.only.textContent = setup.only?.title ?? ''
    this.only.hidden = setup.only === undefined
    this.filter = element('div', { class: 'filter' }, this.only, this.input)
    this.head.append(element('h2', { id: titleId }, title), this.count, this.filter)
    const heads = columns.map(({ name, title, isNumber }) =>
      element('th', { class: classOf(name, isNumber), scope: 'col', role: 'columnheader' }, title),
    )
    this.table = element(
      'table',
      { role: 'table', 'aria-labelledby': titleId },
      element('thead', { role: 'rowgroup' }, element('tr', { role: 'row' }, ...heads)),
      this.body,
    )
    this.emptyNote.textContent = 'Loading …'
    const panel = element('div', { class: 'panel' }, this.table, this.emptyNote, this.more)
    section.append(this.head, panel, this.found)
    this.input.addEventListener('input', () => this.typed())
    this.input.addEventListener('keydown', (event) => this.entered(event))
    this.only.addEventListener('click', () => this.toggled())
    this.more.addEventListener('click', () => this.showMore())
    this.filter.hidden = this.more.hidden = this.table.hidden = true
  }

  /** Replaces the rows. With `counts` they are those that match what was given to `search`. */
  show(rows: readonly Row[], counts?: Counts): void {
    this.replace(rows, counts, undefined)
    if (counts !== undefined) this.showMatches()
  }

  /** Shows, until `show`, why the rows cannot be read: those of before could be taken for those of now. */
  fail(problem: string): void {
    this.replace([], undefined, problem)
    setText(this.found, '')
  }

  private replace(rows: readonly Row[], counts: Counts | undefined, problem: string | undefined): void {
    this.rows = rows
    this.counts = counts
    this.isSearching = false
    this.problem = problem
    this.draw()
  }

  /** Whether rows are left out because somebody wants to see others. */
  private get isFiltered(): boolean {
    return this.words.length > 0 || this.isOnly
  }

  /** Shows the rows that have all of the words, as if somebody had typed them. */
  find(words: string): void {
    this.input.value = words
    this.isOnly = false
    this.only.setAttribute('aria-pressed', 'false')
    this.typed()
    this.input.focus({ preventScroll: true })
    this.setup.section.scrollIntoView({ block: 'nearest' })
  }

  /** What the figures of the table are of: one node, or all. Empty if there is one node alone. */
  set scope(words: string) {
    if (words === this.scopeWords) return
    this.scopeWords = words
    this.draw()
  }

  /** The words of the empty table: why it is empty, and what to do. */
  set empty(words: string) {
    this.emptyText = words
    if (this.rows.length === 0) this.draw()
  }

  /** The row whose element this is. */
  rowOf(element: Element): Row | undefined {
    for (const view of this.views.values()) if (view.element === element) return view.row
    return undefined
  }

  private typed(): void {
    this.words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean)
    this.limit = this.setup.page
    this.isSearching = this.setup.search !== undefined
    this.draw()
    if (this.setup.search === undefined) this.showMatches()
    else this.setup.search(this.words.join(' '))
  }

  private toggled(): void {
    this.isOnly = !this.isOnly
    this.only.setAttribute('aria-pressed', String(this.isOnly))
    this.draw()
    this.showMatches()
  }

  private showMatches(): void {
    setText(this.found, this.isFiltered ? this.matchText(this.matching().length) : '')
  }

  private matchText(matching: number): string {
    if (this.isSearching) return 'Searching …'
    const { total, more } = this.counts ?? { total: this.rows.length, more: 0 }
    return `${count(matching + more)} of ${count(total)} match`
  }

  /** The arrow leads from the filter into the rows, Escape empties it. */
  private entered(event: KeyboardEvent): void {
    const first = event.key === 'ArrowDown' ? this.body.querySelector('button') : null
    if (first !== null) {
      event.preventDefault()
      first.focus()
    } else if (event.key === 'Escape' && this.input.value !== '') {
      event.preventDefault()
      this.input.value = ''
      this.typed()
    }
  }

  private showMore(): void {
    const first = this.limit
    this.limit *= 4
    this.draw()
    // The button may be gone; the focus goes to the first new row.
    this.body.children[first]?.querySelector('button')?.focus({ preventScroll: true })
  }

  private matching(): readonly Row[] {
    const { rows, words, setup, isOnly } = this
    const found = setup.textOf === undefined || words.length === 0 ? rows : rows.filter((row) => this.hasWords(row))
    return isOnly && setup.only !== undefined ? found.filter(setup.only.matches) : found
  }

  private hasWords(row: Row): boolean {
    const { textOf, idsOf } = this.setup
    const text = textOf?.(row) ?? ''
    const ids = idsOf?.(row) ?? []
    return this.words.every(
      (word) => text.includes(word) || (word.length >= ID_CHARS_MIN && ids.some((id) => id.includes(word))),
    )
  }

  private draw(): void {
    const { setup, rows } = this
    const matching = this.matching()
    const visible = matching.slice(0, this.limit)
    this.place(visible)
    const left = matching.length - visible.length
    const { isFiltered } = this
    const all = rows.length === 0 ? '' : setup.countOf(rows)
    const found = isFiltered && this.problem === undefined ? this.matchText(matching.length) : all
    setText(this.count, [this.scopeWords, found].filter((words) => words !== '').join(', '))
    setText(this.more, `Show ${count(Math.min(left, this.limit * 3))} more of ${count(left)}`)
    setText(this.emptyNote, this.problem ?? (isFiltered ? this.noMatch() : this.emptyText))
    this.more.hidden = left === 0
    this.table.hidden = visible.length === 0
    this.emptyNote.hidden = visible.length > 0
    this.filter.hidden = (this.counts?.total ?? rows.length) < setup.filterFrom && !isFiltered
  }

  private noMatch(): string {
    if (this.words.length > 0) return 'Nothing matches. Remove a word from the filter.'
    return `Nothing matches. Release “${this.setup.only?.title ?? ''}” to see all.`
  }

  /** Gives each row an element, those that it had first, then those of rows that are gone. */
  private place(rows: readonly Row[]): void {
    const wanted = new Set(rows.map(this.setup.keyOf))
    const free: RowView<Row>[] = []
    for (const [key, view] of this.views) {
      if (wanted.has(key)) continue
      this.views.delete(key)
      free.push(view)
    }
    rows.forEach((row, at) => {
      const key = this.setup.keyOf(row)
      const view = this.views.get(key) ?? free.pop() ?? this.make(row)
      this.views.set(key, view)
      view.row = row
      for (const { cell, element } of view.cells) cell.show(row, element)
      const here = this.body.children[at]
      if (here !== view.element) this.body.insertBefore(view.element, here ?? null)
    })
    for (const { element } of free) element.remove()
  }

  private make(row: Row): RowView<Row> {
    const cells = this.setup.columns.map(({ name, isNumber, label, cell: make }) => {
      const cell = make()
      const attributes = { class: classOf(name, isNumber), role: 'cell', ...(label && { 'data-label': label }) }
      return { cell, element: element('td', attributes, cell.content) }
    })
    return { element: element('tr', { role: 'row' }, ...cells.map(({ element }) => element)), cells, row }
  }
}

function classOf(name: string, isNumber = false): string {
  return `c-${name}${isNumber ? ' number' : ''}`
}
