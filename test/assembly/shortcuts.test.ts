/** `shortcuts: false`: nothing takes a fast path, and the results are the same. */

import { describe, expect, test } from 'bun:test'
import { withoutShortcuts } from '../../src/assembly/edge-parts.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { DecodeStream } from '../../src/gateway/decode-stream.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import type { TextKind } from '../../src/wire/template.ts'
import { property } from '../support/random.ts'
import { textStream } from '../support/text-streams.ts'

/** The text of a stream, and how much of it was copied instead of decoded. */
function read(provider: Provider, bytes: Uint8Array) {
  const result = { text: '', end: '', copied: 0 }
  const event = (each: StreamEvent) => {
    if (each.type === 'text') result.text += each.text
    else result.end += ` ${each.type}`
  }
  const texts = (insides: readonly string[], joined: string, kind: TextKind) => {
    if (kind === 'text') result.text += JSON.parse(`"${joined}"`)
    result.copied += insides.length
  }
  const stream = new DecodeStream(provider, { event, texts })
  stream.push(bytes)
  if (!stream.ended) stream.close()
  return result
}

describe.each([
  ['openai', openai],
  ['anthropic', anthropic],
  ['gemini', gemini],
] as const)('%s', (name, provider) => {
  const full = withoutShortcuts(provider)
  let copied = 0

  property('streams are decoded in full', 50, (random) => {
    const bytes = textStream(name, random)
    const fast = read(provider, bytes)
    const slow = read(full, bytes)
    copied += fast.copied
    expect([slow.text, slow.copied]).toEqual([fast.text, 0])
  })

  test('and so are whole answers', () => {
    expect(copied).toBeGreaterThan(20)
    expect(full.plain).toBeUndefined()
  })
})
