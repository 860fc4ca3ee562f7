/** Canonical events → the Chat Completions stream. What does not change from chunk to chunk is serialised once. */

import type { ContentEvent, FinishReason, ThoughtEvent } from '../../core/event.ts'
import type { JsonObject, JsonValue } from '../../core/json.ts'
import { PART_SEAM } from '../../core/reasoning.ts'
import { BASE_TIER, openaiTier } from '../../core/service-tier.ts'
import type { Usage } from '../../core/token-usage.ts'
import { joined, jsonInside, jsonLine, KEEP_ALIVE_COMMENT, textEvents } from '../../wire/sse.ts'
import type { TextForm } from '../../wire/text-copier.ts'
import { mintId } from '../answer-ids.ts'
import type { Served, StreamEncoder } from '../dialect.ts'
import { FreeText } from '../free-text.ts'
import { CHAT_FINISHES } from './answer.ts'
import { chatUsageJson } from './usage.ts'

/** A chunk after its delta, except for the last one. With `include_usage` every chunk but the last has `usage`. */
const CLOSING = ',"logprobs":null,"finish_reason":null}]}\n\n'
const CLOSING_WITH_USAGE = ',"logprobs":null,"finish_reason":null}],"usage":null}\n\n'
/** A chunk between what is the same in all of them and its delta. */
const CHOICE = ',"choices":[{"index":0,"delta":'
const THOUGHT_OPENING = `${CHOICE}{"reasoning_content":"`

/**
 * Writes the role chunk, content, tool calls, finish, usage (if asked for) and `[DONE]`. The role chunk waits for the
 * first content, because its `content` is `""` before text and `null` before a tool call or a refusal.
 */
export class ChatEncoder implements StreamEncoder {
  readonly keepAlive = KEEP_ALIVE_COMMENT
  /** A chunk up to its choices. */
  private readonly head: string
  /** A chunk after its delta, except for the last one. */
  private readonly closing: string
  private readonly textOpening: string
  private readonly textClosing: string
  /** The characters between two texts. */
  private readonly textSeam: string
  private begun = false
  /** By the indexes of their calls; absent if there are none. */
  private freeCalls: Map<number, FreeText> | undefined

  constructor(
    served: Served,
    private readonly includeUsage: boolean,
    id: string = mintId('chatcmpl'),
    private readonly showsThoughts: boolean = false,
    /** The tools that take a text. */
    private readonly free: ReadonlySet<string> = NONE,
  ) {
    const created = `","object":"chat.completion.chunk","created":${served.createdAt},"model":`
    this.head = joined('data: {"id":"', id, created, jsonLine(served.model))
    this.closing = includeUsage ? CLOSING_WITH_USAGE : CLOSING
    this.textOpening = joined(this.head, CHOICE, '{"content":"')
    this.textClosing = includeUsage ? `"}${CLOSING_WITH_USAGE}` : `"}${CLOSING}`
    this.textSeam = this.textClosing + this.textOpening
  }

  encodeTexts(insides: readonly string[]): string {
    return textEvents(this.begin('') + this.textOpening, insides, this.textSeam, this.textClosing)
  }

  textForm(): TextForm | undefined {
    return this.begun ? { opening: this.textOpening, seam: this.textSeam, closing: this.textClosing } : undefined
  }

  start(): string {
    return ''
  }

  encode(event: ContentEvent): string {
    switch (event.type) {
      case 'text':
        return event.logprobs === undefined
          ? this.encodeTexts([jsonInside(event.text)])
          : this.textWithLogprobs(event.text, event.logprobs)
      case 'refusal':
        return this.begin(null) + this.chunk({ refusal: event.text })
      case 'tool-start': {
        const { index, callId: id, name } = event
        const isFree = this.free.has(name)
        if (isFree) {
          this.freeCalls ??= new Map()
          this.freeCalls.set(index, new FreeText())
        }
        const call = isFree
          ? { index, id, type: 'custom', custom: { name, input: '' } }
          : { index, id, type: 'function', function: { name, arguments: '' } }
        return this.begin(null) + this.chunk({ tool_calls: [call] })
      }
      case 'tool-delta': {
        const { index, json, isLast = false } = event
        const free = this.freeCalls?.get(index)
        if (free === undefined) return this.chunk({ tool_calls: [{ index, function: { arguments: json } }] })
        const inside = free.add(json, isLast)
        return inside === ''
          ? ''
          : this.chunk({ tool_calls: [{ index, custom: { input: JSON.parse(`"${inside}"`) } }] })
      }
    }
  }

  encodeThought(event: ThoughtEvent): string {
    if (!this.showsThoughts || event.type !== 'reasoning' || event.text === '') return ''
    return this.encodeThoughts([jsonInside(event.isNewPart === true ? PART_SEAM + event.text : event.text)])
  }

  encodeThoughts(insides: readonly string[]): string {
    if (!this.showsThoughts) return ''
    const opening = this.head + THOUGHT_OPENING
    return textEvents(this.begin(null) + opening, insides, this.textClosing + opening, this.textClosing)
  }

  thoughtForm(): TextForm | undefined {
    if (!this.begun || !this.showsThoughts) return undefined
    const opening = this.head + THOUGHT_OPENING
    return { opening, seam: this.textClosing + opening, closing: this.textClosing }
  }

  end(reason: FinishReason, usage: Usage): string {
    const noUsage = this.includeUsage ? ',"usage":null' : ''
    const tier = tierMember(usage)
    const end = `{},"logprobs":null,"finish_reason":"${CHAT_FINISHES[reason]}"}]${noUsage}${tier}}\n\n`
    const finish = this.head + CHOICE + end
    return `${this.begin('')}${finish}${this.includeUsage ? this.usageChunk(usage) : ''}data: [DONE]\n\n`
  }

  /** The role chunk before the first content; '' afterwards. */
  private begin(content: '' | null): string {
    if (this.begun) return ''
    this.begun = true
    const delta = `{"role":"assistant","content":${content === null ? 'null' : '""'},"refusal":null}`
    return this.head + CHOICE + delta + this.closing
  }

  private chunk(delta: JsonObject): string {
    return this.head + CHOICE + jsonLine(delta) + this.closing
  }

  private textWithLogprobs(text: string, logprobs: JsonValue): string {
    const usage = this.includeUsage ? ',"usage":null' : ''
    const rest = `"logprobs":${jsonLine(logprobs)},"finish_reason":null}]${usage}}\n\n`
    return `${this.begin('')}${this.head}${CHOICE}${jsonLine({ content: text })},${rest}`
  }

  private usageChunk(usage: Usage): string {
    return `${this.head},"choices":[],"usage":${chatUsageJson(usage)}${tierMember(usage)}}\n\n`
  }
}

const NONE: ReadonlySet<string> = new Set()

/** The tier that served the answer; '' if the provider names none. */
function tierMember({ serviceTier }: Usage): string {
  if (serviceTier === undefined) return ''
  const tier = openaiTier(serviceTier)
  return tier === BASE_TIER ? ',"service_tier":"default"' : `,"service_tier":${jsonLine(tier)}`
}
