import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import { chatAnswer } from '../../src/dialects/chat/answer.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { bytesOf } from '../support/bytes.ts'
import { decode, encode, fold } from '../support/decode.ts'
import { Encoding } from '../support/encoding.ts'
import { fixtures } from '../support/fixtures.ts'
import { property, Random } from '../support/random.ts'
import { chatProviderBytes, cuts, randomEvents } from '../support/streams.ts'
import { checkChatStream } from './chat-grammar.ts'

const served = { model: 'acme-large', createdAt: 1763650000 }
const encoding = (includeUsage = true) => new Encoding(() => new ChatEncoder(served, includeUsage, 'chatcmpl-9f2c'))

function stream(events: readonly StreamEvent[], includeUsage: boolean): string {
  return encoding(includeUsage).addAll(events)
}

/** The caller's final marker; a model may write `[DONE]` within a text. */
const endsWhole = (text: string) => text.endsWith('\n\ndata: [DONE]\n\n')

/** Random ids of calls without one differ from run to run. */
const withoutMinted = (text: string) => text.replace(/call_[\w-]{24}/g, 'call_minted')

describe('law 1, splice: the bytes are the same with the learnt path and without it', () => {
  property('random streams, random cuts', 300, (random) => {
    const bytes = chatProviderBytes(random, randomEvents(random))
    const slow = encode(openai, encoding(), [bytes], 'decoded')
    for (const { name, chunks } of cuts(bytes, random, 0)) {
      const fast = encode(openai, encoding(), chunks, 'spliced')
      expect([name, withoutMinted(fast.text), fast.error?.kind]).toEqual([
        name,
        withoutMinted(slow.text),
        slow.error?.kind,
      ])
    }
  })

  for (const { file, bytes } of fixtures('openai/')) {
    test(file, () => {
      const slow = encode(openai, encoding(), [bytes], 'decoded')
      const fast = encode(openai, encoding(), [bytes], 'spliced')
      expect(withoutMinted(fast.text)).toBe(withoutMinted(slow.text))
      expect(fast.error?.message).toBe(slow.error?.message)
    })
  }

  test('a text that stands twice in its frame, or as a name, is not copied from the wrong place', () => {
    const frame = (content: string, more: string) =>
      `data: {"x":${JSON.stringify(more)},"choices":[{"index":0,"delta":{"content":${JSON.stringify(content)}}}]}\n\n`
    const bytes = bytesOf(
      `${frame('a', 'a')}${frame('b', 'a')}${frame('index', 'q')}${frame('c', 'index')}` +
        `${frame('d', 'q')}${frame('e', 'q')}` +
        'data: {"x":1,"choices":[{"index":0,"delta":{"content":"\\u0078"}}]}\n\n' +
        'data: {"x":1,"choices":[{"index":0,"delta":{"content":"y"}}]}\n\ndata: [DONE]\n\n',
    )
    expect(fold(decode(openai, [bytes]).events).text).toBe('abindexcdexy')
  })
})

describe('law 2, chunking: what comes out does not depend on the cuts', () => {
  property('random streams', 150, (random) => {
    const bytes = chatProviderBytes(random, randomEvents(random))
    const whole = encode(openai, encoding(), [bytes])
    for (const { name, chunks } of cuts(bytes, random, 600)) {
      const cut = encode(openai, encoding(), chunks)
      expect([name, withoutMinted(cut.text)]).toEqual([name, withoutMinted(whole.text)])
    }
  })
})

describe('law 3, fold: what a reader gathers from the stream is our whole answer to the same events', () => {
  property('random events', 500, (random) => {
    const events = randomEvents(random)
    const { choices, usage } = JSON.parse(JSON.stringify(chatAnswer(fold(events), served)))
    const reading = checkChatStream(stream(events, true), { includeUsage: true })
    const { message, finish_reason: finishReason } = choices[0]
    expect(reading.text).toBe(message.content ?? '')
    expect(reading.refusal).toBe(message.refusal ?? '')
    const called = (message.tool_calls ?? []).map((call: { id: string; function: object }) => ({
      id: call.id,
      ...call.function,
    }))
    expect(reading.toolCalls).toEqual(called)
    expect(reading.finishReason).toBe(finishReason)
    expect(JSON.stringify(reading.usage)).toBe(JSON.stringify(usage))
  })
})

describe('law 4, order: the grammar of the dialect accepts every stream', () => {
  property('random events', 500, (random) => {
    const includeUsage = random.chance(0.5)
    checkChatStream(stream(randomEvents(random), includeUsage), { includeUsage })
  })

  property('random bytes of a provider', 300, (random) => {
    const { text, error } = encode(openai, encoding(false), [chatProviderBytes(random, randomEvents(random))])
    if (error === undefined) checkChatStream(text, { includeUsage: false })
  })

  for (const fixture of fixtures('openai/')) {
    if (!fixture.expect.terminal) continue
    test(fixture.file, () => {
      const { text } = encode(openai, encoding(true), [fixture.bytes])
      checkChatStream(text, { includeUsage: true })
    })
  }
})

describe('law 5, cut: without the final marker nothing that ends a stream is written', () => {
  const marker = (bytes: Uint8Array) => {
    const { events } = decode(openai, [bytes])
    return events.at(-1)?.type === 'end'
  }

  for (const fixture of fixtures('openai/')) {
    if (fixture.bytes.length > 3000) continue
    test(`every beginning of ${fixture.file}`, () => {
      for (let end = 0; end <= fixture.bytes.length; end++) {
        const part = fixture.bytes.subarray(0, end)
        const { text, error } = encode(openai, encoding(), [part])
        expect(endsWhole(text)).toBe(marker(part))
        expect(error === undefined).toBe(marker(part))
        // Only a whole finish reason or the provider's own marker make an answer whole.
        if (error === undefined) expect(/"finish_reason": ?"|\[DONE\]/.test(new TextDecoder().decode(part))).toBe(true)
      }
    })
  }

  property('every beginning of random streams', 30, (random) => {
    const bytes = chatProviderBytes(random, randomEvents(random))
    const at = new Random(random.seed).between(0, bytes.length)
    const { text, error } = encode(openai, encoding(), [bytes.subarray(0, at)])
    expect(endsWhole(text)).toBe(error === undefined)
  })
})
