/** Fields of the configuration for the limits of the table. */

import type { TInteger, TNumber, TOptional } from '@sinclair/typebox'
import { type CountLimit, countLimits } from '../core/limits.ts'
import { count, dollars, optional } from './field-types.ts'

/** A field for each limit of the table that is not money. */
export function countFields(): Readonly<Record<CountLimit['key'], TOptional<TInteger>>>
export function countFields(): Readonly<Record<string, TOptional<TInteger>>> {
  return Object.fromEntries(countLimits.map(({ key, description }) => [key, optional(count(description))]))
}

/** A field for each limit of a list that is money. */
export function spendFields<Key extends string>(
  of: readonly { readonly key: Key; readonly description: string }[],
): Readonly<Record<Key, TOptional<TNumber>>>
export function spendFields(
  of: readonly { readonly key: string; readonly description: string }[],
): Readonly<Record<string, TOptional<TNumber>>> {
  return Object.fromEntries(of.map(({ key, description }) => [key, optional(dollars(description))]))
}
