/** Raises budgets, ends raises and resets counters, for `weir budgets` and for the admin API. */

import { type CounterInput, checkValue, readRaise, readReset } from '../config/budget-input.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import type { BudgetConfig } from '../core/budget-config.ts'
import type { JsonObject } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { configuredLimits, type SpentBefore } from '../core/limits.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import {
  type BudgetChanges,
  type BudgetRaise,
  budgetChangesOf,
  budgetsRecordId,
  inForceAt,
  newBudgetsRecord,
  withBudgetChanges,
} from './budget-record.ts'
import { auditEntry, inForce, type KeyChangesParts, ownerOf } from './key-changes.ts'
import type { KeyRecord } from './key-record.ts'
import type { KeyStore } from './key-store.ts'

/** Raises, and resets, of one organisation that hold at a time. */
const CHANGES_MAX = 1000

/** Sets windows of a counter that lie ahead back; returns what it has spent now in each, and when these end. */
type SpentAtReset = (organization: OrganizationConfig, budget: BudgetConfig, value: string) => Promise<SpentBefore>

/** Every method throws `KeyProblem`. */
export class BudgetAdministration {
  constructor(
    private readonly parts: KeyChangesParts,
    private readonly spent: SpentAtReset,
  ) {}

  /** `input`: `{"organization", "name", "value", "limits", "until", "reason"}`; the limits are no additions. */
  async raise(input: unknown): Promise<{ readonly organization: string; readonly raise: BudgetRaise }> {
    const nowMs = Date.now()
    const given = readRaise(input, nowMs)
    const { organization, name, value, limits, untilMs, reason } = given
    this.budgetOf(given, false)
    const raise: BudgetRaise = {
      ...{ id: crypto.randomUUID(), name, value, limits, untilMs, reason },
      ...{ createdMs: nowMs, actor: this.parts.by.actor },
    }
    const until = new Date(untilMs).toISOString()
    const details = { ...detailsOf(given), limits: configuredLimits(limits), until, id: raise.id }
    await this.change(organization, 'budget.raised', details, (changes) => {
      return { ...changes, raises: [...changes.raises, raise] }
    })
    return { organization, raise }
  }

  /** Ends a raise. */
  async end(id: string): Promise<void> {
    const ids = this.parts.config.organizations.map((one) => budgetsRecordId(one.id))
    const records = await this.parts.withStore((store) => store.records(ids))
    for (const record of records) {
      const { organization } = record
      const found = inForceAt(budgetChangesOf(record), Date.now()).raises.find((raise) => raise.id === id)
      if (found === undefined) continue
      const { name, value, reason } = found
      const details = { ...detailsOf({ organization, name, value, reason }), id }
      return await this.change(organization, 'budget.raise_ended', details, (changes) => {
        return { ...changes, raises: changes.raises.filter((raise) => raise.id !== id) }
      })
    }
    throw new KeyProblem('unknown', `no raise that holds has the id ${quoted(id)}`)
  }

  /** Lets a counter begin anew: what it has spent in its present windows counts no more. */
  async reset(input: unknown): Promise<CounterInput & { readonly spent: SpentBefore }> {
    const given = readReset(input)
    const { organization, name, value } = given
    const [owner, budget] = this.budgetOf(given, true)
    const spent = await this.spent(owner, budget, value)
    const reset = { name, value, spent, createdMs: Date.now() }
    await this.change(organization, 'budget.reset', detailsOf(given), (changes) => {
      const others = changes.resets.filter((one) => one.name !== name || one.value !== value)
      return { ...changes, resets: [...others, reset] }
    })
    return { ...given, spent }
  }

  /**
   * Takes over what an organisation spent elsewhere under its own limits, in place of an amount that it had from there.
   * Resolves to false if it had the same.
   */
  async takeOver(organization: string, before: SpentBefore | undefined): Promise<boolean> {
    await this.parts.withStore((store) => ownerOf(this.parts.config, store, organization))
    const known = (await this.changes(organization)).before
    if (Bun.deepEquals(known, before)) return false
    const spent = Object.entries(before ?? {}).map(([window, { microUsd }]) => [window, microUsd / 1_000_000])
    const details = { spent_before: Object.fromEntries(spent), from: 'litellm' }
    await this.change(organization, 'organization.updated', details, (changes) => ({ ...changes, before }))
    return true
  }

  /** What holds for an organisation now. */
  async changes(organization: string): Promise<BudgetChanges> {
    const record = await this.parts.withStore((store) => store.get(budgetsRecordId(organization)))
    return inForceAt(budgetChangesOf(record), Date.now())
  }

  private budgetOf({ organization, name, value }: CounterInput, mustName: boolean): [OrganizationConfig, BudgetConfig] {
    const owner = this.parts.config.organizations.find(({ id }) => id === organization)
    if (owner === undefined) {
      const known = this.parts.config.organizations.map(({ id }) => id)
      throw new KeyProblem(
        'unknown',
        `no organisation has the id ${quoted(organization)}${didYouMean(organization, known)}`,
      )
    }
    const budget = owner.budgets?.find((one) => one.name === name)
    if (budget === undefined) {
      const known = owner.budgets?.map((one) => one.name) ?? []
      throw new KeyProblem('unknown', `${organization} has no budget ${quoted(name)}${didYouMean(name, known)}`)
    }
    checkValue(budget, value, mustName)
    return [owner, budget]
  }

  private async change(
    organization: string,
    action: 'budget.raised' | 'budget.raise_ended' | 'budget.reset' | 'organization.updated',
    details: JsonObject,
    edit: (changes: BudgetChanges) => BudgetChanges,
  ): Promise<void> {
    const entry = auditEntry(this.parts, action, organization, details)
    const edited = (record: KeyRecord): KeyRecord => {
      const next = edit(inForceAt(budgetChangesOf(record), Date.now()))
      if (next.raises.length > CHANGES_MAX || next.resets.length > CHANGES_MAX) {
        throw new KeyProblem('conflict', `${organization} has ${CHANGES_MAX} of them already; end some`)
      }
      return withBudgetChanges(record, next)
    }
    await inForce(this.parts, async (store: KeyStore) => {
      const fresh = newBudgetsRecord(organization, Date.now(), edit({ raises: [], resets: [] }))
      if (await store.create(fresh, entry)) return
      await store.change(budgetsRecordId(organization), edited, entry)
    })
  }
}

function detailsOf({ name, value, reason }: CounterInput): JsonObject {
  return { name, value: value === '' ? null : value, reason }
}
