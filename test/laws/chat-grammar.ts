/**
 * The grammar of a whole Chat Completions stream, as strict as its strictest reader: a state machine
 * over its lines. SDKs forgive most of this; a gateway that emits it must not need to be forgiven.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'

export interface ChatStreamOptions {
  /** What the caller asked for as `stream_options.include_usage`. */
  readonly includeUsage: boolean
}

/** The content of a stream that the grammar accepts. */
export interface ChatStreamReading {
  readonly text: string
  readonly refusal: string
  readonly toolCalls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  readonly finishReason: string
  readonly usage: JsonObject | undefined
}

const CHUNK_KEYS = ['id', 'object', 'created', 'model', 'choices']
const CHOICE_KEYS = ['index', 'delta', 'logprobs', 'finish_reason']
const FINISH_REASONS = ['stop', 'length', 'tool_calls', 'content_filter']
const ID = /^[A-Za-z0-9_-]{1,64}$/

/**
 * Throws with the event's number and the reason where the text is no whole stream of this dialect. Comments may stand
 * between events.
 */
export function checkChatStream(text: string, options: ChatStreamOptions): ChatStreamReading {
  const grammar = new Grammar(options)
  eventsOf(text).forEach((data, at) => {
    try {
      grammar.event(data)
    } catch (error) {
      throw new Error(`event ${at}: ${error instanceof Error ? error.message : error}: ${data.slice(0, 300)}`)
    }
  })
  return grammar.end()
}

type State = 'role' | 'content' | 'finished' | 'usage' | 'done'

class Grammar {
  private state: State = 'role'
  private readonly text: string[] = []
  private readonly refusal: string[] = []
  private readonly calls: { id: string; name: string; arguments: string }[] = []
  private constants: string | undefined
  private finishReason = ''
  private usage: JsonObject | undefined

  constructor(private readonly options: ChatStreamOptions) {}

  event(data: string): void {
    if (this.state === 'done') fail('something follows [DONE]')
    if (data === '[DONE]') this.done()
    else this.whole(data)
  }

  private whole(data: string): void {
    const chunk = this.chunk(data)
    const choices = chunk['choices']
    if (!isArray(choices)) fail('`choices` is not an array')
    if (choices.length === 0) {
      this.usageChunk(chunk)
      return
    }
    const usageKeys = Object.hasOwn(chunk, 'usage')
    if (usageKeys !== this.options.includeUsage)
      fail(`\`usage\` ${usageKeys ? 'although it was not asked for' : 'is missing'}`)
    if (usageKeys && chunk['usage'] !== null) fail('`usage` has a value outside of the usage chunk')
    if (choices.length !== 1) fail('more than one choice')
    this.choice(choices[0])
  }

  end(): ChatStreamReading {
    if (this.state !== 'done') fail(`the stream ends without [DONE], in the state ${this.state}`)
    const { finishReason, usage } = this
    return { text: this.text.join(''), refusal: this.refusal.join(''), toolCalls: this.calls, finishReason, usage }
  }

  private done(): void {
    const before = this.options.includeUsage ? 'usage' : 'finished'
    if (this.state !== before) fail(`[DONE] in the state ${this.state}`)
    this.state = 'done'
  }

  private chunk(data: string): JsonObject {
    const chunk: unknown = JSON.parse(data)
    if (!isObject(chunk)) return fail('not an object')
    if (Object.hasOwn(chunk, 'error')) fail('an `error` key')
    const keys = Object.keys(chunk)
    const known = [...CHUNK_KEYS, 'usage', 'service_tier', 'system_fingerprint']
    const strange = keys.filter((key) => !known.includes(key))
    if (strange.length > 0) fail(`unknown keys ${strange}`)
    if (keys.slice(0, CHUNK_KEYS.length).join() !== CHUNK_KEYS.join()) fail(`keys in the order ${keys}`)
    const { id, object, created, model } = chunk
    if (typeof id !== 'string' || !ID.test(id)) fail(`id ${id}`)
    if (object !== 'chat.completion.chunk') fail(`object ${object}`)
    if (!Number.isSafeInteger(created)) fail(`created ${created}`)
    if (typeof model !== 'string' || model === '') fail(`model ${model}`)
    const constants = JSON.stringify([id, created, model])
    this.constants ??= constants
    if (this.constants !== constants) fail(`id, created, model changed from ${this.constants}`)
    return chunk
  }

  private choice(choice: JsonValue | undefined): void {
    if (!isObject(choice)) fail('the choice is not an object')
    if (Object.keys(choice).join() !== CHOICE_KEYS.join()) fail(`choice keys ${Object.keys(choice)}`)
    const { index, delta, finish_reason: finish, logprobs } = choice
    if (index !== 0) fail(`choice index ${index}`)
    if (!isObject(delta)) fail('`delta` is not an object')
    if (logprobs !== null && !isObject(logprobs)) fail('`logprobs` is neither null nor an object')
    if (this.state === 'role') this.role(delta, finish)
    else if (this.state !== 'content') fail(`a choice in the state ${this.state}`)
    else if (finish === null) this.delta(delta)
    else this.finishChunk(delta, finish)
  }

