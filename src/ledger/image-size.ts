/** The tokens of an inline picture: its size in pixels, read from its first bytes, in the vendors' formulas. */

import type { ImageDetail } from '../core/conversation.ts'

/**
 * Enough for every header, and for JPEGs with some EXIF before their frame header. Base64 characters, a multiple of 4.
 */
const HEADER_CHARACTERS = 4096
/** How far a JPEG is read whose frame header follows a large EXIF block (a thumbnail, a colour profile). */
const JPEG_CHARACTERS = 131_072

/** The maximum of Claude models; for a picture that only the provider sees, or whose header cannot be read. */
export const REMOTE_IMAGE_TOKENS = 1600
/** OpenAI's fixed price of `detail: low`. */
const LOW_DETAIL_TOKENS = 85

interface ImageSize {
  readonly width: number
  readonly height: number
}

/**
 * Tokens of an inline picture: the greater of OpenAI's tiles (scaled into 2048 × 2048, then to 768 on the short side,
 * 85 + 170 for each tile of 512) and Anthropic's pixels / 750, at most 1,600. An unreadable one counts as a large one.
 */
export function imageTokens(base64: string, detail: ImageDetail | undefined): number {
  if (detail === 'low') return LOW_DETAIL_TOKENS
  const size = imageSize(base64)
  if (size === undefined) return REMOTE_IMAGE_TOKENS
  const pixels = Math.ceil((size.width * size.height) / 750)
  const own = detail === 'original' ? patches(size) : 0
  return Math.max(tiles(size), Math.min(pixels, REMOTE_IMAGE_TOKENS), own)
}

/** OpenAI's count of `detail: original`: patches of 32 × 32 pixels, at most 10,000. */
function patches({ width, height }: ImageSize): number {
  return Math.min(Math.ceil(width / 32) * Math.ceil(height / 32), 10_000)
}

function tiles({ width, height }: ImageSize): number {
  const fit = Math.min(1, 2048 / Math.max(width, height))
  const short = Math.min(1, 768 / (Math.min(width, height) * fit))
  const scale = fit * short
  return 85 + 170 * Math.ceil((width * scale) / 512) * Math.ceil((height * scale) / 512)
}

/** Width and height of a PNG, JPEG, GIF or WebP; undefined if the bytes do not contain them. */
export function imageSize(base64: string): ImageSize | undefined {
  const head = Buffer.from(base64.slice(0, HEADER_CHARACTERS), 'base64')
  const size = readSize(head)
  if (size !== undefined || !isJpeg(head) || base64.length <= HEADER_CHARACTERS) return size
  return readSize(Buffer.from(base64.slice(0, JPEG_CHARACTERS), 'base64'))
}

function readSize(bytes: Buffer): ImageSize | undefined {
  const size = png(bytes) ?? gif(bytes) ?? webp(bytes) ?? jpeg(bytes)
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined
}

function png(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 24 || bytes.toString('latin1', 1, 4) !== 'PNG') return undefined
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
}

function gif(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'GIF') return undefined
  return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
}

/** The three kinds of WebP: lossy, lossless (14 bits each, minus 1) and extended (24 bits each, minus 1). */
function webp(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 30 || bytes.toString('latin1', 8, 12) !== 'WEBP') return undefined
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return undefined
  }
}

function isJpeg(bytes: Buffer): boolean {
  return bytes.length >= 2 && bytes[0] === 0xff && bytes[1] === 0xd8
}

/** Skips segments up to the frame header: markers C0 to CF except C4, C8 and CC. */
function jpeg(bytes: Buffer): ImageSize | undefined {
  if (!isJpeg(bytes)) return undefined
  let at = 2
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0
    if (marker === 0xff) {
      at += 1
      continue
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }
    at += 2 + bytes.readUInt16BE(at + 2)
  }
  return undefined
}
