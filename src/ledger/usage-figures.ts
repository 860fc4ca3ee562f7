/**
 * The figures that usage sums up. Made from this table: the type, the columns in SQLite, the lists in Redis and their
 * arithmetic in Lua, and the output of `weir usage`. A new figure is one row here.
 */

import type { Charge } from './audit-columns.ts'

interface Figure {
  /** In SQLite, and in JSON and CSV. */
  readonly name: string
  /** In the scripts' arguments. */
  readonly lua: string
  /** In the text of `weir usage`. */
  readonly heading: string
  readonly isMoney?: true
  /** The field of a charge that is summed up; absent if each request counts one. */
  readonly charge?: 'estimated' | 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'images' | 'costMicroUsd'
}

/** In the order of the lists that Redis stores. The order stays: a new figure comes last. */
const table = {
  requests: { name: 'requests', lua: 'requests', heading: 'requests' },
  estimatedRequests: { name: 'estimated_requests', lua: 'estimated', heading: 'estimated', charge: 'estimated' },
  inputTokens: { name: 'input_tokens', lua: 'input', heading: 'input', charge: 'inputTokens' },
  cachedInputTokens: { name: 'cached_input_tokens', lua: 'cached', heading: 'cached', charge: 'cachedInputTokens' },
  outputTokens: { name: 'output_tokens', lua: 'output', heading: 'output', charge: 'outputTokens' },
  images: { name: 'images', lua: 'images', heading: 'images', charge: 'images' },
  costMicroUsd: { name: 'cost_micro_usd', lua: 'cost', heading: 'cost', isMoney: true, charge: 'costMicroUsd' },
} as const satisfies Record<string, Figure>

type Field = keyof typeof table

/**
 * Sums over requests that reached a provider, in whole numbers. `estimatedRequests` are those whose tokens are, in
 * whole or in part, our own count; `inputTokens` includes the cached ones.
 */
export type UsageFigures = { readonly [F in Field]: number }

interface UsageColumn extends Figure {
  readonly field: Field
}

export const usageColumns: readonly UsageColumn[] = Object.entries<Figure>(table).map(([field, figure]) => ({
  ...figure,
  field: field as Field,
}))

export const noUsage: UsageFigures = figuresOf(() => 0)

/** The names of the columns in SQLite, and their definitions. */
export const FIGURE_NAMES: readonly string[] = usageColumns.map(({ name }) => name)
export const FIGURE_DEFINITIONS: readonly string[] = FIGURE_NAMES.map((name) => `${name} INTEGER NOT NULL DEFAULT 0`)
/** Selects a `UsageFigures`. */
export const FIGURES_SQL = usageColumns.map(({ name, field }) => `${name} AS ${field}`).join(', ')

/** The figures in the order of `FIGURE_NAMES`. */
export function figureValues(figures: UsageFigures): readonly number[] {
  return usageColumns.map(({ field }) => figures[field])
}

/** Figures from a function that returns the value of each column. */
export function figuresOf(value: (column: UsageColumn) => number): UsageFigures {
  return Object.fromEntries(usageColumns.map((column) => [column.field, value(column)])) as UsageFigures
}

interface Arithmetic {
  readonly of: (charge: Charge) => UsageFigures
  readonly add: (a: UsageFigures, b: UsageFigures) => UsageFigures
  readonly minus: (a: UsageFigures) => UsageFigures
}

/** Generated code: every settlement runs it, and a loop over the table took ten times as long. */
const arithmetic: Arithmetic = new Function(`return {
  of: (charge) => ({ ${each(({ charge }) => (charge === undefined ? '1' : `+charge.${charge}`))} }),
  add: (a, b) => ({ ${each(({ field }) => `Math.min(${Number.MAX_SAFE_INTEGER}, a.${field} + b.${field})`)} }),
  minus: (a) => ({ ${each(({ field }) => `-a.${field}`)} }),
}`)()

function each(value: (column: UsageColumn) => string): string {
  return usageColumns.map((column) => `${column.field}: ${value(column)}`).join(', ')
}

/** The figures of a settled request; undefined if no provider was called. */
export function usageOf(charge: Charge): UsageFigures | undefined {
  return charge.model === '' ? undefined : arithmetic.of(charge)
}

/** The figures of a reservation that was never settled: its progress, with the input estimate at least. */
export function usageOfLost(inputTokens: number, outputTokens: number, costMicroUsd: number): UsageFigures {
  return { ...noUsage, requests: 1, estimatedRequests: 1, inputTokens, outputTokens, costMicroUsd }
}

/** The sum of two sets of figures. They stop growing at the largest number that is exact, as in Redis. */
export const addUsage = arithmetic.add

/** The figures with the opposite sign, to correct what was added before. */
export const minusUsage = arithmetic.minus

/**
 * Figures as Redis stores them: whole numbers with commas between them. A list that is older than a figure lacks it.
 */
export function figuresOfList(text: string): UsageFigures {
  const values = text.split(',').map(Number)
  return figuresOf((column) => values[usageColumns.indexOf(column)] ?? 0)
}

/** False for sums that were corrected to nothing. */
export function isAnyUsage(figures: UsageFigures): boolean {
  return usageColumns.some(({ field }) => figures[field] !== 0)
}
