/** The bytes of an answer as promises, for a reader that must wait between them. */

import { partOf } from '../core/bytes.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { BodyReader } from '../providers/body-readers.ts'
import type { UpstreamCall } from '../providers/upstream.ts'
import { HeldBytes } from './held-bytes.ts'

export class ChunkQueue implements BodyReader {
  private readonly held: HeldBytes
  private hasEnded = false
  private failure: ProviderError | undefined
  private reading: PromiseWithResolvers<Uint8Array | undefined> | undefined

  constructor(call: Pick<UpstreamCall, 'read' | 'pause' | 'resume'>) {
    this.held = new HeldBytes(call)
    call.read(this)
  }

  /**
   * The next bytes, at most `SLICE_BYTES`, one call at a time; undefined at the clean end. Throws what
   * `BodyReader.fail` gets.
   */
  async read(): Promise<Uint8Array | undefined> {
    const slice = this.held.next()
    if (slice !== undefined) return slice
    if (this.failure !== undefined) throw this.failure
    if (this.hasEnded) return undefined
    this.held.resume()
    this.reading = Promise.withResolvers()
    return await this.reading.promise
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    this.held.add(partOf(bytes, from, to))
    if (this.reading !== undefined) this.take()?.resolve(this.held.next())
  }

  end(): void {
    this.hasEnded = true
    this.take()?.resolve(undefined)
  }

  fail(error: ProviderError): void {
    this.failure = error
    this.take()?.reject(error)
  }

  private take(): PromiseWithResolvers<Uint8Array | undefined> | undefined {
    const { reading } = this
    this.reading = undefined
    return reading
  }
}
