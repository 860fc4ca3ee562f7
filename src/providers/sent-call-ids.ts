/** The ids of earlier tool calls in the form that providers accept. */

import { fitted, NAMES_OF_64 } from './tool-names.ts'

/** Calls with the same caller's id: the ids that were sent, and which call the next result answers. */
interface OpenCalls {
  readonly sent: string[]
  next: number
}

/**
 * The ids of one request's calls and results, as they are sent. Providers accept `[a-zA-Z0-9_-]`, at most 64
 * characters, unique in a conversation. Callers send ids of other providers; some servers number calls from 0 in every
 * answer. An id that is legal and unique is sent unchanged.
 */
export class SentCallIds {
  private readonly taken = new Set<string>()
  /** The next number for ids with the same first characters. */
  private readonly numbers = new Map<string, number>()
  /** Calls of the last assistant turn without a result, by the caller's id. */
  private readonly open = new Map<string, OpenCalls>()

  /** A new assistant turn begins: the results that follow belong to its calls. */
  turn(): void {
    this.open.clear()
  }

  /** The id of a call, in order of appearance. */
  call(id: string): string {
    const sent = this.unique(fitted(id, NAMES_OF_64))
    const open = this.open.get(id)
    if (open === undefined) this.open.set(id, { sent: [sent], next: 0 })
    else open.sent.push(sent)
    return sent
  }

  /**
   * The id of the call that a result answers. One that answers no call keeps its id, so that the provider reports it.
   */
  result(id: string): string {
    const open = this.open.get(id)
    if (open === undefined) return fitted(id, NAMES_OF_64)
    const sent = open.sent[open.next]
    // The last one stays: further results with this id answer the same call.
    open.next = Math.min(open.next + 1, open.sent.length - 1)
    return sent ?? fitted(id, NAMES_OF_64)
  }

  /** Numbers are counted per stem, not per id: thousands of ids may share their first characters. */
  private unique(id: string): string {
    const stem = id.slice(0, NAMES_OF_64.charsMax - 8)
    let sent = id
    while (this.taken.has(sent)) {
      const number = this.numbers.get(stem) ?? 2
      this.numbers.set(stem, number + 1)
      sent = `${stem}_${number}`
    }
    this.taken.add(sent)
    return sent
  }
}
