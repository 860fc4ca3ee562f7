/**
 * Accounts and their limits as the scripts receive them. A call for many requests has each account once: requests refer
 * to them by number.
 */

import { type AlertShares, amountsChangeMs, amountsOf } from '../../../core/limit-amounts.ts'
import type { Limits } from '../../../core/limits.ts'
import { type Account, counterName } from '../../ledger.ts'
import { windowsIn, type ZonedWindows } from '../../window.ts'

/** By the array of `amountsOf`, which is the same for the same limits, because every call sends them. */
const limitsArguments = new WeakMap<readonly number[], string>()

/** A JSON array of `amountsOf`. */
export function limitsArgument(limits: Limits, shares: AlertShares | undefined): string {
  const amounts = amountsOf(limits, shares)
  const known = limitsArguments.get(amounts)
  if (known !== undefined) return known
  const json = JSON.stringify(amounts)
  limitsArguments.set(amounts, json)
  return json
}

interface CountersArgument {
  readonly zoned: ZonedWindows
  /** When the amounts of its limits change. */
  readonly untilMs: number
  readonly json: string
}

const countersArguments = new WeakMap<Account, CountersArgument>()

const zonedTexts = new WeakMap<ZonedWindows, string>()

/** JSON of windows, their ends and starts. */
export function zonedText(zoned: ZonedWindows): string {
  const known = zonedTexts.get(zoned)
  if (known !== undefined) return known
  const text = JSON.stringify([zoned.windows, zoned.ends, zoned.starts])
  zonedTexts.set(zoned, text)
  return text
}

/** The counters of an account as `add_counters` in `store.lua` takes them, at a time; '' if it has none. */
export function countersArgument(account: Account, nowMs: number): string {
  const { budgets, timeZone = 'UTC', alertShares: shares } = account
  if (budgets === undefined) return ''
  const zoned = windowsIn(timeZone, nowMs)
  const known = countersArguments.get(account)
  if (known?.zoned === zoned && Date.now() < known.untilMs) return known.json
  const own = countersOf(account).map(({ start, limits }) => `${start}${limitsArgument(limits, shares)}]`)
  const json = `[${zonedText(zoned)}${own.join('')}]`
  const untilMs = amountsChangeMs(budgets.map(({ limits }) => limits))
  countersArguments.set(account, { zoned, untilMs, json })
  return json
}

/** A counter of an account. */
interface Counter {
  /** All of its argument before its limits, which a batch has by a number. */
  readonly start: string
  readonly limits: Limits
}

const counters = new WeakMap<Account, readonly Counter[]>()

function countersOf(account: Account): readonly Counter[] {
  const known = counters.get(account)
  if (known !== undefined) return known
  const { budgets = [] } = account
  const made = budgets.map((budget) => {
    const { limits, idleMs = 0, isBounded = false } = budget
    const start = `,[${JSON.stringify(counterName(budget))},${idleMs},${isBounded ? 1 : 0},`
    return { start, limits }
  })
  counters.set(account, made)
  return made
}

/**
 * The accounts of a call for many requests. Lists of limits and windows are in it once, and named by numbers: with 16
 * accounts of four budgets each, Redis took half of the time of a call to read them.
 */
export class BatchAccounts {
  private readonly accounts = new Numbered<Account>()

  /** `nowMs`: this machine's clock. */
  constructor(private readonly nowMs: number) {}

  /** The number of an account, from 1; a new account gets the next. */
  numberOf(account: Account): number {
    return this.accounts.numberOf(account)
  }

  /** JSON arrays as `open_accounts` in `counters.lua` takes them. */
  arguments(): { readonly shared: string; readonly accounts: string } {
    const [lists, zones] = [new Numbered<string>(), new Numbered<string>()]
    const accounts = this.accounts.all.map((account) => this.textOf(account, lists, zones))
    return { shared: `[[${lists.all.join(',')}],[${zones.all.join(',')}]]`, accounts: `[${accounts.join(',')}]` }
  }

  private textOf(account: Account, lists: Numbered<string>, zones: Numbered<string>): string {
    const { key, organizationLimits, keyLimits, alertShares: shares, budgets, timeZone = 'UTC' } = account
    const ofOrganization = lists.numberOf(limitsArgument(organizationLimits, shares))
    const text = `[${JSON.stringify(key)},${ofOrganization},${lists.numberOf(limitsArgument(keyLimits, shares))}`
    if (budgets === undefined) return `${text}]`
    let own = ''
    for (const { start, limits } of countersOf(account)) {
      own += `${start}${lists.numberOf(limitsArgument(limits, shares))}]`
    }
    return `${text},${zones.numberOf(zonedText(windowsIn(timeZone, this.nowMs)))}${own}]`
  }
}

/** Different values, in the order of their numbers: few, so a list is searched. */
class Numbered<T> {
  readonly all: T[] = []

  /** From 1. */
  numberOf(value: T): number {
    const known = this.all.indexOf(value)
    return known === -1 ? this.all.push(value) : known + 1
  }
}
