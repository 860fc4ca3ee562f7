/**
 * `weir import litellm`: prints a configuration of weir made from that of a LiteLLM proxy, and writes the proxy's keys
 * and what its teams have spent to the key store.
 */

import fs from 'node:fs'
import type { Config } from '../config/config.ts'
import { configFile, environment, readConfigText } from '../config/load.ts'
import type { ParseOptions } from '../config/parse.ts'
import { problemText } from '../config/problems.ts'
import { messageOf } from '../core/error-message.ts'
import { isObject, type JsonObject, parseObject } from '../core/json.ts'
import type { SpentBefore } from '../core/limits.ts'
import type { ImportedKey, ImportedTeam } from '../import/litellm-keys.ts'
import { commandChanger } from '../process/control/user-actor.ts'
import { KeyAdministration } from '../reports/key-administration.ts'
import { Ended, exit, type Flags, failed, misused, parseFlags, printToStderr } from './command.ts'
import { configured } from './ledger-access.ts'

export const actions = { litellm }

async function litellm(args: readonly string[]): Promise<number> {
  const { flags, argument: file } = parseFlags(args, 'import litellm')
  if (flags['apply-keys'] === true && flags['keys'] === undefined) return misused('--apply-keys needs --keys FILE')
  const read = readConfigText(file)
  if ('error' in read) return failed(`${file}: ${read.error}`)
  const extras = await extrasOf(flags)
  if ('problem' in extras) return failed(extras.problem)
  const { fromLitellm } = await import('../import/litellm.ts')
  const imported = fromLitellm(read.text, extras)
  for (const note of imported.notes ?? []) process.stderr.write(`${note}\n`)
  if ('problem' in imported) return failed(`${file}: ${imported.problem}`)
  process.stdout.write(imported.text)
  const code = await remaining(imported.text)
  if (imported.keys.length + imported.teams.length === 0) return code
  if (flags['apply-keys'] !== true) {
    for (const team of imported.teams) printTeam('organisation', team)
    for (const key of imported.keys) process.stderr.write(`key: ${wordsOf(key)}\n`)
    return code
  }
  const applied = await apply(imported, flags['config'])
  return code === exit.done ? applied : code
}

/** Of one that has spent nothing, there is nothing to say. */
function printTeam(what: string, { id, before }: ImportedTeam): void {
  if (before !== undefined) process.stderr.write(`${what}: ${id}: ${spentWords(before).join(', ')}\n`)
}

function spentWords(before: SpentBefore = {}): readonly string[] {
  return Object.values(before).map(({ microUsd }) => `spent $${microUsd / 1_000_000} so far`)
}

/** The tables of LiteLLM whose dumps the flags name, each with a column that it has. */
const TABLES = {
  keys: ['token', 'LiteLLM_VerificationToken'],
  teams: ['team_id', 'LiteLLM_TeamTable'],
  budgets: ['budget_id', 'LiteLLM_BudgetTable'],
  users: ['user_id', 'LiteLLM_UserTable'],
  tags: ['tag_name', 'LiteLLM_TagTable'],
} as const

/** What the flags name: a file of prices, and dumps of tables. */
async function extrasOf(flags: Flags) {
  const { dumpRows } = await import('../import/dump-rows.ts')
  const found: { prices?: JsonObject } & Partial<Record<keyof typeof TABLES, readonly JsonObject[]>> = {}
  for (const name of ['prices', 'keys', 'teams', 'budgets', 'users', 'tags'] as const) {
    const file = flags[name]
    if (typeof file !== 'string') continue
    // Prices and dumps are larger than a configuration may be.
    const read = textOf(file)
    if ('problem' in read) return read
    if (name === 'prices') {
      const prices = parseObject(read.text)
      if (prices === undefined) return { problem: `${file}: is no JSON object of prices by model` }
      found.prices = prices
      continue
    }
    const rows = dumpRows(read.text)
    if ('problem' in rows) return { problem: `${file}: ${rows.problem}` }
    const [column, table] = TABLES[name]
    if (rows.length > 0 && !rows.some((row) => Object.hasOwn(row, column)))
      return { problem: `${file}: has no column ${column}, which the table ${table} has` }
    found[name] = rows
  }
  return found
}

