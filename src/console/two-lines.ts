/** A cell with a value and, below it, smaller, what explains it. */

import { element, setCutText } from './elements.ts'
import type { Cell } from './live-table.ts'

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
