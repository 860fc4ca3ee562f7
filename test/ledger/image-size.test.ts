/** Image sizes from header bytes, whole, truncated and wrong, and the tokens that follow from them. */

import { describe, expect, test } from 'bun:test'
import { imageSize, imageTokens, REMOTE_IMAGE_TOKENS } from '../../src/ledger/image-size.ts'
import { gifBase64, jpegBase64, pngBase64, webpBase64 } from './pictures.ts'

describe('imageSize', () => {
  const table: readonly [string, string, number, number][] = [
    ['PNG', pngBase64(640, 480), 640, 480],
    ['GIF', gifBase64(640, 480), 640, 480],
    ['JPEG', jpegBase64(640, 480), 640, 480],
    ['JPEG with a thumbnail before the frame', jpegBase64(640, 480, 70_000), 640, 480],
    ['WebP, lossy', webpBase64('VP8 ', 640, 480), 640, 480],
    ['WebP, lossless', webpBase64('VP8L', 16_384, 480), 16_384, 480],
    ['WebP, extended', webpBase64('VP8X', 640, 480), 640, 480],
  ]
  for (const [name, base64, width, height] of table) {
    test(name, () => expect(imageSize(base64)).toEqual({ width, height }))
    test(`${name}, cut at every byte`, () => {
      const bytes = Buffer.from(base64, 'base64')
      for (let length = 0; length < Math.min(bytes.length, 64); length++) {
        const size = imageSize(bytes.subarray(0, length).toString('base64'))
        if (size !== undefined) expect(size).toEqual({ width, height })
      }
    })
  }

  test('data that is not an image has no size', () => {
    for (const base64 of [
      '',
      'AAAA',
      'not base64 at all!',
      pngBase64(0, 10),
      Buffer.alloc(100, 0xff).toString('base64'),
    ]) {
      expect(imageSize(base64)).toBeUndefined()
    }
  })
})

describe('imageTokens', () => {
  const table: readonly [number, number, number][] = [
    [1, 1, 255],
    [512, 512, 350],
    [1024, 1024, 1399],
    [4096, 8192, 1600],
    [300, 6000, 1600],
  ]
  for (const [width, height, tokens] of table) {
    test(`${width} × ${height}`, () => expect(imageTokens(pngBase64(width, height), 'auto')).toBe(tokens))
  }

  test('low detail has its fixed price, an unreadable picture that of a large one', () => {
    expect(imageTokens(pngBase64(4096, 4096), 'low')).toBe(85)
    expect(imageTokens('AAAA', undefined)).toBe(REMOTE_IMAGE_TOKENS)
  })
})
