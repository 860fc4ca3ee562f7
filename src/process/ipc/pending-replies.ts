/** Requests to another process that wait for its reply. Each gets it in time, or a fallback. */

export class PendingReplies<Reply> {
  private nextId = 0
  private readonly waiting = new Map<number, (reply: Reply) => void>()

  constructor(private readonly limitMs: number) {}

  /** `send` asks with the id that the reply will have. Resolves to `late` if there is none in time. */
  ask(send: (id: number) => void, late: Reply): Promise<Reply> {
    const id = this.nextId++
    const { promise, resolve } = Promise.withResolvers<Reply>()
    const limit = setTimeout(() => this.answer(id, late), this.limitMs)
    this.waiting.set(id, (reply) => {
      clearTimeout(limit)
      resolve(reply)
    })
    send(id)
    return promise
  }

  answer(id: number, reply: Reply): void {
    this.waiting.get(id)?.(reply)
    this.waiting.delete(id)
  }

  /** For replies without an id, and if no more can come. */
  answerAll(reply: Reply): void {
    for (const id of [...this.waiting.keys()]) this.answer(id, reply)
  }
}
