/** The limits of an organisation or a key in words, with what is left of each. */

import type { Limits } from '../core/money.ts'
import { dollars } from '../ledger/refusal.ts'
import { type Left, leftOf } from '../ledger/remaining.ts'
import type { Figures, LimitName } from '../ledger/reservation-store.ts'

const words: Readonly<Record<LimitName, { readonly what: string; readonly isMoney: boolean }>> = {
  requests: { what: ' requests a minute', isMoney: false },
  tokens: { what: ' tokens a minute', isMoney: false },
  concurrent_requests: { what: ' requests at once', isMoney: false },
  day: { what: ' a day', isMoney: true },
  month: { what: ' a month', isMoney: true },
  total: { what: ' in total', isMoney: true },
}

/** Used for the limits alone, where the ledger could not be asked. */
const NOTHING = { window: 0, spent: 0, held: 0 }
const UNUSED: Figures = { requests: 0, tokens: 0, live: 0, day: NOTHING, month: NOTHING, total: NOTHING }

/** One line; `figures` is undefined where what is left is not known. */
export function limitLine(owner: string, limits: Limits, figures: Figures | undefined): string {
  const parts = leftOf(limits, figures ?? UNUSED).map((left) => {
    const { what, isMoney } = words[left.limit]
    const most = `${isMoney ? dollars(left.most) : left.most}${what}`
    return figures === undefined ? most : `${most} (${leftText(left, isMoney)})`
  })
  return `limits of ${owner}: ${parts.length === 0 ? 'none' : parts.join(', ')}`
}

function leftText({ left, renewsAtMs }: Left, isMoney: boolean): string {
  const text = `${isMoney ? dollars(left) : left} left`
  // Windows end with a UTC day.
  return renewsAtMs === undefined ? text : `${text}, renews ${new Date(renewsAtMs).toISOString().slice(0, 10)}`
}
