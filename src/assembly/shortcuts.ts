/**
 * Adapters and dialects without their fast paths (`shortcuts: false`): every event is decoded and encoded, every text
 * is parsed. An operator who suspects a fast path can rule it out. What is sent is the same.
 */

import type { Dialect } from '../dialects/dialect.ts'
import type { Provider } from '../providers/provider.ts'

export function withoutShortcuts(provider: Provider): Provider {
  const { plainRequest: _, ...others } = provider
  // Frames that are not offered to a shortcut are decoded.
  return { ...others, plain: () => undefined, framer: () => provider.framer() }
}

export function withoutLargeBodies<T extends Dialect>(dialect: T): T {
  return { ...dialect, largeBody: { textPlaces: [] } }
}
