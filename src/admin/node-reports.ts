/** Whether a report that another node made is one that this version knows. Loads the checker of schemas. */

import { Value } from '@sinclair/typebox/value'
import { type FiguresNow, figuresNow, type NodeRow, node } from './api-shapes.ts'

export function isNodeRow(value: unknown): value is NodeRow {
  return Value.Check(node, value)
}

export function isFigures(value: unknown): value is FiguresNow {
  return Value.Check(figuresNow, value)
}
