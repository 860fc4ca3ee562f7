/** `weir keys list`: all keys with their limits, last use and spend of today, as a table or JSON. */

import { didYouMean, quoted } from '../config/problems.ts'
import { amountOf, amountText, type Limits, limitTable } from '../core/limits.ts'
import { tagsText } from '../core/tags.ts'
import { keyJson, type ListedKey } from '../keys/key-list.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { exit, failed, parseFlags } from './command.ts'
import { configured } from './ledger-access.ts'
import { type Column, displayOf, fixedDollars, minuteText, TextTable } from './text-table.ts'

/** Returns the exit code. */
export async function list(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'keys list')
  const { org, json, wide } = flags
  const config = await configured(flags['config'])
  const organization = typeof org === 'string' ? org : undefined
  const administration = new KeyAdministration(config, commandChanger())
  const listed = await administration.list(organization)
  const ids = listed.length > 0 ? [] : (await administration.organizations()).map(({ id }) => id)
  if (organization !== undefined && !ids.includes(organization) && listed.length === 0) {
    return failed(`unknown organisation ${quoted(organization)}${didYouMean(organization, ids)}`)
  }
  process.stdout.write(
    json === true
      ? `${JSON.stringify({ keys: listed.map(keyJson) })}\n`
      : new TextTable(COLUMNS, displayOf(wide === true)).print(listed),
  )
  return exit.done
}

const COLUMNS: readonly Column<ListedKey>[] = [
  { heading: 'id', cell: ({ id }) => id },
  { heading: 'organization', priority: 7, cell: ({ organization }) => organization },
  { heading: 'source', priority: 3, cell: ({ source }) => source },
  { heading: 'key', priority: 1, cell: ({ shown }) => (shown === undefined ? '-' : `${shown}_…`) },
  { heading: 'models', priority: 4, cell: ({ models }) => models?.join(',') ?? 'all' },
  { heading: 'limits', priority: 0, cell: ({ limits }) => limitsText(limits) },
  { heading: 'tags', priority: 2, cell: ({ tags }) => tagsText(Object.entries(tags)) || '-' },
  { heading: 'created', priority: 0, cell: ({ createdMs }) => minuteText(createdMs) },
  { heading: 'expires', priority: 5, cell: ({ expiresAtMs }) => minuteText(expiresAtMs) },
  { heading: 'last used', priority: 6, cell: ({ activity }) => minuteText(activity?.usedMs) },
  { heading: 'today', isNumber: true, priority: 9, cell: (key) => fixedDollars(key.activity?.todayMicroUsd ?? 0) },
  { heading: 'limit a day', isNumber: true, priority: 8, cell: ({ limits: { spend } }) => dollarsOf(spend?.day) },
  { heading: 'state', cell: ({ state }) => state },
]

function dollarsOf(microUsd: number | undefined): string {
  return microUsd === undefined ? '-' : fixedDollars(microUsd)
}

/** `60 requests a minute, $5.00 a day` */
export function limitsText(limits: Limits): string {
  const texts = limitTable.flatMap((limit) => {
    const amount = amountOf(limits, limit)
    return amount === undefined ? [] : [`${amountText(limit, amount)} ${limit.words}`]
  })
  return texts.join(', ') || '-'
}
