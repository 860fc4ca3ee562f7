/** `weir organizations`: creates, changes, lists and disables organisations beside those of the configuration. */

import type { JsonObject } from '../core/json.ts'
import { type ListedOrganization, organizationJson } from '../keys/organization-changes.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { exit, type Flags, misused, parseFlags, printToStderr, requiredText } from './command.ts'
import { descriptionOf, idProblem } from './key-flags.ts'
import { limitsText } from './keys-list-command.ts'
import { configured } from './ledger-access.ts'
import { type Column, displayOf, minuteText, TextTable } from './text-table.ts'

export const actions = { create, update, list, disable }

function create(args: readonly string[]): Promise<number> {
  return change('create', args, async ({ organizationChanges }, id, given) => ({
    record: await organizationChanges.create({ id, ...given }),
    words: 'is created',
  }))
}

function update(args: readonly string[]): Promise<number> {
  return change('update', args, async ({ organizationChanges }, id, given) => ({
    record: await organizationChanges.update(id, given),
    words: 'is updated',
  }))
}

function disable(args: readonly string[]): Promise<number> {
  return change('disable', args, async ({ organizationChanges }, id) => ({
    record: await organizationChanges.update(id, { disabled: true }),
    words: 'is disabled',
  }))
}

type Change = (
  keys: KeyAdministration,
  id: string,
  given: JsonObject,
) => Promise<{ readonly record: Parameters<KeyAdministration['changedOrganizationJson']>[0]; readonly words: string }>

async function change(action: 'create' | 'update' | 'disable', args: readonly string[], make: Change): Promise<number> {
  const { flags } = parseFlags(args, `organizations ${action}`)
  const id = requiredText(flags, 'id')
  const given = givenBy(flags)
  const problem = (action === 'create' ? idProblem(id) : undefined) ?? (typeof given === 'string' ? given : undefined)
  if (problem !== undefined || typeof given === 'string') return misused(problem ?? '')
  if (action === 'update' && Object.keys(given).length === 0)
    return misused('nothing to change: name at least one flag besides --id')
  const config = await configured(flags['config'])
  const administration = new KeyAdministration(config, commandChanger())
  const { record, words } = await make(administration, id, given)
  const changed = administration.changedOrganizationJson(record)
  const { warnings } = changed
  if (flags['json'] === true) process.stdout.write(`${JSON.stringify(changed)}\n`)
  else process.stdout.write(`organisation "${id}" ${words}\n`)
  if (Array.isArray(warnings)) for (const warning of warnings) printToStderr(`warning: ${warning}`)
  return exit.done
}

/** The change that the flags ask for, or what is wrong with them. */
function givenBy(flags: Flags): JsonObject | string {
  const description = descriptionOf(flags, Date.now())
  if (typeof description === 'string') return description
  return flags['enable'] === true ? { ...description, disabled: false } : description
}

async function list(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'organizations list')
  const { json, wide } = flags
  const config = await configured(flags['config'])
  const listed = await new KeyAdministration(config, commandChanger()).organizations()
  process.stdout.write(
    json === true
      ? `${JSON.stringify({ organizations: listed.map(organizationJson) })}\n`
      : new TextTable(COLUMNS, displayOf(wide === true)).print(listed),
  )
  return exit.done
}

const COLUMNS: readonly Column<ListedOrganization>[] = [
  { heading: 'id', cell: ({ id }) => id },
  { heading: 'source', priority: 1, cell: ({ source }) => source },
  { heading: 'models', priority: 2, cell: ({ models }) => models?.join(',') ?? 'all' },
  { heading: 'limits', priority: 3, cell: ({ limits }) => limitsText(limits) },
  { heading: 'created', priority: 0, cell: ({ createdMs }) => minuteText(createdMs) },
  { heading: 'state', cell: ({ state }) => state },
]
