/**
 * `weir keys`: creates, lists and revokes API keys beside those of the configuration. Only the hash of a key is stored.
 */

import { openKeyStore } from '../assembly/open-ledger.ts'
import { Catalog, keyOf } from '../catalog/catalog.ts'
import type { Config } from '../config/config.ts'
import { IDENTIFIER, IDENTIFIER_WORDS, MODEL_NAME } from '../config/field-types.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import type { KeyConfig } from '../core/organization-config.ts'
import { newToken } from '../keys/key-format.ts'
import type { KeyRecord } from '../keys/key-record.ts'
import { KEYS_KNOWN_MS } from '../keys/key-store.ts'
import { exit, type Flags, misused, parseFlags, printToStderr, runAction } from './command.ts'
import { displayOf } from './display.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'
import { type Column, type Display, TextTable } from './text-table.ts'

/** Returns the exit code. */
export function keys(args: readonly string[]): Promise<number> {
  return untilProblem(() => runAction('keys', { create, list, revoke }, args))
}

function failed(line: string): number {
  printToStderr(line)
  return exit.wrong
}

async function create(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'keys create')
  if ('code' in parsed) return parsed.code
  const wanted = wantedKey(parsed.flags, Date.now())
  if (typeof wanted === 'string') return misused(wanted)
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  const { config } = read
  const problem = conflict(config, wanted)
  if (problem !== undefined) return failed(problem)
  const { token, sha256, shown } = newToken()
  const record = { ...wanted, sha256, shown }
  const isNew = await withLedger(openKeyStore, config, (store) => store.create(record))
  if (!isNew)
    return failed(
      `the id ${quoted(wanted.id)} is used by a key of the store; ` +
        'the id of a revoked or expired key is free after 30 days',
    )
  await Bun.sleep(KEYS_KNOWN_MS)
  process.stdout.write(`${token}\n`)
  printToStderr(`${madeWords(config, record)}; the key cannot be shown again`)
  return exit.done
}

type Wanted = Omit<KeyRecord, 'sha256' | 'shown' | 'revokedMs'>

/** The requested key, or what is wrong with the flags. */
function wantedKey(flags: Flags, nowMs: number): Wanted | string {
  const { org, id, models, expires } = flags
  if (typeof org !== 'string' || typeof id !== 'string') return 'missing --org ID or --id ID'
  if (!new RegExp(IDENTIFIER).test(id)) return `--id ${IDENTIFIER_WORDS}`
  const globs = typeof models === 'string' ? models.split(',').map((glob) => glob.trim()) : undefined
  const wrong = globs?.find((glob) => !new RegExp(MODEL_NAME).test(glob))
  if (wrong !== undefined) return `--models must be names or globs separated by commas, not ${quoted(wrong)}`
  const expiresAtMs = typeof expires === 'string' ? moment(expires, nowMs) : undefined
  if (typeof expires === 'string' && expiresAtMs === undefined) {
    return `--expires must be like 90d, 12h or 30m, a date (2027-01-31) or an RFC 3339 time, not ${quoted(expires)}`
  }
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs) return `--expires must be in the future, not ${expires}`
  return { id, organization: org, models: globs, createdMs: nowMs, expiresAtMs }
}

const UNITS_MS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 }

/** Unix milliseconds of a duration (`90d`) from now, or of a date. */
function moment(text: string, nowMs: number): number | undefined {
  const [, count, unit = ''] = /^(\d{1,5})([dhms])$/.exec(text) ?? []
  if (count === undefined) return instant(text)
  return nowMs + Number(count) * (UNITS_MS[unit] ?? 0)
}

/** Why the configuration does not allow the key; undefined if it does. */
function conflict(config: Config, { id, organization }: Wanted): string | undefined {
  const organizations = config.organizations.map((known) => known.id)
  if (!organizations.includes(organization)) {
    return `the configuration has no organisation ${quoted(organization)}${didYouMean(organization, organizations)}`
  }
  return configuredKey(config, id) === undefined
    ? undefined
    : `the id ${quoted(id)} is used by a key of the configuration; choose another`
}

function configuredKey(config: Config, id: string): KeyConfig | undefined {
  return config.organizations.flatMap(({ keys }) => keys).find((key) => key.id === id)
}

/** What the new key may use, so that the operator notices a glob that matches nothing. */
function madeWords(config: Config, { id, organization, models, expiresAtMs }: KeyRecord): string {
  const catalog = Catalog.from(config)
  const owner = catalog.organization(organization)
  const key = owner && keyOf(owner, { id, models, auto: owner.auto, limits: {}, expiresAtMs, disabled: false })
  const count = key === undefined ? 0 : catalog.allowed(key).size
  const most = `${count} of ${config.models.length} models`
  const end = expiresAtMs === undefined ? 'never expires' : `expires at ${timeText(expiresAtMs)}`
  return `key "${id}" of organisation "${organization}" may use ${most} and ${end}`
}

