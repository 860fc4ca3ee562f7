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
  const counters = budgets.map((budget) => {
    const { limits, idleMs = 0, isBounded = false } = budget
    return `,[${JSON.stringify(counterName(budget))},${idleMs},${isBounded ? 1 : 0},${limitsArgument(limits, shares)}]`
  })
  const json = `[${zonedText(zoned)}${counters.join('')}]`
  const untilMs = amountsChangeMs(budgets.map(({ limits }) => limits))
  countersArguments.set(account, { zoned, untilMs, json })
  return json
}

/** A counter of an account as a batch has it, but for the number of its limits. */
interface BatchCounter {
  readonly start: string
  readonly limits: Limits
}

const batchCounters = new WeakMap<Account, readonly BatchCounter[]>()

function batchCountersOf(account: Account): readonly BatchCounter[] {
  const known = batchCounters.get(account)
  if (known !== undefined) return known
  const { budgets = [] } = account
  const made = budgets.map((budget) => {
    const { limits, idleMs = 0, isBounded = false } = budget
    const start = `,[${JSON.stringify(counterName(budget))},${idleMs},${isBounded ? 1 : 0},`
    return { start, limits }
  })
  batchCounters.set(account, made)
  return made
}

/**
 * The accounts of a call for many requests. Lists of limits and windows are in it once, and named by numbers: with 16
 * accounts of four budgets each, Redis took half of the time of a call to read them.
 */
export class BatchAccounts {
  private readonly accounts: Account[] = []

  /** `nowMs`: this machine's clock. */
  constructor(private readonly nowMs: number) {}

  /** The number of an account, from 1; a new account gets the next. */
  numberOf(account: Account): number {
    const known = this.accounts.indexOf(account)
    return known === -1 ? this.accounts.push(account) : known + 1
  }

  /** JSON arrays as `open_accounts` in `counters.lua` takes them. */
  arguments(): { readonly shared: string; readonly accounts: string } {
    const [lists, zones] = [new Numbered(), new Numbered()]
    const accounts = this.accounts.map((account) => this.textOf(account, lists, zones))
    return { shared: `[[${lists.texts.join(',')}],[${zones.texts.join(',')}]]`, accounts: `[${accounts.join(',')}]` }
  }

  private textOf(account: Account, lists: Numbered, zones: Numbered): string {
    const { key, organizationLimits, keyLimits, alertShares: shares, budgets, timeZone = 'UTC' } = account
    const ofOrganization = lists.numberOf(limitsArgument(organizationLimits, shares))
    const text = `[${JSON.stringify(key)},${ofOrganization},${lists.numberOf(limitsArgument(keyLimits, shares))}`
    if (budgets === undefined) return `${text}]`
    let counters = ''
    for (const { start, limits } of batchCountersOf(account)) {
      counters += `${start}${lists.numberOf(limitsArgument(limits, shares))}]`
    }
    return `${text},${zones.numberOf(zonedText(windowsIn(timeZone, this.nowMs)))}${counters}]`
  }
}

/** Different texts, in the order of their numbers: few, so a list is searched. */
class Numbered {
  readonly texts: string[] = []

  /** From 1. */
  numberOf(text: string): number {
    const known = this.texts.indexOf(text)
    return known === -1 ? this.texts.push(text) : known + 1
  }
}
