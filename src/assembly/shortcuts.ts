/**
 * Adapters without their fast paths (`shortcuts: false`): every event is decoded and encoded. An operator who suspects
 * a fast path can rule it out. What is sent is the same.
 */

import type { Provider } from '../providers/provider.ts'

export function withoutShortcuts(provider: Provider): Provider {
  // Frames that are not offered to a shortcut are decoded.
  return { ...provider, plain: () => undefined, framer: () => provider.framer() }
}
