/** Bytes in pieces: what is read of them, whole and in parts, is what was added. */

import { describe, expect, test } from 'bun:test'
import { BytePieces } from '../../src/core/byte-pieces.ts'
import { property } from '../support/random.ts'

const textOf = (pieces: BytePieces) => Buffer.concat([...pieces]).toString('latin1')

describe('pieces', () => {
  property('are the parts of their buffers, in order', 500, (random) => {
    const buffers = random.list(4, () =>
      Buffer.from(Array.from({ length: 1 + random.below(300) }, () => random.below(256))),
    )
    const pieces = new BytePieces()
    let text = ''
    for (let count = random.below(12); count > 0; count--) {
      const buffer = buffers[random.below(4)] ?? Buffer.from('none of them')
      const from = random.below(buffer.length)
      const to = from + random.below(buffer.length - from + 1)
      pieces.add(buffer, from, to)
      text += buffer.toString('latin1', from, to)
    }
    expect(pieces.byteLength).toBe(text.length)
    expect(textOf(pieces)).toBe(text)
    const twice = BytePieces.of([Buffer.from('head')])
    twice.addAll(pieces)
    expect(textOf(twice)).toBe(`head${text}`)
    expect(twice.joined().toString('latin1')).toBe(`head${text}`)
    // By parts, as they are sent.
    const target = Buffer.alloc(text.length)
    let at = 0
    for (let piece = 0; piece < pieces.count; piece++) {
      const half = random.below(pieces.sizeOf(piece) + 1)
      pieces.copyTo(target, at, piece, 0, half)
      target.set(pieces.view(piece, half), at + half)
      at += pieces.sizeOf(piece)
    }
    expect(target.toString('latin1')).toBe(text)
  })

  test('are not copied', () => {
    const buffer = Buffer.alloc(10_000)
    const pieces = BytePieces.of([buffer.subarray(5, 9)])
    buffer.fill('a')
    expect(textOf(pieces)).toBe('aaaa')
  })

  test('without bytes are left out', () => {
    const pieces = BytePieces.of([new Uint8Array(0)])
    pieces.add(Buffer.from('ab'), 1, 1)
    expect([pieces.count, pieces.byteLength, pieces.sizeOf(0)]).toEqual([0, 0, 0])
  })
})
