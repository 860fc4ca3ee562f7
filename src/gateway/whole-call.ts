/** Requests that are passed on, and whose answer is read as a whole: images and embeddings. */

import { noNeeds } from '../catalog/capability.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { TextReader } from '../providers/body-readers.ts'
import type { RequestLog } from './access-log.ts'
import { ProviderCall } from './provider-call.ts'

/** Each request counts as a conversation of its own, and its candidates keep their order. */
export abstract class WholeWork {
  readonly needs = noNeeds

  constructor(readonly log: RequestLog) {}

  conversationWith(): string {
    return this.log.requestId
  }

  order(candidates: readonly Candidate[]): readonly Candidate[] {
    return candidates
  }
}

export abstract class WholeCall extends ProviderCall implements TextReader {
  protected abstract readonly work: WholeWork
  /** Undefined: the limit of every whole answer. */
  protected readonly answerBytesMax: number | undefined

  /** The caller's body of an answer. Throws `ProviderError` if it is none. */
  protected abstract bodyOf(text: string): string

  protected answered(): void {
    this.connection.readText(this, this.answerBytesMax)
  }

  text(text: string): void {
    const { log } = this.work
    log.markAnswered()
    log.markFirstByte()
    try {
      this.began(this.bodyOf(text))
    } catch (error) {
      this.fail(error)
    }
  }
}
