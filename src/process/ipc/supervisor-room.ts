/**
 * The room of providers and targets without Redis: the supervisor has what is common, for all workers of this machine,
 * and workers ask it over the channel between the two.
 */

import type { Amount, Ask, RoomReport, RoomSource, Taken } from '../../capacity/common-room.ts'
import type { Contender } from '../../capacity/organization-turns.ts'
import type { ToSupervisor } from './ipc.ts'
import { PendingReplies } from './pending-replies.ts'

/**
 * Without an answer for so long, the process keeps to its part of the limits by itself, which is at least one request.
 * The supervisor of a busy machine may take a second, and then each process would let one more through.
 */
const ANSWER_MS_MAX = 5000

type Sent = Extract<ToSupervisor, { type: 'take-room' | 'give-room' | 'hold-room' | 'report-room' }>

/** The worker's side. */
export class SupervisorRoom implements RoomSource {
  private readonly replies = new PendingReplies<Taken | undefined>(ANSWER_MS_MAX)

  constructor(private readonly send: (message: Sent) => void) {}

  async take(asks: readonly Ask[], isLow: boolean, contenders: readonly Contender[] = []): Promise<Taken> {
    const taken = await this.replies.ask(
      (id) => this.send({ type: 'take-room', id, asks, isLow, turns: contenders }),
      undefined,
    )
    if (taken === undefined) throw new Error('the supervisor does not answer')
    return taken
  }

  give(amounts: readonly Amount[]): void {
    this.send({ type: 'give-room', amounts })
  }

  renew(held: readonly Amount[]): void {
    this.send({ type: 'hold-room', held })
  }

  report(reports: readonly RoomReport[]): void {
    this.send({ type: 'report-room', reports })
  }

  answer(id: number, taken: Taken): void {
    this.replies.answer(id, taken)
  }
}
