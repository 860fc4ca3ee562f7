/** What one provider's answer has used so far: the provider's own figures if it reported them, else our count. */

import type { PlainAnswer } from '../core/completion.ts'
import type { FinishReason, OwnEvent, OwnStop, StreamEvent } from '../core/event.ts'
import { isObject, type JsonObject, objectOf } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import { believed, isAbsurd, mergeUsage, needsCount, outputOf, tokenCount, type Usage } from '../core/token-usage.ts'
import { OutputCount } from '../ledger/estimate.ts'
import { TOKENS_A_CHARACTER_MAX } from '../ledger/token-weights.ts'
import { decodedInside } from '../wire/sse.ts'
import type { ToolCalls } from './own-prices.ts'

/** Usage without gaps. */
export interface Counted {
  readonly usage: Usage & { readonly input: number; readonly output: number }
  /** True if a figure is ours. */
  readonly estimated: boolean
}

/** An event holds at least one token, so a provider that keeps to its limit never sends twice as many events. */
const LIMITS_MAX = 2
/**
 * Our own count may be more than twice a tokenizer's: it counts the alphabet as nine tokens, which some know as one.
 */
const COUNTED_LIMITS_MAX = 4
/** Lower limits mean little: some providers have a minimum length of their own. */
const LIMIT_TOKENS_MIN = 16

/**
 * The beginning of an answer is counted only once its count is needed. Most short answers end with the provider's own
 * figure, so that their text never is, which takes a fortieth of the time of a burst. Few pieces are kept, because each
 * may keep the chunk that it was cut from in memory.
 */
const UNCOUNTED_PIECES_MAX = 8
/** Far fewer than the text counter reads whole. */
const UNCOUNTED_CHARS_MAX = 1024