  private finishChunk(delta: JsonObject, finish: JsonValue | undefined): void {
    if (typeof finish !== 'string' || !FINISH_REASONS.includes(finish)) fail(`finish_reason ${finish}`)
    if (Object.keys(delta).length > 0) fail('the finish chunk has a delta')
    this.finish(finish)
  }

  private role(delta: JsonObject, finish: JsonValue | undefined): void {
    if (delta['role'] !== 'assistant') fail('the first delta has no role')
    if (Object.keys(delta).join() !== 'role,content,refusal') fail(`the role chunk has ${Object.keys(delta)}`)
    if (delta['content'] !== '' && delta['content'] !== null) fail('the role chunk has content')
    if (delta['refusal'] !== null) fail('the role chunk has a refusal')
    if (finish !== null) fail('the role chunk has a finish_reason')
    this.state = 'content'
  }

  private delta(delta: JsonObject): void {
    const keys = Object.keys(delta)
    if (keys.length !== 1) fail(`a delta with ${keys.length === 0 ? 'nothing' : keys} in it`)
    const { content, refusal, tool_calls: calls } = delta
    if (typeof content === 'string') {
      if (content === '') fail('an empty text delta')
      this.text.push(content)
    } else if (typeof refusal === 'string') {
      if (refusal === '') fail('an empty refusal delta')
      this.refusal.push(refusal)
    } else if (isArray(calls)) {
      if (calls.length !== 1) fail(`${calls.length} calls in one delta`)
      this.call(calls[0])
    } else fail(`a delta of ${keys}`)
  }

  private call(call: JsonValue | undefined): void {
    if (!isObject(call)) fail('the tool call is not an object')
    const { index, function: fn } = call
    if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) fail(`tool index ${index}`)
    if (!isObject(fn)) fail('a tool call without `function`')
    if (index > this.calls.length) fail(`tool index ${index} leaves a hole after ${this.calls.length} calls`)
    const known = this.calls[index]
    if (known === undefined) this.header(call, fn)
    else {
      if (Object.keys(call).join() !== 'index,function') fail(`a later delta of a call with ${Object.keys(call)}`)
      if (Object.keys(fn).join() !== 'arguments') fail(`a later delta of a call with function.${Object.keys(fn)}`)
      if (typeof fn['arguments'] !== 'string' || fn['arguments'] === '') fail('a delta of a call without arguments')
      known.arguments += fn['arguments']
    }
  }

  private header(call: JsonObject, fn: JsonObject): void {
    if (Object.keys(call).join() !== 'index,id,type,function') fail(`the header of a call has ${Object.keys(call)}`)
    if (Object.keys(fn).join() !== 'name,arguments') fail(`the header of a call has function.${Object.keys(fn)}`)
    const { id, type } = call
    if (typeof id !== 'string' || !ID.test(id)) fail(`call id ${id}`)
    if (this.calls.some((other) => other.id === id)) fail(`call id ${id} twice`)
    if (type !== 'function') fail(`call type ${type}`)
    const { name, arguments: json } = fn
    if (typeof name !== 'string' || name === '') fail(`function name ${name}`)
    if (json !== '') fail('the header of a call has arguments')
    this.calls.push({ id, name, arguments: '' })
  }

  private finish(reason: string): void {
    if (reason === 'stop' && this.calls.length > 0) fail('finish_reason stop after tool calls')
    if (reason === 'tool_calls' && this.calls.length === 0) fail('finish_reason tool_calls without a call')
    if (reason === 'tool_calls') for (const call of this.calls) wholeArguments(call.name, call.arguments)
    this.finishReason = reason
    this.state = 'finished'
  }

  private usageChunk(chunk: JsonObject): void {
    if (!this.options.includeUsage) fail('a chunk without choices although usage was not asked for')
    if (this.state !== 'finished') fail(`the usage chunk in the state ${this.state}`)
    const usage = chunk['usage']
    if (!isObject(usage)) fail('the usage chunk has no usage')
    const [prompt, completion, total] = ['prompt_tokens', 'completion_tokens', 'total_tokens'].map((key) => usage[key])
    for (const count of [prompt, completion, total])
      if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0) fail(`usage ${JSON.stringify(usage)}`)
    if (Number(prompt) + Number(completion) !== total) fail('total_tokens is not the sum')
    this.usage = usage
    this.state = 'usage'
  }
}

function wholeArguments(name: string, json: string): void {
  if (json === '') fail(`the arguments of ${name} are empty`)
}

/** The data of each event. One `data:` line an event, LF alone, a blank line after each, nothing half at the end. */
function eventsOf(text: string): string[] {
  if (text.startsWith('\ufeff')) fail('a byte order mark')
  if (/[\r\u0085\u2028\u2029]/.test(text)) fail('a line break that is not LF')
  if (!text.endsWith('\n\n')) fail('the last event is not ended by a blank line')
  const blocks = text.slice(0, -2).split('\n\n')
  return blocks.flatMap((block, at) => {
    if (/^:[^\n]*$/.test(block)) return []
    const data = /^data: ([^\n]+)$/.exec(block)?.[1]
    return data === undefined
      ? fail(`block ${at} is not one \`data: \` line: ${JSON.stringify(block.slice(0, 200))}`)
      : [data]
  })
}

function fail(reason: string): never {
  throw new Error(reason)
}
