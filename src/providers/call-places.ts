/** The calls and results of a conversation in the order of its messages, for APIs that have no turns. */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'

/** In which order the calls and results of a conversation are sent. */
export interface CallOrder {
  readonly conversation: Conversation
  readonly count: number
  readonly lastPlace: number
  isAnswer(turn: number): boolean
  firstBlock(turn: number): number
  blockAt(place: number): number
  kindOf(block: number): number
}

/** Messages of the assistant that follow each other are one turn, like all others between two of them. */
export class CallPlaces implements CallOrder {
  private readonly blocks: number[] = []
  /** Of each turn: its first block; then the end of all. */
  private readonly turns: number[] = []
  private readonly answers: boolean[] = []

  constructor(readonly conversation: Conversation) {
    if (conversation.has(Kind.CALL_ID) || conversation.has(Kind.RESULT_ID)) this.find()
    this.turns.push(this.blocks.length)
  }

  private find(): void {
    const { conversation, blocks, turns, answers } = this
    for (let message = 0; message < conversation.end; ) {
      const end = conversation.endOfMessage(message)
      const role = conversation.kindAt(message)
      const isAnswer = role === Kind.ASSISTANT
      if (role !== Kind.SYSTEM && answers.at(-1) !== isAnswer) {
        turns.push(blocks.length)
        answers.push(isAnswer)
      }
      for (let entry = conversation.next(message); entry < end; entry = conversation.next(entry)) {
        const kind = conversation.kindAt(entry)
        if (kind === Kind.CALL_ID || kind === Kind.RESULT_ID) blocks.push(entry)
      }
      message = end
    }
  }

  get count(): number {
    return this.answers.length
  }

  get lastPlace(): number {
    return this.blocks.length - 1
  }

  isAnswer(turn: number): boolean {
    return this.answers[turn] === true
  }

  firstBlock(turn: number): number {
    return this.turns[turn] ?? 0
  }

  blockAt(place: number): number {
    return this.blocks[place] ?? 0
  }

  kindOf(block: number): number {
    return this.conversation.kindAt(block)
  }
}
