/** Keeps a test that reads the real clock away from the end of a window. */

/** Time zones are whole half hours apart, but for a few that no test has. */
const HALF_HOUR_MS = 30 * 60_000
/** No test that uses this takes longer. */
const TEST_MS_MAX = 20_000

/** Resolves when no hour of any time zone ends soon: a window that ended during the test would change its figures. */
export async function untilHourIsSafe(): Promise<void> {
  const leftMs = HALF_HOUR_MS - (Date.now() % HALF_HOUR_MS)
  if (leftMs < TEST_MS_MAX) await Bun.sleep(leftMs)
}
