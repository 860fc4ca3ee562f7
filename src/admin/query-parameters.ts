/** Reads the query of a request. What is wrong is an `AdminError` 400 that names the parameter. */

import { didYouMean, quoted } from '../config/problems.ts'
import { AdminError } from './json-answers.ts'

type Query = Readonly<Record<string, string | undefined>>

/** The parameters of a request. Each of them is known, comes once and has a value. Throws `AdminError` 400. */
export function queryOf(url: string, known: readonly string[]): Query {
  const query: Record<string, string> = {}
  for (const [name, value] of new URL(url).searchParams) {
    if (!known.includes(name)) {
      const takes = known.length === 0 ? 'this path takes none' : `known are ${known.join(', ')}`
      throw badQuery(`unknown parameter ${quoted(name)}${didYouMean(name, known) || `; ${takes}`}`)
    }
    if (Object.hasOwn(query, name)) throw badQuery(`${name} comes twice`)
    if (value === '') throw badQuery(`${name} needs a value`)
    query[name] = value
  }
  return query
}

/** `true` or `false`; false if it is absent. Throws `AdminError` 400. */
export function isSet(query: Query, name: string): boolean {
  const value = query[name]
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw badQuery(`${name} must be true or false, not ${quoted(value)}`)
}

/** A whole number within bounds, or undefined. Throws `AdminError` 400. */
export function wholeNumber(query: Query, name: string, min: number, max: number): number | undefined {
  const value = query[name]
  if (value === undefined) return undefined
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
  if (number >= min && number <= max) return number
  throw badQuery(`${name} must be a whole number from ${min} to ${max}, not ${quoted(value)}`)
}

export function badQuery(message: string): AdminError {
  return new AdminError(400, 'invalid_parameter', message)
}
