/** `weir keys list`: all keys with their limits, last use and spend of today, as a table or JSON. */

import { didYouMean, quoted } from '../config/problems.ts'
import { amountOf, amountText, type Limits, limitTable } from '../core/limits.ts'
import { tagsText } from '../core/tags.ts'
import { keyJson, type ListedKey } from '../keys/key-list.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { exit, parseFlags, printToStderr } from './command.ts'
import { configured } from './ledger-access.ts'
import { type Column, type Display, displayOf, fixedDollars, minuteText, TextTable } from './text-table.ts'

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
    printToStderr(`unknown organisation ${quoted(organization)}${didYouMean(organization, ids)}`)
    return exit.wrong
  }
  process.stdout.write(
    json === true ? `${JSON.stringify({ keys: listed.map(keyJson) })}\n` : tableText(listed, displayOf(wide === true)),
  )
  return exit.done
}

const COLUMNS: readonly Column[] = [
  { heading: 'id' },
  { heading: 'organization', priority: 7 },
  { heading: 'source', priority: 3 },
  { heading: 'key', priority: 1 },
  { heading: 'models', priority: 4 },
  { heading: 'limits', priority: 0 },
  { heading: 'tags', priority: 2 },
  { heading: 'created', priority: 0 },
  { heading: 'expires', priority: 5 },
  { heading: 'last used', priority: 6 },
  { heading: 'today', isNumber: true, priority: 9 },
  { heading: 'limit a day', isNumber: true, priority: 8 },
  { heading: 'state' },
]

function tableText(listed: readonly ListedKey[], display: Display): string {
  const rows = listed.map((key) => [
    ...[key.id, key.organization, key.source, key.shown === undefined ? '-' : `${key.shown}_…`],
    ...[key.models?.join(',') ?? 'all', limitsText(key.limits), tagsText(Object.entries(key.tags)) || '-'],
    ...[minuteText(key.createdMs), minuteText(key.expiresAtMs), minuteText(key.activity?.usedMs)],
    fixedDollars(key.activity?.todayMicroUsd ?? 0),
    key.limits.spend?.day === undefined ? '-' : fixedDollars(key.limits.spend.day),
    key.state,
  ])
  return new TextTable(COLUMNS, display).print(rows)
}

/** `60 requests a minute, $5.00 a day` */
export function limitsText(limits: Limits): string {
  const texts = limitTable.flatMap((limit) => {
    const amount = amountOf(limits, limit)
    return amount === undefined ? [] : [`${amountText(limit, amount)} ${limit.words}`]
  })
  return texts.join(', ') || '-'
}
