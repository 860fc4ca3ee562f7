/**
 * Generates Lua from the columns of the audit trail and the figures of usage: how a script reads a charge, counts it
 * and writes its audit entry.
 */

import { type AuditColumn, auditColumns, type Charge, chargeColumns } from '../../audit-columns.ts'
import { type UsageFigures, usageColumns } from '../../usage-figures.ts'

/** What a script receives beside its own arguments: the columns of a charge, or figures of usage. */
export type Reported = 'charge' | 'figures'

const CHARGE_NAMES = chargeColumns.map(({ redis }) => redis)
const FIGURE_NAMES = usageColumns.map(({ lua }) => lua)

export const reportedArguments: Readonly<Record<Reported, readonly string[]>> = {
  charge: CHARGE_NAMES,
  figures: FIGURE_NAMES,
}

/** Arguments that are text; all others are amounts. */
export const textArguments: readonly string[] = chargeColumns.filter(isText).map(({ redis }) => redis)

export function chargeArguments(charge: Charge): Readonly<Record<string, string | number>> {
  const values: Record<string, string | number> = {}
  for (const { field, redis } of chargeColumns) {
    const value = charge[field]
    values[redis] = typeof value === 'boolean' ? Number(value) : value
  }
  return values
}

export function figureArguments(figures: UsageFigures): Readonly<Record<string, number>> {
  const values: Record<string, number> = {}
  for (const { field, lua } of usageColumns) values[lua] = figures[field]
  return values
}

/** Declares the locals that hold the reported arguments: `charge`, and `figures` if the script receives figures. */
export function reportedLua(reported: Reported): string {
  if (reported === 'charge') return `local charge = ${tableOf(CHARGE_NAMES)}\n`
  const counted = FIGURE_NAMES.filter((name) => CHARGE_NAMES.includes(name))
  return `local figures, charge = { ${FIGURE_NAMES.join(', ')} }, ${tableOf(['model', ...counted])}\n`
}

/**
 * `figures_of` returns the figures of a charge, `entry_of` the names and values of an audit entry in turn; a charge may
 * lack columns. `FIGURES` is the number of figures.
 */
export function auditLua(): string {
  const figures = usageColumns.map(({ charge, lua }) => (charge === undefined ? '1' : `charge.${lua} or 0`))
  const entry = auditColumns
    .filter(({ redis }) => redis !== '')
    .map((column) => `'${column.redis}', ${valueLua(column)}`)
  return [
    `local FIGURES = ${figures.length}`,
    `local function figures_of(charge) return { ${figures.join(', ')} } end`,
    `local function entry_of(id, kind, key, admitted, charge, overage) return ${entry.join(', ')} end`,
    '',
  ].join('\n')
}

function valueLua(column: AuditColumn): string {
  if (!column.isCharge) return column.redis
  return `charge.${column.redis} or ${isText(column) ? "''" : '0'}`
}

function isText({ type }: AuditColumn): boolean {
  return type === 'text' || type === 'outcome'
}

function tableOf(names: readonly string[]): string {
  return `{ ${names.map((name) => `${name} = ${name}`).join(', ')} }`
}
