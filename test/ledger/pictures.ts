/** The first bytes of images, built by hand from each format's layout. */

export function pngBase64(width: number, height: number): string {
  const bytes = Buffer.alloc(33)
  bytes.write('\x89PNG\r\n\x1a\n', 0, 'latin1')
  bytes.writeUInt32BE(13, 8)
  bytes.write('IHDR', 12, 'latin1')
  bytes.writeUInt32BE(width, 16)
  bytes.writeUInt32BE(height, 20)
  return bytes.toString('base64')
}

export function gifBase64(width: number, height: number): string {
  const bytes = Buffer.alloc(12)
  bytes.write('GIF89a', 0, 'latin1')
  bytes.writeUInt16LE(width, 6)
  bytes.writeUInt16LE(height, 8)
  return bytes.toString('base64')
}

/** Puts `exif` bytes of an application segment before the frame header. */
export function jpegBase64(width: number, height: number, exif = 0): string {
  const segments: Buffer[] = [Buffer.from([0xff, 0xd8])]
  for (let left = exif; left > 0; left -= 60_000) {
    const length = Math.min(left, 60_000) + 2
    segments.push(Buffer.from([0xff, 0xe1, length >> 8, length & 255]), Buffer.alloc(length - 2, 0x20))
  }
  const frame = Buffer.from([0xff, 0xff, 0xc2, 0, 17, 8, 0, 0, 0, 0, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
  frame.writeUInt16BE(height, 6)
  frame.writeUInt16BE(width, 8)
  segments.push(frame)
  return Buffer.concat(segments).toString('base64')
}

export function webpBase64(kind: 'VP8 ' | 'VP8L' | 'VP8X', width: number, height: number): string {
  const bytes = Buffer.alloc(40)
  bytes.write('RIFF', 0, 'latin1')
  bytes.write('WEBP', 8, 'latin1')
  bytes.write(kind, 12, 'latin1')
  if (kind === 'VP8 ') {
    bytes.writeUInt16LE(width, 26)
    bytes.writeUInt16LE(height, 28)
  } else if (kind === 'VP8L') {
    bytes.writeUInt32LE((width - 1) | ((height - 1) << 14), 21)
  } else {
    bytes.writeUIntLE(width - 1, 24, 3)
    bytes.writeUIntLE(height - 1, 27, 3)
  }
  return bytes.toString('base64')
}
