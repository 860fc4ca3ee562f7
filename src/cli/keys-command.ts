/**
 * `weir keys`: creates, changes, rotates and revokes API keys beside those of the configuration. Only the hash of a key
 * is stored.
 */

import { Catalog } from '../catalog/catalog.ts'
import type { Config } from '../config/config.ts'
import { graceMs } from '../config/key-input.ts'
import { quoted } from '../config/problems.ts'
import { keyWarnings } from '../keys/key-changes.ts'
import { type KeyRecord, storedKey } from '../keys/key-record.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { withStoredOrganizations } from '../reports/stored-keys.ts'
import { exit, misused, parseFlags, printToStderr, requiredText } from './command.ts'
import { descriptionOf, idProblem } from './key-flags.ts'
import { list } from './keys-list-command.ts'
import { configured } from './ledger-access.ts'
import { minuteText } from './text-table.ts'

export const actions = { create, update, rotate, list, revoke }

async function create(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'keys create')
  const [organization, id] = [requiredText(flags, 'org'), requiredText(flags, 'id')]
  const description = idProblem(id) ?? descriptionOf(flags, Date.now())
  if (typeof description === 'string') return misused(description)
  const config = await configured(flags['config'])
  const { changes } = new KeyAdministration(config, commandChanger())
  const { record, secret } = await changes.create({ organization, id, ...description })
  process.stdout.write(`${secret}\n`)
  printToStderr(`${await madeWords(config, record)}; the key cannot be shown again`)
  printWarnings(config, record)
  return exit.done
}

async function update(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'keys update')
  const id = requiredText(flags, 'id')
  const patch = descriptionOf(flags, Date.now())
  if (typeof patch === 'string') return misused(patch)
  if (Object.keys(patch).length === 0) return misused('nothing to change: name at least one flag besides --id')
  const config = await configured(flags['config'])
  const record = await new KeyAdministration(config, commandChanger()).changes.update(id, patch)
  process.stdout.write(`key "${id}" is updated\n`)
  printToStderr(await madeWords(config, record))
  printWarnings(config, record)
  return exit.done
}

async function rotate(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'keys rotate')
  const id = requiredText(flags, 'id')
  const { grace } = flags
  if (typeof grace === 'string' && graceMs(grace) === undefined)
    return misused(`--grace must be a duration like 90s, 10m, 24h or 7d, or 0, not ${quoted(grace)}`)
  const config = await configured(flags['config'])
  const { record, secret } = await new KeyAdministration(config, commandChanger()).changes.rotate(id, grace)
  process.stdout.write(`${secret}\n`)
  const untilMs = record.previous?.untilMs ?? 0
  const end = untilMs === record.expiresAtMs ? ', when the key expires' : ''
  const old = untilMs <= Date.now() ? 'is rejected' : `is accepted until ${minuteText(untilMs)}${end}`
  printToStderr(`key "${id}" has a new secret, which cannot be shown again; the old one ${old}`)
  return exit.done
}

async function revoke(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'keys revoke')
  const id = requiredText(flags, 'id')
  const config = await configured(flags['config'])
  const { outcome, isConfigured } = await new KeyAdministration(config, commandChanger()).changes.revoke(id)
  process.stdout.write(`key "${id}" ${outcome === 'revoked' ? 'is revoked' : 'was already revoked'}\n`)
  if (isConfigured)
    printToStderr(`key "${id}" is in the configuration: it stays revoked until that drops it or sets disabled: true`)
  return exit.done
}

function printWarnings(config: Config, record: KeyRecord): void {
  for (const warning of keyWarnings(config, record)) printToStderr(`warning: ${warning}`)
}

/** What the key may use. The organisation may be one that a command made. */
async function madeWords(config: Config, record: KeyRecord): Promise<string> {
  const catalog = Catalog.from(await withStoredOrganizations(config))
  const owner = catalog.organization(record.organization)
  const count = owner === undefined ? 0 : catalog.allowed(storedKey(owner, record)).size
  const most = `${count} of ${config.models.length} models`
  const { expiresAtMs } = record
  const end = expiresAtMs === undefined ? 'never expires' : `expires at ${minuteText(expiresAtMs)}`
  return `key "${record.id}" of organisation "${record.organization}" may use ${most} and ${end}`
}
