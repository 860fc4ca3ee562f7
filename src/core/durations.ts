/** Lengths of time in milliseconds. */

export const MINUTE_MS = 60_000
export const HOUR_MS = 3_600_000
export const DAY_MS = 86_400_000

/** The longest timer: a longer one fires at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1
