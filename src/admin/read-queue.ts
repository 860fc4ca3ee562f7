/** Lets only a few reads of the ledger run at a time, so that many askers do not slow each other and weir down. */

import { AdminError } from './json-answers.ts'

const RUNNING_MAX = 2
const WAITING_MAX = 20

export class ReadQueue {
  private running = 0
  private readonly waiting: (() => void)[] = []

  /** Runs it when its turn comes. Throws `AdminError` 409 if too many wait. */
  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.running >= RUNNING_MAX) {
      if (this.waiting.length >= WAITING_MAX)
        throw new AdminError(409, 'busy', 'Too many reports are being read. Try again later.')
      await new Promise<void>((resolve) => this.waiting.push(resolve))
    } else this.running++
    try {
      return await read()
    } finally {
      const next = this.waiting.shift()
      if (next === undefined) this.running--
      else next()
    }
  }
}
