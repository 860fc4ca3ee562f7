/** The two sides of a stream, controlled by the test: a provider's call and a caller's socket. */

import { ProviderError } from '../../src/core/provider-error.ts'
import { bytesOf } from '../support/bytes.ts'

/** A provider's call whose bytes come from the test. */
export class HandCall {
  readonly done: string[] = []
  private readonly chunks: (string | Uint8Array | undefined | ProviderError)[] = []
  private wake: () => void = () => {}

  give(...chunks: readonly (string | Uint8Array | undefined | ProviderError)[]): void {
    this.chunks.push(...chunks)
    this.wake()
  }

  async read(): Promise<Uint8Array | undefined> {
    while (this.chunks.length === 0) {
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
    const chunk = this.chunks.shift()
    if (chunk instanceof ProviderError) throw chunk
    return chunk === undefined ? undefined : bytesOf(chunk)
  }

  pause(): void {
    this.done.push('pause')
  }

  resume(): void {
    this.done.push('resume')
  }

  async release(): Promise<void> {
    this.done.push('release')
  }

  /** As with `fetch`, a read that waits rejects. */
  abort(): void {
    this.done.push('abort')
    this.give(new ProviderError('cut', 'aborted'))
  }
}

/** A caller's socket: full until the test lets it take what was written. */
export class HandSink {
  readonly writes: string[] = []
  ended = false
  private full: PromiseWithResolvers<number> | undefined

  fill(): void {
    this.full = Promise.withResolvers<number>()
  }

  take(): void {
    this.full?.resolve(1)
    this.full = undefined
  }

  write(text: string): number {
    this.writes.push(text)
    return text.length
  }

  flush(_wait: true): Promise<number> {
    return this.full?.promise ?? Promise.resolve(1)
  }

  end(): void {
    this.ended = true
  }

  get text(): string {
    return this.writes.join('')
  }
}
