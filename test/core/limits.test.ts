/** The order of the limits, whose places the ledgers store. */

import { expect, test } from 'bun:test'
import { budgetLimits, ownerBudgetLimits } from '../../src/core/limits.ts'

test('a spend limit has the same place among those of owners as among all', () => {
  expect(budgetLimits.slice(0, ownerBudgetLimits.length)).toEqual(ownerBudgetLimits)
})

test('a spend limit has the place that reservations, parts and marks have stored', () => {
  expect(budgetLimits.map(({ name }) => name).slice(0, 5)).toEqual(['day', 'month', 'total', 'hour', 'week'])
})
