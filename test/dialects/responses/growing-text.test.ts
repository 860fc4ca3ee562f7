/** The text that an encoder keeps for its closing events. */

import { expect } from 'bun:test'
import { GrowingText } from '../../../src/dialects/responses/growing-text.ts'
import { property } from '../../support/random.ts'

property('a growing text is the sum of its pieces', 200, (random) => {
  const alphabet = random.pick(['ab', 'aé', 'a汉', '汉字', '😀a'])
  const letters = [...alphabet]
  const longest = random.pick([3, 40, 2000])
  const pieces = random.list(60, () => {
    return Array.from({ length: random.below(longest) }, () => letters[random.below(letters.length)]).join('')
  })
  const text = new GrowingText()
  for (const piece of pieces) text.add(piece)
  expect(text.whole()).toBe(pieces.join(''))
})
