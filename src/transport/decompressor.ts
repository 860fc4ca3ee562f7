/**
 * Decompresses the body of a response that was compressed although `identity` was asked for. It never holds more than
 * what the handler has not taken yet and two of the stream's buffers, however much the bytes expand to.
 */

import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

/** Takes what comes out. Nothing after `end` or `failed`. */
interface DecompressorOwner {
  decompressed(bytes: Uint8Array): void
  decompressedAll(): void
  /** The bytes do not match the content coding. */
  notDecompressed(): void
  /** After `push` returned false: there is room again. */
  decompressorDrained(): void
}

const CODINGS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** Undefined for `identity`, none, and codings that are not known: their bytes are given as they are. */
export function decompressorOf(coding: string, owner: DecompressorOwner): Decompressor | undefined {
  const create = CODINGS[coding]
  return create === undefined ? undefined : new Decompressor(create(), owner)
}

export class Decompressor {
  private isOver = false

  constructor(
    private readonly stream: Transform,
    owner: DecompressorOwner,
  ) {
    stream.on('data', (bytes: Uint8Array) => {
      if (!this.isOver) owner.decompressed(bytes)
    })
    stream.on('end', () => {
      if (!this.isOver) owner.decompressedAll()
    })
    stream.on('error', () => {
      if (!this.isOver) owner.notDecompressed()
    })
    stream.on('drain', () => {
      if (!this.isOver) owner.decompressorDrained()
    })
  }

  /** False if it has enough to do for now; bytes that come nevertheless are kept. */
  push(bytes: Uint8Array): boolean {
    return this.stream.write(bytes)
  }

  /** Nothing follows what was pushed. */
  end(): void {
    this.stream.end()
  }

  pause(): void {
    this.stream.pause()
  }

  resume(): void {
    this.stream.resume()
  }

  stop(): void {
    this.isOver = true
    this.stream.destroy()
  }
}
