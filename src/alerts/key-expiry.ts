/** Which keys expire soon. */

import { DAY_MS } from '../core/durations.ts'
import type { ExpiringKey } from '../core/organization-config.ts'
import type { ReportedOnce } from './alert.ts'

const SOON_MS = 7 * DAY_MS

/** The keys that expire within 7 days. A key whose expiry is moved is reported again. */
export function expiringKeys(keys: readonly ExpiringKey[], nowMs: number): readonly ReportedOnce[] {
  return keys
    .filter(({ expiresAtMs }) => expiresAtMs > nowMs && expiresAtMs <= nowMs + SOON_MS)
    .map(({ id, organization, expiresAtMs }) => ({
      parts: ['key.expiring', organization, id, expiresAtMs],
      organization,
      forgetMs: expiresAtMs + SOON_MS,
      occurrence: {
        type: 'key.expiring',
        fields: { organization, key: id, expires_at: new Date(expiresAtMs).toISOString() },
      },
    }))
}
