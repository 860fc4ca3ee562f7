/** Times as people read them, in the time zone of the browser, and the clock of the server. */

const UNKNOWN = '–'

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const minutes = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

/** `12:31:04` in the time zone of the browser. */
export function clockTime(at: Date): string {
  return Number.isNaN(at.getTime()) ? UNKNOWN : clock.format(at)
}

/** `12:31`. */
export function clockMinutes(at: Date): string {
  return minutes.format(at)
}

/** Date and time. */
export function fullTime(at: Date): string {
  return Number.isNaN(at.getTime()) ? UNKNOWN : moment.format(at)
}

/**
 * The time of the server, so that a browser whose clock is wrong does not show budgets that renewed in the past. It is
 * as late as the last answer took to arrive.
 */
export class ServerClock {
  private aheadMs = 0

  adjust(serverTime: string): void {
    const at = Date.parse(serverTime)
    if (!Number.isNaN(at)) this.aheadMs = at - Date.now()
  }

  nowMs(): number {
    return Date.now() + this.aheadMs
  }

  /** Seconds from now until a time; negative if it has passed. */
  secondsUntil(time: string): number {
    return (Date.parse(time) - this.nowMs()) / 1000
  }
}
