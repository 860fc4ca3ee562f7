/**
 * Decompresses the body of a response that was compressed although `identity` was asked for. It never holds more than
 * what the handler has not taken yet and two of the stream's buffers, however much the bytes expand to.
 */

import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

/** Takes what comes out, also after the stream was destroyed. */
interface DecompressorOwner {
  decompressed(bytes: Uint8Array): void
  decompressedAll(): void
  /** The bytes do not match the content coding. */
  notDecompressed(): void
  /** After `write` returned false: there is room again. */
  decompressorDrained(): void
}

export type Decompressor = Transform

const CODINGS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** Undefined for `identity`, none, and codings that are not known: their bytes are given as they are. */
export function decompressorOf(coding: string, owner: DecompressorOwner): Decompressor | undefined {
  const stream = CODINGS[coding]?.()
  stream?.on('data', (bytes: Uint8Array) => owner.decompressed(bytes))
  stream?.on('end', () => owner.decompressedAll())
  stream?.on('error', () => owner.notDecompressed())
  stream?.on('drain', () => owner.decompressorDrained())
  return stream
}