function textOf(file: string): { readonly text: string } | { readonly problem: string } {
  try {
    return { text: fs.readFileSync(file, 'utf8') }
  } catch (error) {
    return { problem: `${file}: ${messageOf(error)}` }
  }
}

interface Applied {
  readonly text: string
  readonly keys: readonly ImportedKey[]
  readonly teams: readonly ImportedTeam[]
}

/** Writes keys, and what teams spent, to the store of the configuration of `--config`, or else of the new one. */
async function apply({ text, keys, teams }: Applied, flag: string | boolean | undefined): Promise<number> {
  const { changes, budgetChanges } = new KeyAdministration(await targetOf(text, flag), commandChanger())
  // Before its keys are accepted, and can spend.
  for (const team of teams) {
    printTeam((await budgetChanges.takeOver(team.id, team.before)) ? 'updated' : 'unchanged', team)
  }
  const done = await changes.takeOver(keys)
  for (const [index, key] of keys.entries()) process.stderr.write(`${done[index]}: ${wordsOf(key)}\n`)
  const taken = done.filter((each) => each === 'taken').length
  if (taken > 0) printToStderr(`${taken} keys are not carried over, because other keys have their ids`)
  return taken > 0 ? exit.wrong : exit.done
}

async function targetOf(text: string, flag: string | boolean | undefined): Promise<Config> {
  const { parseConfig } = await import('../config/parse.ts')
  // The shell has made an empty file if the output goes to weir.yaml.
  const written = readConfigText(await configFile(typeof flag === 'string' ? flag : undefined))
  if (flag !== undefined || ('text' in written && written.text.trim() !== '')) return configured(flag)
  const result = parseConfig(text, standIns(text))
  if (result.ok) return result.config
  printToStderr('--apply-keys needs a configuration that is valid: correct the new file, and name it with --config')
  throw new Ended(exit.wrong)
}

/** `ci of acme: models gpt-4o; {"spend":{"month":100}}; spent $37.50; expires 2027-01-01T00:00:00.000Z` */
function wordsOf({ description, before, isBlocked }: ImportedKey): string {
  const { organization, id, models, limits, expires_at: expires } = description
  const parts = [
    ...(Array.isArray(models) ? [`models ${models.join(', ') || 'none'}`] : []),
    ...(isObject(limits) ? [`limits ${JSON.stringify(limits)}`] : []),
    ...spentWords(before),
    ...(expires === undefined ? [] : [`expires ${String(expires)}`]),
    ...(isBlocked ? ['revoked'] : []),
  ]
  return `${String(id)} of ${String(organization)}${parts.length === 0 ? '' : `: ${parts.join('; ')}`}`
}

/** What the new file still needs: variables that are not set, and values that only the operator can correct. */
async function remaining(text: string): Promise<number> {
  const { parseConfig } = await import('../config/parse.ts')
  const unset = unsetIn(text)
  if (unset.length > 0) process.stderr.write(`to do: set in the environment of weir: ${unset.join(', ')}\n`)
  const files = new Set([...text.matchAll(/\$\{file:([^}]+)\}/g)].flatMap(([, name = '']) => name))
  if (files.size > 0) process.stderr.write(`to do: make readable for weir: ${[...files].join(', ')}\n`)
  const result = parseConfig(text, standIns(text))
  const lines = result.ok ? [] : result.problems.map(problemText)
  // The value of a variable that is not set, or of a file on another machine, is not known here: nothing to correct.
  const unknown = [...unset.map((name) => `\${${name}}`), '${file:']
  const wrong = lines.filter((line) => !unknown.some((reference) => line.includes(reference)))
  for (const line of wrong) process.stderr.write(`to do: correct ${line}\n`)
  return wrong.length === 0 ? exit.done : exit.wrong
}

function unsetIn(text: string): readonly string[] {
  const env = environment()
  const names = new Set([...text.matchAll(/\$\{([A-Za-z_]\w*)\}/g)].flatMap(([, name = '']) => name))
  return [...names].filter((name) => env[name] === undefined)
}

/** Values for what is not set here, which are of every form that the new file may need. */
function standIns(text: string): ParseOptions {
  const stand = Object.fromEntries(unsetIn(text).map((name) => [name, `https://${name.toLowerCase()}.invalid`]))
  return { env: { ...environment(), ...stand }, readFile: () => ({ text: '' }), cores: 1 }
}
