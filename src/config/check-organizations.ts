/**
 * Checks of organisations and keys beyond the schema: unique ids and secrets, consistent settings, prices under spend
 * limits.
 */

import { matchesKey, matchesModel } from '../core/budget-config.ts'
import { isTimeZone } from '../core/calendar.ts'
import { judge } from '../core/permission.ts'
import { rulesOf } from './build.ts'
import { checkBudgets } from './check-budgets.ts'
import type { Check } from './check-context.ts'
import { knownTags } from './check-tags.ts'
import { hashOf, isHash } from './key-hash.ts'
import { didYouMean, type Path, pathText } from './problems.ts'
import { type Loose, sound } from './schema-errors.ts'
import type { File } from './schema-file.ts'
import { hasAmount, spendProblems } from './spend-limits.ts'
import { instant } from './timestamps.ts'
import { isHashOfWellKnown, isWellKnown, PLACEHOLDER_HASH } from './well-known-secrets.ts'

/** The command that hashes a key in a variable. */
const HASHING = 'printf %s "$KEY" | sha256sum'

type Organization = Loose<File['organizations'][number]>
type Key = Loose<NonNullable<File['organizations'][number]['keys']>[number]>

export function checkOrganizations(check: Check): void {
  const seen = {
    organizations: new Map<string, string>(),
    keys: new Map<string, string>(),
    hashes: new Map<string, string>(),
  }
  check.file.organizations?.forEach((organization, index) => {
    if (organization === undefined) return
    const path = ['organizations', index]
    checkUnique(check, seen.organizations, organization.id, [...path, 'id'])
    checkRules(check, organization, path)
    checkSpend(check, organization.limits?.spend, [...path, 'limits', 'spend'])
    checkAuto(check, organization.auto, [...path, 'auto'])
    checkTimeZone(check, organization.timezone, [...path, 'timezone'])
    checkBudgets(check, organization, [...path, 'budgets'])
    organization.keys?.forEach((key, at) => {
      if (key === undefined) return
      const inside = [...path, 'keys', at]
      checkUnique(check, seen.keys, key.id, [...inside, 'id'])
      checkSecret(check, seen.hashes, key, inside)
      checkKey(check, organization, key, inside)
    })
    checkPrices(check, organization, path)
  })
}

function checkUnique({ problems, shown }: Check, seen: Map<string, string>, id: string | undefined, path: Path): void {
  if (id === undefined) return
  const first = seen.get(id)
  if (first === undefined) seen.set(id, pathText(path))
  else problems.add(path, `${shown(path, id)} is already the id at ${first}; ids are unique in the whole file`)
}

function checkRules({ problems }: Check, organization: Organization, path: Path): void {
  organization.rules?.forEach((rule, index) => {
    if (rule === undefined) return
    const both = [rule.allow, rule.deny].filter((list) => list !== undefined).length
    const named = Object.hasOwn(rule, 'allow') || Object.hasOwn(rule, 'deny')
    if (both === 2) problems.add([...path, 'rules', index], 'has both allow and deny; split it into two rules')
    if (!named) problems.add([...path, 'rules', index], 'needs allow or deny')
  })
}

function checkTimeZone({ problems, shown }: Check, zone: string | undefined, path: Path): void {
  if (zone === undefined || isTimeZone(zone)) return
  problems.add(path, `${shown(path, zone)} is not a time zone; name one as in Europe/Berlin, or UTC`)
}

function checkSpend({ problems }: Check, spend: Spend, path: Path): void {
  if (spend === undefined) return
  for (const { key, words } of spendProblems(spend)) problems.add(key === undefined ? path : [...path, key], words)
}

/** A key has one of the two, and no other key has the same secret, whether plain or hashed. */
function checkSecret({ problems }: Check, seen: Map<string, string>, key: Key, path: Path): void {
  const plain = Object.hasOwn(key, 'key')
  const hashed = Object.hasOwn(key, 'sha256')
  if (plain && hashed) problems.add(path, 'has both key and sha256; keep one')
  if (!plain && !hashed) problems.add(path, 'needs sha256 or key')
  const hash = key.key === undefined ? key.sha256?.toLowerCase() : hashOf(key.key)
  if (plain === hashed || hash === undefined || !isHash(hash)) return
  const field = plain ? 'key' : 'sha256'
  if (hash === PLACEHOLDER_HASH) {
    problems.add([...path, field], `is the placeholder of the example; replace it with the output of: ${HASHING}`)
    return
  }
  if (key.key === undefined ? isHashOfWellKnown(hash) : isWellKnown(key.key)) {
    const what = plain ? 'is a well-known word' : 'is the SHA-256 of a well-known word, or of an empty string'
    problems.add([...path, field], `${what}, which is easy to guess; create a key: openssl rand -hex 24`)
    return
  }
  const first = seen.get(hash)
  if (first === undefined) seen.set(hash, pathText(path))
  else problems.add([...path, field], `is the same as that of ${first}; every key needs its own`)
}

