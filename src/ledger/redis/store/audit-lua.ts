/**
 * Generates Lua from the columns of the audit trail and the figures of usage: how a script reads charges and figures,
 * counts them and writes an audit entry.
 */

import { type AuditColumn, auditColumns, type Charge, chargeColumns } from '../../audit-columns.ts'
import { type UsageFigures, usageColumns } from '../../usage-figures.ts'

const CHARGE_NAMES = chargeColumns.map(({ redis }) => redis)
/** The arguments of a script that receives figures of usage. */
export const FIGURE_ARGUMENTS: readonly string[] = usageColumns.map(({ lua }) => lua)

interface Values {
  readonly of: (charge: Charge) => readonly (string | number)[]
}

const CHARGE_VALUES = chargeColumns.map(({ field, type }) => `${type === 'flag' ? '+' : ''}charge.${field}`)
/** Generated code: every settlement runs it. */
const values: Values = new Function(`return { of: (charge) => [${CHARGE_VALUES.join(', ')}] }`)()

/** The values of a charge in the order of its columns. */
export function chargeValues(charge: Charge): readonly (string | number)[] {
  return values.of(charge)
}

/** The Lua table of a charge whose values are in `values`, from the place `first` on. */
export function chargeLua(first: number): string {
  const columns = chargeColumns.map((column, i) => {
    const value = `values[${first + i}]`
    return `${column.redis} = ${isText(column) ? value : `amount(${value})`}`
  })
  return `{ ${columns.join(', ')} }`
}

export function figureArguments(figures: UsageFigures): Readonly<Record<string, number>> {
  const values: Record<string, number> = {}
  for (const { field, lua } of usageColumns) values[lua] = figures[field]
  return values
}

/** Declares the locals that hold the figures a script receives: `figures`, and `charge` with the same as columns. */
export function figuresLua(): string {
  const counted = FIGURE_ARGUMENTS.filter((name) => CHARGE_NAMES.includes(name))
  return `local model, tags = parts_of(series)
local figures, charge = { ${FIGURE_ARGUMENTS.join(', ')} }, ${tableOf(['model', 'tags', ...counted])}\n`
}

/**
 * `figures_of` returns the figures of a charge, `entry_of` the names and values of an audit entry in turn; a charge may
 * lack columns. `FIGURES` is the number of figures, `COST_FIGURE` the place of the cost among them.
 */
export function auditLua(): string {
  const figures = usageColumns.map(({ charge, lua }) => (charge === undefined ? '1' : `charge.${lua} or 0`))
  const entry = auditColumns
    .filter(({ redis }) => redis !== '')
    .map((column) => `'${column.redis}', ${valueLua(column)}`)
  return [
    `local FIGURES = ${figures.length}`,
    `local COST_FIGURE = ${FIGURE_ARGUMENTS.indexOf('cost') + 1}`,
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
  return type === 'text' || type === 'outcome' || type === 'tags'
}

function tableOf(names: readonly string[]): string {
  return `{ ${names.map((name) => `${name} = ${name}`).join(', ')} }`
}
