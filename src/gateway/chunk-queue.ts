/** The bytes of an answer as promises, for a reader that must wait between them. */

import { SLICE_BYTES } from '../core/event-loop.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { BodyReader, UpstreamCall } from '../providers/upstream.ts'

/** Above `SLICE_BYTES` that nobody has read yet, the provider must wait. */
export class ChunkQueue implements BodyReader {
  private readonly chunks: Uint8Array[] = []
  private bytes = 0
  private isPaused = false
  private hasEnded = false
  private failure: ProviderError | undefined
  private reading: PromiseWithResolvers<Uint8Array | undefined> | undefined

  constructor(private readonly call: Pick<UpstreamCall, 'read' | 'pause' | 'resume'>) {
    call.read(this)
  }

  /** The next bytes, one call at a time; undefined at the clean end. Throws what `BodyReader.fail` gets. */
  async read(): Promise<Uint8Array | undefined> {
    const chunk = this.chunks.shift()
    if (chunk !== undefined) {
      this.bytes -= chunk.length
      if (this.isPaused && this.bytes <= SLICE_BYTES) {
        this.isPaused = false
        this.call.resume()
      }
      return chunk
    }
    if (this.failure !== undefined) throw this.failure
    if (this.hasEnded) return undefined
    this.reading = Promise.withResolvers()
    return await this.reading.promise
  }

  data(bytes: Uint8Array): void {
    if (this.reading !== undefined) return this.take()?.resolve(bytes)
    this.chunks.push(bytes)
    this.bytes += bytes.length
    if (this.isPaused || this.bytes <= SLICE_BYTES) return
    this.isPaused = true
    this.call.pause()
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