function checkKey(check: Check, organization: Organization, key: Key, path: Path): void {
  checkSpend(check, key.limits?.spend, [...path, 'limits', 'spend'])
  checkAuto(check, key.auto, [...path, 'auto'])
  const { auto: whole = 'off' } = organization
  if (whole !== 'available' && key.auto !== undefined && key.auto !== whole) {
    const advice = whole === 'off' ? 'set that to available' : 'remove it'
    check.problems.add([...path, 'auto'], `cannot be ${key.auto} because the organisation's is ${whole}; ${advice}`)
  }
  checkTags(check, key.tags, [...path, 'tags'])
  checkTags(check, key.fixed_tags, [...path, 'fixed_tags'])
  if (key.expires_at !== undefined && instant(key.expires_at) === undefined) {
    check.problems.add(
      [...path, 'expires_at'],
      'must be a date (2027-01-31) or an RFC 3339 time (2027-01-31T12:00:00Z)',
    )
  }
}

function checkTags(check: Check, tags: Key['tags'], path: Path): void {
  const names = knownTags(check)
  for (const name of Object.keys(tags ?? {})) {
    if (names === undefined || names.includes(name)) continue
    const advice = didYouMean(name, names) || '; add it there'
    check.problems.add([...path, name], `is not in tags of the configuration${advice}`)
  }
}

function checkAuto({ file, problems }: Check, auto: Organization['auto'], path: Path): void {
  if (auto === undefined || auto === 'off' || Object.hasOwn(file, 'auto')) return
  problems.add(path, `is ${auto}, but there are no candidates; set auto: { candidates: […] }`)
}

/**
 * A spend limit needs to know what a request may cost, so a model without a price is rejected, and under a strict
 * limit also a model without `max_output_tokens`. The catalog applies the same rule to keys that are created later.
 */
function checkPrices({ file, problems }: Check, organization: Organization, owner: Path): void {
  file.models?.forEach((model, index) => {
    const name = model?.name
    if (name === undefined || model === undefined) return
    const path = ['models', index]
    if (!Object.hasOwn(model, 'price')) {
      const who = reaching(organization, owner, name, (spend) => spend !== undefined)
      const end = 'may use it under a spend limit; give it a price, or exclude it there'
      if (who !== undefined) problems.add([...path, 'price'], `is missing, and ${who} ${end}`)
    } else if (!Object.hasOwn(model, 'max_output_tokens') && (model.price?.output ?? 0) > 0 && isForChat(model)) {
      const who = reaching(organization, owner, name, (spend) => spend?.strict === true && hasAmount(spend))
      const end =
        'may use it under a strict spend limit, which holds the whole output limit; set it, or exclude the model there'
      if (who !== undefined) problems.add([...path, 'max_output_tokens'], `is missing, and ${who} ${end}`)
    }
  })
}

function isForChat(model: Loose<File['models'][number]>): boolean {
  return !['image_generation', 'embeddings'].some((other) => model.supports?.some((word) => word === other))
}

type Spend = NonNullable<Organization['limits']>['spend']
type IsSuch = (spend: Spend) => boolean

/**
 * Who may use a model under such a spend limit: the organisation (for a key that no rule names), or the first of its
 * keys.
 */
function reaching(organization: Organization, owner: Path, name: string, isSuch: IsSuch): string | undefined {
  const access = { models: sound(organization.models), rules: rulesOf(organization.rules) }
  const budgets = budgetsWith(organization, name, isSuch)
  const limited = isSuch(organization.limits?.spend) || budgets.some(({ match }) => match.keys === undefined)
  if (limited && judge(access, {}, name).allowed) return named('organisation', organization.id, owner)
  const keys = organization.keys?.filter((key) => key !== undefined) ?? []
  const key = keys.find(
    (one) =>
      (limited || isSuch(one.limits?.spend) || budgets.some((budget) => matchesKey(budget, one.id ?? ''))) &&
      judge(access, { id: one.id, models: sound(one.models) }, name).allowed,
  )
  return key && named('key', key.id, owner)
}

/** The budgets that have such a spend limit for some value, and count requests that a model serves. */
function budgetsWith(organization: Organization, model: string, isSuch: IsSuch) {
  return (organization.budgets ?? []).flatMap((budget) => {
    const match = { keys: sound(budget?.match?.keys), models: sound(budget?.match?.models) }
    const limits = [budget?.limits, ...Object.values(budget?.except ?? {})]
    const isLimited = limits.some((one) => isSuch(one?.spend))
    return isLimited && matchesModel({ match }, model) ? [{ match }] : []
  })
}

function named(what: string, id: string | undefined, path: Path): string {
  return id === undefined ? `a part of ${pathText(path)}` : `${what} "${id}"`
}
