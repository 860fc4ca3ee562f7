/** Bounds how often the ledger is read for reports, however much there is to read. */

const PAUSE_PER_READING = 49

/** How long to wait after a reading that took `readingMs`, so that readings take at most 2 % of the time. */
export function pauseAfterReading(readingMs: number): number {
  return readingMs * PAUSE_PER_READING
}
