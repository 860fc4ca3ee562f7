/**
 * The messages to one worker that it answers, and their answers: each comes in time, or a fallback does. What a message
 * means is in `ipc.ts`.
 */

import type { Config } from '../../config/config.ts'
import type { ToSupervisor, ToWorker, WorkerStatus } from '../ipc/ipc.ts'
import { PendingReplies } from '../ipc/pending-replies.ts'

/** How long a readiness check waits for a worker's answer. */
const STATUS_MS_MAX = 1000
/** How long the lines of the last requests are waited for. */
const RECENT_MS_MAX = 1000
const PREPARE_MS_MAX = 10_000
/** How long a worker may take to send its listening socket. */
const LEND_MS_MAX = 1000

/** The messages that a worker answers with. */
type Reply = Extract<ToSupervisor, { type: 'status' | 'recent' | 'prepared' | 'lent' }>

export class WorkerMessages {
  private readonly statuses = new PendingReplies<WorkerStatus>(STATUS_MS_MAX)
  private readonly recents = new PendingReplies<readonly string[]>(RECENT_MS_MAX)
  private readonly preparations = new PendingReplies<string | undefined>(PREPARE_MS_MAX)
  private readonly sockets = new PendingReplies<string | undefined>(LEND_MS_MAX)

  constructor(
    /** The start of every reason and problem: `worker 0`. */
    private readonly name: string,
    private readonly send: (message: ToWorker) => void,
  ) {}

  /** Each reason names the worker. */
  async status(): Promise<WorkerStatus> {
    const late = { reasons: ['does not answer'] }
    const { reasons, ...status } = await this.statuses.ask((id) => this.send({ type: 'status', id }), late)
    return { ...status, reasons: reasons.map((reason) => `${this.name} ${reason}`) }
  }

  /** Resolves to the log lines of the last requests, the oldest first; none without an answer. */
  recent(): Promise<readonly string[]> {
    return this.recents.ask((id) => this.send({ type: 'recent', id }), [])
  }

  /** The first half of a reload. Resolves to the problem that prevents it, if there is one. */
  prepare(config: Config): Promise<string | undefined> {
    return this.preparations.ask(() => this.send({ type: 'prepare', config }), `${this.name} does not answer`)
  }

  /** Asks for the listening socket, which comes through the descriptor channel. Resolves to the problem, if any. */
  lend(): Promise<string | undefined> {
    return this.sockets.ask(() => this.send({ type: 'lend' }), `${this.name} does not answer`)
  }

  take(reply: Reply): void {
    switch (reply.type) {
      case 'status':
        return this.statuses.answer(reply.id, reply)
      case 'recent':
        return this.recents.answer(reply.id, reply.lines)
      case 'prepared':
        return this.preparations.answerAll(reply.problem)
      case 'lent':
        return this.sockets.answerAll(reply.problem)
    }
  }

  /** The process of the worker has ended: no reply comes. */
  gone(): void {
    const problem = `${this.name} died`
    this.preparations.answerAll(problem)
    this.sockets.answerAll(problem)
    this.statuses.answerAll({ reasons: ['is down'] })
    this.recents.answerAll([])
  }
}
