/** Whether a report that another node made is one that this version knows. Loads the checker of schemas. */

import { FormatRegistry } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type FiguresNow, figuresNow, type NodeRow, node } from './api-shapes.ts'

// The web framework of a gateway has the format, and the checker alone has none: without it no time is valid.
if (!FormatRegistry.Has('date-time')) FormatRegistry.Set('date-time', (text) => !Number.isNaN(Date.parse(text)))

export function isNodeRow(value: unknown): value is NodeRow {
  return Value.Check(node, value)
}

export function isFigures(value: unknown): value is FiguresNow {
  return Value.Check(figuresNow, value)
}
