/** What the checkers of providers' rules are made of: each throws at a violation. */

import type { JsonObject } from '../../src/core/json.ts'

export function must(condition: boolean, rule: string, where: unknown): asserts condition {
  if (!condition) throw new Error(`${rule}: ${JSON.stringify(where)}`)
}

export function onlyKeys(value: JsonObject, keys: readonly string[]): void {
  for (const key of Object.keys(value)) must(keys.includes(key), `knows no ${key}`, value)
}
