/** What is used and held of each limit of organisations and keys, as the ledger has it. */

import { openAccountUsageReader } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import type { Limit, Limits } from '../core/limits.ts'
import type { Account } from '../ledger/ledger.ts'
import { isRefusing } from '../ledger/refusal-mark.ts'
import { type AccountUsageReader, remainingLimits } from '../ledger/remaining.ts'
import type { ScopeUsage } from '../ledger/reservation-store.ts'
import { withLedger } from './ledger-part.ts'
import { type LimitedKey, withStoredOrganizations } from './stored-keys.ts'

/** Keys with limits that are read at most; there may be any number of them. */
const KEYS_READ_MAX = 5000

const NO_LIMITS: Limits = {}
const NO_BUDGET = { held: 0, refused: 0 }

/** Amounts in the unit of the limit. */
export interface LimitUsage {
  readonly organization: string
  /** Null for a limit of the organisation. */
  readonly key: string | null
  readonly limit: Limit
  readonly amount: number
  /** Without what running requests hold. */
  readonly used: number
  readonly held: number
  /** Requests are refused because of what is spent. As `ledger/refusal-mark.ts`. */
  readonly isRefusing: boolean
  /** When a budget renews, in Unix milliseconds; undefined for a total budget, for rates and for concurrency. */
  readonly renewsAtMs: number | undefined
}

/** The limits of the configuration and of stored keys, in the order of `readLimitUsages`. Throws `LedgerProblem`. */
export async function limitUsagesOf(config: Config, stored: readonly LimitedKey[]): Promise<readonly LimitUsage[]> {
  const { organizations } = await withStoredOrganizations(config)
  const configured = organizations.flatMap(({ id: organization, keys }) =>
    keys.map(({ id, limits }): LimitedKey => ({ id, organization, limits })),
  )
  const keys = [...configured, ...stored].filter(({ limits }) => Object.keys(limits).length > 0)
  return await withLedger(openAccountUsageReader, config, (reader) => readLimitUsages(reader, organizations, keys))
}

/** All limits that are set, those that refuse first, then the fullest; of a key only if it was used or refuses. */
export async function readLimitUsages(
  reader: Pick<AccountUsageReader, 'readAll'>,
  organizations: Config['organizations'],
  keys: readonly LimitedKey[],
): Promise<readonly LimitUsage[]> {
  const accounts = accountsOf(organizations, keys)
  const usages = await reader.readAll(accounts)
  const found: LimitUsage[] = []
  let before: string | undefined
  for (const [index, { organization, organizationLimits, key, keyLimits }] of accounts.entries()) {
    const usage = usages[index]
    if (usage === undefined) continue
    // The accounts of an organisation follow each other.
    if (organization !== before)
      found.push(...usagesOf({ organization, key: null }, organizationLimits, usage.organization))
    before = organization
    const ofKey = usagesOf({ organization, key }, keyLimits, usage.key)
    if (ofKey.some(({ used, held, isRefusing }) => used + held > 0 || isRefusing)) found.push(...ofKey)
  }
  return found.sort(
    (one, other) => Number(other.isRefusing) - Number(one.isRefusing) || fullness(other) - fullness(one),
  )
}

/** The share of a limit that is used or held; a limit of 0 is full. */
export function fullness({ amount, used, held }: Pick<LimitUsage, 'amount' | 'used' | 'held'>): number {
  return amount === 0 ? 1 : (used + held) / amount
}

/** The words of a search, which may be in any letters. */
export function searchWords(search = ''): readonly string[] {
  return search.toLowerCase().split(/\s+/).filter(Boolean)
}

/** Whether each word is in the owner of a limit or in its configured name: `acme spend day`, `acme spend.day`. */
export function hasWords(words: readonly string[], owner: string, limit: string): boolean {
  const text = `${owner} ${limit} ${limit.replaceAll(/[._]/g, ' ')}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

/** One account for each key with limits; if an organisation has none, one for it alone, if it has limits. */
function accountsOf(organizations: Config['organizations'], keys: readonly LimitedKey[]): readonly Account[] {
  const keysOf = Map.groupBy(keys.slice(0, KEYS_READ_MAX), ({ organization }) => organization)
  return organizations.flatMap(({ id: organization, limits: organizationLimits }): readonly Account[] => {
    const own = keysOf.get(organization)
    if (own === undefined) {
      const isLimited = Object.keys(organizationLimits).length > 0
      return isLimited ? [{ organization, organizationLimits, key: '', keyLimits: NO_LIMITS }] : []
    }
    return own.map(({ id, limits }) => ({ organization, organizationLimits, key: id, keyLimits: limits }))
  })
}

function usagesOf(
  owner: Pick<LimitUsage, 'organization' | 'key'>,
  limits: Limits,
  figures: ScopeUsage,
): readonly LimitUsage[] {
  return remainingLimits(limits, figures).map(({ limit, most, used: taken, renewsAtMs }) => {
    const { held, refused } = limit.kind === 'budget' ? figures[limit.name] : NO_BUDGET
    const used = Math.min(taken - held, Number.MAX_SAFE_INTEGER)
    return { ...owner, limit, amount: most, used, held, isRefusing: isRefusing(most, used, refused), renewsAtMs }
  })
}