/** What does not stand for itself inside a JSON string. */
const HAS_ESCAPED = /["\\\x00-\x1f]/

const UNREPORTED: Usage = {}
/** Never written to. */
const NO_OWN_USAGE: JsonObject = {}

/** A smaller share of reported thoughts that we did not count may be our error. */
const HIDDEN_SHARE_MIN = 0.25

/** More kinds of tools than any provider has. */
const KINDS_MAX = 32
/** The end of a member of the usage that counts a tool. */
const REQUESTS = '_requests'

/** The kind of the tool that a block calls; undefined if it calls none that the provider runs. */
function calledTool({ type, name }: JsonObject): string | undefined {
  if (type === 'mcp_tool_use') return 'mcp'
  if (type === 'server_tool_use')
    return typeof name === 'string' ? name.replace(/^\w+_code_execution$/, 'code_execution') : undefined
  return typeof type === 'string' && type.endsWith('_call') ? type.slice(0, -'_call'.length) : undefined
}

/** A search of the web that opens a page it has found, or looks for words on it: only searches have a price. */
function isFreeCall({ type, action }: JsonObject): boolean {
  const what = objectOf(action)?.['type']
  return type === 'web_search_call' && (what === 'open_page' || what === 'find_in_page')
}

function monotonicMs(): number {
  return performance.now()
}

export class UsageMeter {
  private reported = UNREPORTED
  /** Made when something is counted, which most whole answers never need. */
  private output: OutputCount | undefined
  /** Text that is still to be counted: the beginning of a stream, or all of a whole answer. */
  private uncounted = ''
  private uncountedPieces = 0
  /** From here on it is the inside of a JSON string, whose escapes are decoded only if it is counted. */
  private insideFrom = Number.POSITIVE_INFINITY
  /**
   * What the model thought, from its first thought on: a second counter is 6 objects, which most answers never need. It
   * is counted apart because some servers do not hold thoughts to the output limit, which `checkEnd` compares with.
   */
  private thought: OutputCount | undefined
  /** The usage if the answer is complete, which the caller and the ledger get one after the other. */
  private whole: Counted | undefined
  /** Events with content. */
  private events = 0
  /** As many as when the provider last reported its usage. */
  private eventsReported = 0
  private readonly eventsMax: number
  private readonly tokensMax: number
  /** Why the model stopped; undefined until it did. */
  reason: FinishReason | undefined
  /** The provider's own words for it, if they say more. */
  own: OwnStop | undefined
  /** Members of the usage that only the provider's own API has. */
  ownUsage: JsonObject = NO_OWN_USAGE
  private seenCalls: Map<string, number> | undefined
  private readonly startedMs: number
  /** When the first content came. */
  private contentMs: number | undefined

  /**
   * Made as the request is sent. `inputTokens` is our estimate of the request, `maxOutputTokens` the limit that the
   * provider was sent, if any; `now` is monotonic.
   */
  constructor(
    private readonly inputTokens: number,
    maxOutputTokens = Number.POSITIVE_INFINITY,
    private readonly now: () => number = monotonicMs,
  ) {
    this.startedMs = now()
    const limit = Math.max(maxOutputTokens, LIMIT_TOKENS_MIN)
    this.eventsMax = LIMITS_MAX * limit
    this.tokensMax = COUNTED_LIMITS_MAX * limit
  }

  /** A block of a tool that the provider runs, or the usage that counts them. */
  private noteOwn({ part, value }: OwnEvent): void {
    if (part === 'block' || (part === 'stop' && isFreeCall(value))) {
      const kind = calledTool(value)
      if (kind === undefined || (this.seenCalls?.size ?? 0) >= KINDS_MAX) return
      this.seenCalls ??= new Map()
      this.seenCalls.set(kind, (this.seenCalls.get(kind) ?? 0) + (part === 'block' ? 1 : -1))
    } else if (isObject(value['usage'])) this.ownUsage = { ...this.ownUsage, ...value['usage'] }
  }

  /** How often the provider has run its own tools: as it reports, or as their blocks came. */
  get toolCalls(): ToolCalls | undefined {
    if (this.ownUsage === NO_OWN_USAGE) return this.seenCalls
    const reported = objectOf(this.ownUsage['server_tool_use'])
    if (reported === undefined) return this.seenCalls
    const calls = new Map(this.seenCalls)
    for (const [name, count] of Object.entries(reported)) {
      const believed = tokenCount(count)
      if (name.endsWith(REQUESTS) && believed !== undefined) calls.set(name.slice(0, -REQUESTS.length), believed)
    }
    return calls
  }

  /** Throws `ProviderError` for an answer without end: see `checkEnd`. */
  add(event: StreamEvent): void {
    this.whole = undefined
    switch (event.type) {
      case 'text':
      case 'refusal':
        this.addText(event.text)
        return this.checkEnd(1)
      case 'reasoning':
        return this.addThought(event.text)
      case 'tool-start':
        this.counter.addName(event.name)
        return this.checkEnd(1)
      case 'tool-delta':
        this.counter.addArguments(event.index, event.json)
        return this.checkEnd(1)
      case 'usage':
        this.reported = this.reported === UNREPORTED ? event.usage : mergeUsage(this.reported, event.usage)
        this.eventsReported = this.events
        return
      case 'own':
        if (event.part !== 'delta') return this.noteOwn(event)
        // Others repeat what the model has not written, such as an image so far.
        if (event.name !== undefined && !event.name.endsWith('.delta')) return
        this.addText(JSON.stringify(event.value))
        return this.checkEnd(1)
      case 'finish':
        this.reason = event.reason
        this.own = event.own
        return
      case 'start':
        if (event.serviceTier !== undefined)
          this.reported = mergeUsage(this.reported, { serviceTier: event.serviceTier })
        return
      default:
        return
    }
  }

  /**
   * A whole answer, as the events that it stands for. One event is never beyond a limit, so its text is counted only
   * if the provider's figure is missing or doubtful.
   */
  addPlain({ text, reason, usage }: PlainAnswer): void {
    if (usage !== undefined) this.reported = usage
    this.reason = reason
    this.whole = undefined
    this.uncounted = text
  }

  /** The texts of as many events, copied as the insides of JSON strings and joined. Throws as `add` does. */
  addInsides(events: number, joined: string): void {
    this.whole = undefined
    if (!joined.includes('\\')) this.addText(joined)
    else if (this.waits(joined)) {
      this.insideFrom = Math.min(this.insideFrom, this.uncounted.length)
      this.wait(joined)
    } else this.counter.addText(decodedInside(joined))
    this.checkEnd(events)
  }

  /** Words of a thought. */
  addThought(words: string): void {
    this.whole = undefined
    this.thought ??= new OutputCount()
    this.thought.addText(words)
  }

  /** So many more events with content can follow before `checkEnd` may throw. */
  get room(): number {
    return this.eventsMax - this.events
  }

  /**
   * An answer is cut once it is twice as long as its limit in events, and four times by our own count: a server may
   * send each letter by itself, and our count may be wrong.
   */
  private checkEnd(events: number): void {
    if (this.events === 0) this.contentMs = this.now()
    this.events += events
    if (this.events > this.eventsMax && this.counter.tokens > this.tokensMax)
      throw new ProviderError('broken', 'the answer goes on far beyond its output limit')
  }

  private addText(text: string): void {
    if (!this.waits(text)) return this.counter.addText(text)
    if (this.insideFrom <= this.uncounted.length && HAS_ESCAPED.test(text)) this.decodeUncounted()
    this.wait(text)
  }

  /** True if the text need not be counted yet. */
  private waits(text: string): boolean {
    const isBeginning = this.output === undefined && this.uncountedPieces < UNCOUNTED_PIECES_MAX
    return isBeginning && this.uncounted.length + text.length <= UNCOUNTED_CHARS_MAX
  }

  private wait(text: string): void {
    this.uncounted += text
    this.uncountedPieces++
  }

  private decodeUncounted(): void {
    const { uncounted, insideFrom } = this
    this.insideFrom = Number.POSITIVE_INFINITY
    if (insideFrom < uncounted.length)
      this.uncounted = uncounted.slice(0, insideFrom) + decodedInside(uncounted.slice(insideFrom))
  }

  /** Output tokens so far, by our own count: text, tool calls and thoughts. */
  get written(): number {
    const text = this.uncounted === '' ? this.output : this.counter
    return (text?.tokens ?? 0) + (this.thought?.tokens ?? 0)
  }

  /** The same or more, without counting what is not counted yet. */
  get writtenAtMost(): number {
    if (this.uncounted === '') return this.written
    return Math.ceil(TOKENS_A_CHARACTER_MAX * this.uncounted.length) + (this.thought?.tokens ?? 0)
  }

  /** With everything counted that came so far. */
  private get counter(): OutputCount {
    this.output ??= new OutputCount()
    if (this.uncounted !== '') {
      this.decodeUncounted()
      this.output.addText(this.uncounted)
      this.uncounted = ''
    }
    return this.output
  }

  /**
   * The usage so far. A provider's figure for the output counts only if the answer is complete: before that, it is what
   * the provider had written when it last reported, and we may have received more since.
   */
  count(isComplete: boolean): Counted {
    if (!isComplete) return this.counted(false)
    this.whole ??= this.counted(true)
    return this.whole
  }

  private counted(isComplete: boolean): Counted {
    const reported = outputOf(this.reported)
    const counted = isComplete && !needsCount(reported) ? 0 : this.written
    const input = believed(this.reported.input, this.inputTokens)
    const output = believed(reported, counted)
    const written = output === undefined ? counted : isComplete ? output : Math.max(output, counted)
    const read = input ?? this.inputTokens
    const { cachedInput, cacheWrite5m, cacheWrite1h, reasoning, audioInput, serviceTier } = this.reported
    return {
      usage: {
        input: read,
        cachedInput: atMost(read, cachedInput),
        cacheWrite5m: atMost(read, cacheWrite5m),
        cacheWrite1h: atMost(read, cacheWrite1h),
        output: written,
        reasoning: atMost(written, reasoning),
        audioInput: atMost(read, audioInput),
        serviceTier,
      },
      estimated: input === undefined || written !== output,
    }
  }

  /**
   * The usage of an answer that broke off before its usage came, of a target that writes `hidden` tokens without
   * sending them in a given time: these are counted, too, as far as `heldTokens` of output are reserved.
   */
  countCut(hiddenIn: (ms: number) => number, heldTokens: number): Counted {
    if (this.isReportedWhole) return this.count(true)
    const counted = this.count(false)
    if (this.reported.reasoning !== undefined) return counted
    const hidden = hiddenIn(this.unseenMs)
    const written = Math.min(this.written + hidden, heldTokens)
    const { output } = counted.usage
    if (hidden === 0 || written <= output) return counted
    return { usage: { ...counted.usage, output: written, reasoning: Math.min(hidden, written) }, estimated: true }
  }

  /** The model had finished, and its output was reported after its last word: only the end of the bytes is missing. */
  private get isReportedWhole(): boolean {
    return this.reason !== undefined && this.reportsOutput && this.eventsReported === this.events
  }

  /** How long nothing was to be seen of the answer. */
  private get unseenMs(): number {
    return (this.contentMs ?? this.now()) - this.startedMs
  }

  /**
   * Of a complete answer: tokens that were written and not sent, and the time in which they were. A whole answer shows
   * only what was written in all. Undefined if nothing was hidden, or the provider does not report it.
   */
  hidden(isStream: boolean): { readonly tokens: number; readonly ms: number } | undefined {
    if (this.reported.reasoning === undefined) return undefined
    const { output, reasoning = 0 } = this.count(true).usage
    const tokens = reasoning - (this.thought?.tokens ?? 0)
    // Our count of what was sent may be that far off.
    if (tokens <= HIDDEN_SHARE_MIN * reasoning) return { tokens: 0, ms: this.unseenMs }
    return isStream ? { tokens, ms: this.unseenMs } : { tokens: output, ms: this.now() - this.startedMs }
  }

  /** The tier that served the request, as far as the provider has named it. */
  get serviceTier(): string | undefined {
    return this.reported.serviceTier
  }

  /** Whether the provider has reported what it wrote. */
  get reportsOutput(): boolean {
    return this.reported.output !== undefined
  }

  /** The usage of a stream that has not ended: see `count`. */
  get soFar(): Usage {
    return this.count(false).usage
  }

  /** True if the provider reported implausible usage: a mistake that its operator should know of. */
  get disbelieved(): boolean {
    const { input } = this.reported
    const output = outputOf(this.reported)
    return isAbsurd(input, this.inputTokens) || (needsCount(output) && isAbsurd(output, this.written))
  }
}

/** A part is never more than the whole that it belongs to. */
function atMost(whole: number, part: number | undefined): number | undefined {
  return part === undefined ? undefined : Math.min(part, whole)
}
