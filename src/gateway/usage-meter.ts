/** What one provider's answer has taken so far: its own figures where it gave them, else our count of what came. */

import type { FinishReason, StreamEvent } from '../core/event.ts'
import { ProviderError } from '../core/provider-error.ts'
import { isAbsurd, mergeUsage, type Usage } from '../core/token-usage.ts'
import { OutputCount } from '../ledger/estimate.ts'

/** Usage without gaps. */
export interface Counted {
  readonly usage: Usage & { readonly input: number; readonly output: number }
  /** True where a figure is ours. */
  readonly estimated: boolean
}

/** An event holds a token or more, so a provider that keeps to the limit it was given never sends so many times as many. */
const LIMITS_MAX = 2
/** Our own count may be more than twice a tokenizer's: it takes the alphabet for nine tokens, which some know as one. */
const COUNTED_LIMITS_MAX = 4
/** Below it a limit means little: providers have least answers of their own. */
const LIMIT_TOKENS_MIN = 16

export class UsageMeter {
  private reported: Usage = {}
  private readonly output = new OutputCount()
  /** What the model thought. Apart, because some servers do not hold it to the output limit, which `checkEnd` judges by. */
  private readonly thought = new OutputCount()
  /** Events that said something. */
  private events = 0
  private readonly eventsMax: number
  private readonly tokensMax: number
  /** Why the model stopped, once it said so. */
  reason: FinishReason | undefined

  /** `inputTokens` is our estimate of the request, `maxOutputTokens` what the provider may write, where that is limited. */
  constructor(
    private readonly inputTokens: number,
    maxOutputTokens = Number.POSITIVE_INFINITY,
  ) {
    const limit = Math.max(maxOutputTokens, LIMIT_TOKENS_MIN)
    this.eventsMax = LIMITS_MAX * limit
    this.tokensMax = COUNTED_LIMITS_MAX * limit
  }

  /** Throws a `ProviderError` where the answer has no end: see `checkEnd`. */
  add(event: StreamEvent): void {
    switch (event.type) {
      case 'text':
      case 'refusal':
        this.output.addText(event.text)
        return this.checkEnd(1)
      case 'reasoning':
        this.thought.addText(event.text)
        return
      case 'tool-start':
        this.output.addName(event.name)
        return this.checkEnd(1)
      case 'tool-delta':
        this.output.addArguments(event.index, event.json)
        return this.checkEnd(1)
      case 'usage':
        this.reported = mergeUsage(this.reported, event.usage)
        return
      case 'finish':
        this.reason = event.reason
        return
      default:
        return
    }
  }

  /** Texts that were copied, as the insides of JSON strings. Throws as `add` does. */
  addInsides(insides: readonly string[]): void {
    this.output.addInsides(insides)
    this.checkEnd(insides.length)
  }

  /**
   * A stream is cut once it is twice as long as its limit in events, and four times by our own count: a server may send each letter by
   * itself, and our count may be wrong.
   */
  private checkEnd(events: number): void {
    this.events += events
    if (this.events > this.eventsMax && this.output.tokens > this.tokensMax)
      throw new ProviderError('broken', 'the answer goes on far beyond its output limit')
  }

  /** Output tokens so far, by our own count: what the model said and what it thought. */
  get written(): number {
    return this.output.tokens + this.thought.tokens
  }

  /**
   * The use so far. A provider's figure for the output counts only once the answer is whole: before, it is what it had written when it
   * last reported, and what we received since may be more.
   */
  count(whole: boolean): Counted {
    const counted = this.written
    const input = believed(this.reported.input, this.inputTokens)
    const output = believed(this.reported.output, counted)
    const written = output === undefined ? counted : whole ? output : Math.max(output, counted)
    const read = input ?? this.inputTokens
    const { cachedInput, cacheWrite5m, cacheWrite1h, reasoning } = this.reported
    return {
      usage: {
        input: read,
        cachedInput: atMost(read, cachedInput),
        cacheWrite5m: atMost(read, cacheWrite5m),
        cacheWrite1h: atMost(read, cacheWrite1h),
        output: written,
        reasoning: atMost(written, reasoning),
      },
      estimated: input === undefined || written !== output,
    }
  }

  /** The use of a stream that goes on: see `count`. */
  get soFar(): Usage {
    return this.count(false).usage
  }

  /** True where the provider reported what no model can have used: a mistake that its operator should hear of. */
  get disbelieved(): boolean {
    const { input, output } = this.reported
    return isAbsurd(input, this.inputTokens) || isAbsurd(output, this.written)
  }
}

/** A part is no larger than the whole that it is of. */
function atMost(whole: number, part: number | undefined): number | undefined {
  return part === undefined ? undefined : Math.min(part, whole)
}

/** A provider's figure, unless it cannot be: 0 where there was something, or absurdly much. Then it counts as not reported. */
function believed(reported: number | undefined, counted: number): number | undefined {
  if (reported === undefined || (reported === 0 && counted > 0)) return undefined
  return isAbsurd(reported, counted) ? undefined : reported
}
