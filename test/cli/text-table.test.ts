/** Tables that fit their terminal: which columns go, and how the others align. */

import { expect, test } from 'bun:test'
import { type Column, TextTable } from '../../src/cli/text-table.ts'

const at = (index: number) => (row: readonly string[]) => row[index] ?? ''
const COLUMNS: readonly Column<readonly string[]>[] = [
  { heading: 'id', cell: at(0) },
  { heading: 'why', priority: 1, cell: at(1) },
  { heading: 'cost', isNumber: true, cell: at(2) },
  { heading: 'note', priority: 0, cell: at(3) },
]
const ROWS = [
  ['one', 'because', '$1.000000', 'first'],
  ['second', '-', '$12.500000', 'x'],
]

const printed = (width: number, isColoured = false) => new TextTable(COLUMNS, { width, isColoured }).print(ROWS)

test('all columns if they fit; numbers are aligned to the right', () => {
  expect(printed(Number.POSITIVE_INFINITY)).toBe(
    'id      why            cost  note\n' + 'one     because   $1.000000  first\n' + 'second  -        $12.500000  x\n',
  )
})

test('the column of the lowest priority goes first; one without a priority stays', () => {
  expect(printed(33)).toBe('id      why            cost\none     because   $1.000000\nsecond  -        $12.500000\n')
  expect(printed(26)).toBe('id            cost\none      $1.000000\nsecond  $12.500000\n')
  expect(printed(1)).toBe(printed(26))
})

test('no line is wider than the terminal, if the columns that stay fit it', () => {
  for (let width = 18; width < 40; width++)
    for (const line of printed(width).trimEnd().split('\n')) expect(line.length).toBeLessThanOrEqual(width)
})

test('the pieces of a table have one heading, and the same columns', () => {
  const table = new TextTable(COLUMNS, { width: 22, isColoured: false })
  expect(table.print(ROWS.slice(0, 1))).toBe('id        cost\none  $1.000000\n')
  expect(table.print([['a-much-longer-id', 'w', '$0.000001', 'n']])).toBe('a-much-longer-id  $0.000001\n')
})

test('only the heading is emphasised', () => {
  const [head = '', ...rows] = printed(80, true).split('\n')
  expect(head).toMatch(/^\u001b\[1m.*\u001b\[0m$/)
  expect(rows.join()).not.toContain('\u001b')
})
