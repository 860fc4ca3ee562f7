/** Cells with a value or a state and, below it, smaller, what explains it. */

import { element, type State, StateMark, setCutText, setText } from './elements.ts'
import type { Cell, Column } from './live-table.ts'

interface ShownState {
  readonly state: State | undefined
  readonly word: string
  readonly below: string
  /** By default what is below. */
  readonly title?: string
}

export function stateAbove<Row>(read: (row: Row) => ShownState): Cell<Row> {
  const mark = new StateMark()
  const lower = element('span', { class: 'two below' })
  const content = element('div', {}, mark.node, lower)
  return {
    content,
    show: (row) => {
      const { state, word, below, title = below } = read(row)
      mark.show(state, word)
      setText(lower, below)
      if (content.title !== title) content.title = title
    },
  }
}

/** A column of texts with what explains them. */
export function linesColumn<Row>(
  name: string,
  title: string,
  first: (row: Row) => string,
  below: (row: Row) => string,
): Column<Row> {
  return { name, title, cell: () => twoLines(first, below) }
}

export function twoLines<Row>(first: (row: Row) => string, below: (row: Row) => string): Cell<Row> {
  const [upper, lower] = [element('span', { class: 'two' }), element('span', { class: 'two below' })]
  const content = element('div', {}, upper, lower)
  return {
    content,
    show: (row) => {
      const [text, detail] = [first(row), below(row)]
      setCutText(upper, text)
      setCutText(lower, detail)
      const title = detail === '' ? text : `${text}\n${detail}`
      if (content.title !== title) content.title = title
    },
  }
}
