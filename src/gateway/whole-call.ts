/** A call whose answer is read as a whole, and passed on when it is complete. */

import type { TextReader } from '../providers/upstream.ts'
import { ProviderCall } from './provider-call.ts'

export abstract class WholeCall extends ProviderCall implements TextReader {
  protected abstract readonly work: { markAnswered(): void; markFirstByte(): void }

  /** The caller's body of an answer. Throws `ProviderError` if it is none. */
  protected abstract bodyOf(text: string): string

  protected answered(): void {
    this.connection.readText(this, this.answerBytesMax)
  }

  /** Undefined: the limit of every whole answer. */
  protected get answerBytesMax(): number | undefined {
    return undefined
  }

  text(text: string): void {
    this.work.markAnswered()
    this.work.markFirstByte()
    try {
      this.began(this.bodyOf(text))
    } catch (error) {
      this.fail(error)
    }
  }
}