/** A key of the store or of the configuration, as it is listed. */
interface Listed {
  readonly id: string
  readonly organization: string
  readonly source: 'store' | 'configuration'
  readonly shown: string | undefined
  readonly models: readonly string[] | undefined
  readonly createdMs: number | undefined
  readonly expiresAtMs: number | undefined
  readonly revokedMs: number | undefined
  readonly state: 'active' | 'expired' | 'revoked' | 'disabled' | 'orphaned'
}

async function list(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'keys list')
  if ('code' in parsed) return parsed.code
  const { org, json, wide } = parsed.flags
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  const { config } = read
  const organization = typeof org === 'string' ? org : undefined
  const records = await withLedger(openKeyStore, config, (store) => store.list(organization))
  const ids = config.organizations.map(({ id }) => id)
  if (organization !== undefined && !ids.includes(organization) && records.length === 0) {
    return failed(`unknown organisation ${quoted(organization)}${didYouMean(organization, ids)}`)
  }
  const nowMs = Date.now()
  const listed = [
    ...records.map((record) => ofStore(record, ids, nowMs)),
    ...ofConfiguration(config, organization, nowMs),
  ].sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0))
  process.stdout.write(json === true ? jsonText(listed) : tableText(listed, displayOf(wide === true)))
  return exit.done
}

function ofStore(record: KeyRecord, organizations: readonly string[], nowMs: number): Listed {
  const { id, organization, shown, models, createdMs, expiresAtMs, revokedMs } = record
  const isKnown = organizations.includes(organization)
  const state = revokedMs !== undefined ? 'revoked' : isKnown ? stateAt(expiresAtMs, nowMs) : 'orphaned'
  return { id, organization, source: 'store', shown, models, createdMs, expiresAtMs, revokedMs, state }
}

function ofConfiguration(config: Config, only: string | undefined, nowMs: number): readonly Listed[] {
  return config.organizations
    .filter(({ id }) => only === undefined || id === only)
    .flatMap((organization) =>
      organization.keys.map(({ id, models, expiresAtMs, disabled }) => ({
        id,
        organization: organization.id,
        source: 'configuration' as const,
        shown: undefined,
        models,
        createdMs: undefined,
        expiresAtMs,
        revokedMs: undefined,
        state: disabled ? ('disabled' as const) : stateAt(expiresAtMs, nowMs),
      })),
    )
}

function stateAt(expiresAtMs: number | undefined, nowMs: number): 'active' | 'expired' {
  return expiresAtMs === undefined || nowMs < expiresAtMs ? 'active' : 'expired'
}

function jsonText(listed: readonly Listed[]): string {
  const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())
  const keys = listed.map((key) => ({
    id: key.id,
    organization: key.organization,
    source: key.source,
    shown: key.shown ?? null,
    models: key.models ?? null,
    created_at: time(key.createdMs),
    expires_at: time(key.expiresAtMs),
    revoked_at: time(key.revokedMs),
    state: key.state,
  }))
  return `${JSON.stringify({ keys })}\n`
}

const COLUMNS: readonly Column[] = [
  { heading: 'id' },
  { heading: 'organization', priority: 5 },
  { heading: 'source', priority: 2 },
  { heading: 'key', priority: 1 },
  { heading: 'models', priority: 3 },
  { heading: 'created', priority: 0 },
  { heading: 'expires', priority: 4 },
  { heading: 'state' },
]

function tableText(listed: readonly Listed[], display: Display): string {
  const time = (ms: number | undefined) => (ms === undefined ? '-' : timeText(ms))
  const rows = listed.map((key) => [
    ...[key.id, key.organization, key.source, key.shown === undefined ? '-' : `${key.shown}_…`],
    ...[key.models?.join(',') ?? 'all', time(key.createdMs), time(key.expiresAtMs), key.state],
  ])
  return new TextTable(COLUMNS, display).print(rows)
}

/** `2026-11-21T12:00Z` */
function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`
}

async function revoke(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'keys revoke')
  if ('code' in parsed) return parsed.code
  const { id } = parsed.flags
  if (typeof id !== 'string') return misused('missing --id ID')
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  const { config } = read
  const isConfigured = configuredKey(config, id) !== undefined
  const { outcome, ids } = await withLedger(openKeyStore, config, async (store) => {
    const outcome = await store.revoke(id, Date.now())
    return { outcome, ids: outcome === 'unknown' && !isConfigured ? await store.someIds() : [] }
  })
  if (outcome === 'unknown') {
    return failed(isConfigured ? ofFile(id) : `no key has the id ${quoted(id)}${didYouMean(id, ids)}`)
  }
  if (outcome === 'revoked') await Bun.sleep(KEYS_KNOWN_MS)
  process.stdout.write(`key "${id}" ${outcome === 'revoked' ? 'is revoked' : 'was already revoked'}\n`)
  if (isConfigured) printToStderr(ofFile(id))
  return exit.done
}

function ofFile(id: string): string {
  return `key "${id}" is in the configuration: set disabled: true there and send SIGHUP to weir serve`
}
