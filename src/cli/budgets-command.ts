/** `weir budgets`: lists the counters of budgets, raises their limits for a time, and resets them. */

import { type JsonObject, stringOf } from '../core/json.ts'
import { amountText, configuredName } from '../core/limits.ts'
import { raiseJson } from '../keys/budget-record.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { COUNTERS_READ_MAX, type CounterLimitUsage, counterUsagesOf } from '../reports/counter-usage.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { searchWords } from '../reports/limit-usage.ts'
import { exit, type Flags, misused, parseFlags, printToStderr, requiredText } from './command.ts'
import { limitFlags } from './key-flags.ts'
import { configured } from './ledger-access.ts'
import { type Column, displayOf, minuteText, TextTable } from './text-table.ts'

export const actions = { raise, end, reset }

/** Returns the exit code. */
export async function list(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'budgets')
  const config = await configured(flags['config'])
  const filter = {
    organization: stringOf(flags['org']),
    name: stringOf(flags['name']),
    value: stringOf(flags['value']),
  }
  const limited = (organization: string, count: number) =>
    printToStderr(
      `organisation ${organization} has ${count} of these counters, and at most ${COUNTERS_READ_MAX} are listed; ` +
        '--name, --value and --search find the others',
    )
  const found = await counterUsagesOf(config, { ...filter, words: searchWords(stringOf(flags['search'])), limited })
  if (flags['json'] === true) process.stdout.write(`${JSON.stringify({ budgets: found.map(rowJson) })}\n`)
  else process.stdout.write(new TextTable(COLUMNS, displayOf(flags['wide'] === true)).print(found))
  return exit.done
}

const COLUMNS: readonly Column<CounterLimitUsage>[] = [
  { heading: 'org', priority: 2, cell: ({ organization }) => organization },
  { heading: 'budget', cell: ({ name }) => name },
  { heading: 'value', cell: ({ value }) => value },
  { heading: 'limit', cell: ({ limit }) => configuredName(limit) },
  { heading: 'used', cell: ({ limit, used }) => amountText(limit, used) },
  { heading: 'held', priority: 1, cell: ({ limit, held }) => amountText(limit, held) },
  { heading: 'of', cell: ({ limit, amount }) => amountText(limit, amount) },
  { heading: 'renews', priority: 1, cell: ({ renewsAtMs }) => minuteText(renewsAtMs) },
  { heading: 'raised until', priority: 0, cell: ({ raise }) => minuteText(raise?.untilMs) },
]

function rowJson(row: CounterLimitUsage): JsonObject {
  const { organization, name, value, limit, used, held, amount, renewsAtMs, raise, isRefusing } = row
  return {
    ...{ organization, name, value: value === '' ? null : value, limit: configuredName(limit), unit: limit.unit },
    ...{ amount, used, held, refusing: isRefusing },
    renews_at: renewsAtMs === undefined ? null : new Date(renewsAtMs).toISOString(),
    raise: raise === undefined ? null : raiseJson(organization, raise),
  }
}

async function raise(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'budgets raise')
  const limits = limitFlags(flags)
  if (typeof limits === 'string') return misused(limits)
  if (limits === undefined) return misused('name at least one new limit, such as --spend-day USD')
  const administration = new KeyAdministration(await configured(flags['config']), commandChanger())
  const input = { ...counterOf(flags), limits, until: requiredText(flags, 'until') }
  const { organization, raise: made } = await administration.budgetChanges.raise(input)
  const json = raiseJson(organization, made)
  process.stdout.write(
    flags['json'] === true
      ? `${JSON.stringify(json)}\n`
      : `budget "${made.name}" of ${organization} is raised until ${json['until']} (${made.id})\n`,
  )
  return exit.done
}

async function end(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'budgets end')
  const id = requiredText(flags, 'id')
  await new KeyAdministration(await configured(flags['config']), commandChanger()).budgetChanges.end(id)
  process.stdout.write(`raise ${id} is ended\n`)
  return exit.done
}

async function reset(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'budgets reset')
  const administration = new KeyAdministration(await configured(flags['config']), commandChanger())
  const { organization, name } = await administration.budgetChanges.reset(counterOf(flags))
  process.stdout.write(`budget "${name}" of ${organization} is reset\n`)
  return exit.done
}

function counterOf(flags: Flags): JsonObject {
  const value = stringOf(flags['value'])
  return {
    ...{ organization: requiredText(flags, 'org'), name: requiredText(flags, 'name') },
    ...(value === undefined ? {} : { value }),
    reason: requiredText(flags, 'reason'),
  }
}
