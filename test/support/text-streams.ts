/**
 * Streams of text as providers send them, with what differs from frame to frame in real ones: padding of random length,
 * usage in every frame, times, sequence numbers, escapes. And the same streams damaged.
 */

import { bytesOf } from './bytes.ts'
import type { Random } from './random.ts'

export const TEXT_PROVIDERS = ['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const
export type TextProvider = (typeof TEXT_PROVIDERS)[number]

const WORDS = [
  'The',
  ' weir',
  ' ',
  ',',
  ':',
  'a',
  'content',
  'stop',
  '\n',
  '"',
  '\\',
  '/',
  '<b>',
  'é',
  '日本語',
  '👩‍👧',
  '\u0085',
  '\u2028',
  '\ufeff',
  '\u0000',
  '\ud83d',
  'data: x\n\n',
  '"},"index":0',
] as const

/** How one server writes its frames. */
interface Style {
  readonly newline: string
  readonly spaced: boolean
  /** Characters that JSON does not require to escape, escaped all the same. */
  readonly escaped: RegExp | undefined
  readonly padding: boolean
  /** `beside`: as `counted`, with reasoning in the total only, as xAI counts. */
  readonly usage: 'none' | 'null' | 'constant' | 'counted' | 'beside' | 'late'
  /** Members that differ from frame to frame and that no decoder reads. */
  readonly extras: readonly ('time' | 'number' | 'fraction' | 'object' | 'list')[]
  /** Words without special characters only: the usual case. */
  readonly simple: boolean
  /** Thoughts between the texts. */
  readonly reasoning: boolean
  /** Thoughts before all text, in a block or an item of their own. */
  readonly thinks: boolean
}

function randomStyle(random: Random): Style {
  return {
    newline: random.pick(['\n', '\n', '\r\n', '\r']),
    spaced: random.chance(0.3),
    escaped: random.chance(0.2) ? random.pick([/[^\u0000-\u007e]/g, /[<>/]/g]) : undefined,
    padding: random.chance(0.5),
    usage: random.pick(['none', 'null', 'constant', 'counted', 'counted', 'beside', 'late']),
    extras: random.list(2, () => random.pick(['time', 'number', 'fraction', 'object', 'list'])),
    simple: random.chance(0.5),
    reasoning: random.chance(0.2),
    thinks: random.chance(0.4),
  }
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'
const letters = (random: Random, most: number) =>
  random.list(most, () => LETTERS.charAt(random.below(LETTERS.length))).join('')

/** Long enough that most of its texts are copied at once. */
const LONG_WORDS = 150

/** The bytes of one answer of text. */
export function textStream(provider: TextProvider, random: Random): Uint8Array {
  const style = randomStyle(random)
  const writer = new Writer(random, style, provider)
  writer.begin()
  if (style.thinks) writer.think(random.below(random.chance(0.2) ? LONG_WORDS : 24))
  writer.beginText()
  for (let words = random.below(random.chance(0.2) ? LONG_WORDS : 24); words > 0; words--) {
    if (style.reasoning && random.chance(0.3)) writer.text(writer.word(), true)
    writer.text(writer.word(), false)
    if (random.chance(0.03)) writer.interlude()
  }
  writer.end()
  return bytesOf(writer.out)
}

class Writer {
  out = ''
  private written = 0
  private frames = 0
  /** The number of the block of text. */
  private block = 0
  private isThinking = false

  constructor(
    private readonly random: Random,
    private readonly style: Style,
    private readonly provider: TextProvider,
  ) {}

  word(): string {
    const { random, style } = this
    if (style.simple && random.chance(0.95)) return random.pick(['The', ' weir', ' flows', ',', ' ', '.'])
    return random.list(3, () => random.pick(WORDS)).join('')
  }

  begin(): void {
    if (this.provider === 'anthropic') {
      this.frame('message_start', { message: { role: 'assistant', usage: { input_tokens: 9, output_tokens: 1 } } })
    }
    if (this.provider === 'openai-responses') this.frame('response.created', { response: { status: 'in_progress' } })
    if (this.provider === 'bedrock') this.frame('messageStart', { role: 'assistant' })
    if (this.provider === 'openai' && this.random.chance(0.7)) this.chunk({ role: 'assistant', content: '' }, null)
  }

  beginText(): void {
    if (this.provider === 'anthropic')
      this.frame('content_block_start', { index: this.block, content_block: { type: 'text', text: '' } })
    if (this.provider === 'openai-responses')
      this.frame('response.output_item.added', { item: { id: 'msg_1', type: 'message' }, output_index: 1 })
  }

  /** A whole thought of so many words, with what the provider wants back. */
  think(words: number): void {
    const { provider, random } = this
    this.isThinking = true
    if (provider === 'anthropic')
      this.frame('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } })
    if (provider === 'openai-responses')
      this.frame('response.output_item.added', {
        item: { id: 'rs_1', type: 'reasoning', summary: [] },
        output_index: 0,
      })
    for (let left = words; left > 0; left--) {
      this.text(this.word(), true)
      if (provider === 'openai-responses' && random.chance(0.05))
        this.frame('response.reasoning_summary_part.added', { summary_index: left, output_index: 0, item_id: 'rs_1' })
      if (random.chance(0.03)) this.interlude()
    }
    if (provider === 'anthropic') {
      this.frame('content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'c2lnbg==' } })
      this.frame('content_block_stop', { index: 0 })
    } else if (provider === 'openai-responses') {
      const item = { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: 'ZW5j' }
      this.frame('response.output_item.done', { item, output_index: 0 })
    } else if (provider === 'bedrock') {
      this.frame('contentBlockDelta', { contentBlockIndex: 0, delta: { reasoningContent: { signature: 'c2lnbg==' } } })
      this.frame('contentBlockStop', { contentBlockIndex: 0 })
    }
    this.isThinking = false
    this.block = 1
  }

  text(text: string, isThought: boolean): void {
    this.written += 1 + this.random.below(3)
    switch (this.provider) {
      case 'openai':
        return this.chunk(isThought ? { content: null, reasoning: text } : { content: text }, null)
      case 'anthropic': {
        const delta = isThought ? { type: 'thinking_delta', thinking: text } : { type: 'text_delta', text }
        return this.frame('content_block_delta', { index: isThought && !this.isThinking ? 1 : this.block, delta })
      }
      case 'openai-responses': {
        const place = { item_id: isThought ? 'rs_1' : 'msg_1', output_index: isThought ? 0 : 1 }
        if (isThought) {
          const event = `response.reasoning_${this.style.padding ? 'summary_' : ''}text.delta`
          return this.frame(event, { content_index: 0, delta: text, ...place, sequence_number: this.frames })
        }
        const delta = { content_index: 0, delta: text, logprobs: [], ...place, sequence_number: this.frames }
        const older = { sequence_number: this.frames, ...place, content_index: 0, delta: text, logprobs: [] }
        return this.frame('response.output_text.delta', this.style.spaced ? older : delta)
      }
      case 'gemini':
        return this.candidate({ parts: [isThought ? { text, thought: true } : { text }], role: 'model' }, {})
      case 'bedrock': {
        const delta = isThought ? { reasoningContent: { text } } : { text }
        return this.frame('contentBlockDelta', { contentBlockIndex: this.block, delta })
      }
    }
  }

  /** Something between two texts that is none. */
  interlude(): void {
    if (this.random.chance(0.5)) this.out += `: keep-alive${this.style.newline}${this.style.newline}`
    else if (this.provider === 'anthropic') this.frame('ping', {})
    else if (this.provider === 'openai') this.chunk({}, null)
  }

  end(): void {
    const { provider, written } = this
    if (provider === 'openai') {
      this.chunk({}, 'stop')
      if (this.random.chance(0.5)) this.frame('', { choices: [], usage: this.openaiUsage() })
      this.out += `data: [DONE]${this.style.newline}${this.style.newline}`
    } else if (provider === 'anthropic') {
      this.frame('content_block_stop', { index: this.block })
      this.frame('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: written } })
      this.frame('message_stop', {})
    } else if (provider === 'gemini') {
      this.candidate({ parts: [{ text: '.' }], role: 'model' }, { finishReason: 'STOP' })
    } else if (provider === 'openai-responses') {
      this.frame('response.output_text.done', { output_index: 1, text: 'again' })
      this.frame('response.output_item.done', { item: { id: 'msg_1', type: 'message' }, output_index: 1 })
      const usage = { input_tokens: 9, output_tokens: written, total_tokens: 9 + written }
      this.frame('response.completed', { response: { status: 'completed', output: [{ type: 'x' }], usage } })
    } else {
      this.frame('messageStop', { stopReason: 'end_turn' })
      this.frame('metadata', { usage: { inputTokens: 9, outputTokens: written } })
    }
  }

  private chunk(delta: object, finish: string | null): void {
    const usage = this.style.usage === 'none' ? {} : { usage: this.style.usage === 'null' ? null : this.openaiUsage() }
    const choice = { index: 0, delta, logprobs: null, finish_reason: finish }
    this.frame('', { id: 'chatcmpl-1', object: 'chat.completion.chunk', choices: [choice], ...usage })
  }

  private openaiUsage(): object {
    const { usage } = this.style
    const completion = usage === 'constant' ? 1 : this.written
    if (usage === 'late' && this.frames < 4) return { prompt_tokens: 9 }
    const details = { completion_tokens_details: { reasoning_tokens: this.frames } }
    const total = 9 + completion + (usage === 'beside' ? this.frames : 0)
    return { prompt_tokens: 9, completion_tokens: completion, total_tokens: total, ...details }
  }

  private candidate(content: object, more: object): void {
    const { usage } = this.style
    const output = usage === 'constant' ? 1 : this.written
    const counts =
      usage === 'late' && this.frames < 2
        ? { promptTokenCount: 9, totalTokenCount: 9 }
        : { promptTokenCount: 9, candidatesTokenCount: output, thoughtsTokenCount: 7, totalTokenCount: 16 + output }
    const metadata = usage === 'none' ? {} : { usageMetadata: usage === 'null' ? null : counts }
    this.frame('', { candidates: [{ content, ...more, index: 0 }], ...metadata, responseId: 'r1' })
  }

  private frame(event: string, members: object): void {
    const { provider, random, style } = this
    const named = event !== ''
    const type = named && (provider === 'anthropic' || provider === 'openai-responses') ? { type: event } : {}
    this.frames++
    const extras = Object.fromEntries(style.extras.map((extra) => [`x_${extra}`, this.extra(extra)]))
    const padding = style.padding ? { [provider.startsWith('openai') ? 'obfuscation' : 'p']: letters(random, 16) } : {}
    const value = { ...type, ...members, ...extras, ...padding }
    const json = style.spaced ? JSON.stringify(value, null, 1).replace(/\n */g, ' ') : JSON.stringify(value)
    const escaped = style.escaped === undefined ? json : json.replace(style.escaped, escapeUnit)
    this.out += `${named ? `event: ${event}${style.newline}` : ''}data: ${escaped}${style.newline}${style.newline}`
  }

  private extra(kind: Style['extras'][number]): unknown {
    const { random } = this
    switch (kind) {
      case 'time':
        return 1_763_650_000 + Math.floor(this.frames / 3)
      case 'number':
        return random.pick([0, 1, -1, 12, 4096, 1e21, 123_456_789_012])
      case 'fraction':
        return random.below(1000) / 100
      case 'object':
        return { a: random.below(3), b: random.pick(['x', 'y']), c: random.chance(0.1) ? null : true }
      case 'list':
        return random.list(2, () => random.below(9))
    }
  }
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

const MEANT = ['"', '\\', ':', ',', '}', ']', '\n', '\r', '0', '9', 'null', '"stop"', '1e9', '\u00e9'] as const

/** The bytes with up to four changes: bytes lost, replaced or repeated, and bytes that are not UTF-8. */
export function damaged(bytes: Uint8Array, random: Random): Uint8Array {
  let changed = Buffer.from(bytes)
  for (let changes = 1 + random.below(4); changes > 0 && changed.length > 0; changes--) {
    const at = random.below(changed.length)
    const length = random.pick([0, 1, 1, 2, 40])
    const inserted = [
      Buffer.alloc(0),
      Buffer.of(random.below(256)),
      Buffer.from(random.pick(MEANT)),
      Buffer.from(random.pick(['\xc2\x85', '\xe2\x80', '\xe2\x80\xa8', '\xf0\x9f', '\xed\xa0\xbd', '\xff']), 'latin1'),
      changed.subarray(random.below(changed.length)).subarray(0, 400),
    ]
    const piece = inserted[random.below(inserted.length)] ?? Buffer.alloc(0)
    changed = Buffer.concat([changed.subarray(0, at), piece, changed.subarray(at + length)])
  }
  return new Uint8Array(changed)
}
