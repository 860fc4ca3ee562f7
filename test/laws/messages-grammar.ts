/**
 * The grammar of a whole Messages stream, as strict as its strictest reader: a state machine over
 * its events. SDKs forgive most of this, and the official accumulator lets a wrong index corrupt the message without a
 * word.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'

/** The content of a stream that the grammar accepts, block by block. */
export interface MessagesStreamReading {
  readonly blocks: readonly Block[]
  readonly stopReason: string
  /** That of `message_start` and that of `message_delta`. */
  readonly usages: readonly [JsonObject, JsonObject]
}

interface Block {
  readonly type: 'text' | 'tool_use'
  readonly id?: string
  readonly name?: string
  /** The text, or the JSON of the input. */
  content: string
  deltas: number
}

const STOP_REASONS = ['end_turn', 'max_tokens', 'tool_use', 'stop_sequence']
const MESSAGE_ID = /^msg_[A-Za-z0-9_-]{1,60}$/
const CALL_ID = /^[A-Za-z0-9_-]{1,64}$/
const MESSAGE_KEYS = 'id,type,role,model,content,stop_reason,stop_sequence,usage'
const USAGE_KEYS = [
  'input_tokens,output_tokens',
  'input_tokens,cache_creation_input_tokens,cache_read_input_tokens,output_tokens',
  'input_tokens,cache_creation_input_tokens,cache_read_input_tokens,cache_creation,output_tokens',
]

/**
 * Throws with the event's number and the reason where the text is no whole stream of this dialect. Comments and pings
 * may stand between events.
 */
export function checkMessagesStream(text: string): MessagesStreamReading {
  const grammar = new Grammar()
  eventsOf(text).forEach(([name, data], at) => {
    try {
      grammar.event(name, data)
    } catch (error) {
      throw new Error(`event ${at}: ${error instanceof Error ? error.message : error}: ${data.slice(0, 300)}`)
    }
  })
  return grammar.end()
}

type State = 'nothing' | 'between blocks' | 'in a block' | 'finished' | 'stopped'

class Grammar {
  private state: State = 'nothing'
  private readonly blocks: Block[] = []
  private stopReason = ''
  private startUsage: JsonObject = {}
  private finalUsage: JsonObject = {}
  private readonly readers: ReadonlyMap<string, (data: JsonObject) => void> = new Map([
    ['ping', (data) => this.ping(data)],
    ['message_start', (data) => this.messageStart(data)],
    ['content_block_start', (data) => this.blockStart(data)],
    ['content_block_delta', (data) => this.blockDelta(data)],
    ['content_block_stop', (data) => this.blockStop(data)],
    ['message_delta', (data) => this.messageDelta(data)],
    ['message_stop', (data) => this.messageStop(data)],
  ])

  event(name: string, json: string): void {
    if (this.state === 'stopped') fail('something follows message_stop')
    const data: unknown = JSON.parse(json)
    if (!isObject(data)) fail('the data is not an object')
    if (data['type'] !== name) fail(`an event ${name} with the type ${data['type']}`)
    const read = this.readers.get(name)
    if (read === undefined) fail(`the unknown event ${name}`)
    read(data)
  }

  end(): MessagesStreamReading {
    if (this.state !== 'stopped') fail(`the stream ends without message_stop: ${this.state}`)
    const { blocks, stopReason, startUsage, finalUsage } = this
    return { blocks, stopReason, usages: [startUsage, finalUsage] }
  }

  private move(from: readonly State[], to: State, name: string): void {
    if (!from.includes(this.state)) fail(`${name} while the stream is at: ${this.state}`)
    this.state = to
  }

  private ping(data: JsonObject): void {
    if (this.state === 'nothing') fail('a ping before message_start')
    keys(data, 'type')
  }

  private messageStart(data: JsonObject): void {
    this.move(['nothing'], 'between blocks', 'message_start')
    keys(data, 'type,message')
    const message = object(data['message'], 'message')
    keys(message, MESSAGE_KEYS)
    const { id, type, role, model, content } = message
    if (typeof id !== 'string' || !MESSAGE_ID.test(id)) fail(`message id ${id}`)
    if (type !== 'message' || role !== 'assistant') fail(`type ${type}, role ${role}`)
    if (typeof model !== 'string' || model === '') fail(`model ${model}`)
    if (!isArray(content) || content.length > 0) fail('message_start has content')
    if (message['stop_reason'] !== null || message['stop_sequence'] !== null) fail('message_start has a stop reason')
    this.startUsage = usageOf(message['usage'])
    if (this.startUsage['output_tokens'] !== 0) fail('output_tokens of message_start is not 0, and some readers add it')
  }

  private blockStart(data: JsonObject): void {
    this.move(['between blocks'], 'in a block', 'content_block_start')
    keys(data, 'type,index,content_block')
    if (data['index'] !== this.blocks.length) fail(`index ${data['index']} for block ${this.blocks.length}`)
    const block = object(data['content_block'], 'content_block')
    if (block['type'] === 'text') this.textStart(block)
    else if (block['type'] === 'tool_use') this.callStart(block)
    else fail(`a block of type ${block['type']}`)
  }

  private textStart(block: JsonObject): void {
    keys(block, 'type,text')
    if (block['text'] !== '') fail('a text block starts with text')
    const last = this.blocks.at(-1)
    if (last?.type === 'text') fail('two text blocks in a row')
    this.blocks.push({ type: 'text', content: '', deltas: 0 })
  }

  private callStart(block: JsonObject): void {
    keys(block, 'type,id,name,input')
    const { id, name, input } = block
    if (typeof id !== 'string' || !CALL_ID.test(id)) fail(`call id ${id}`)
    if (this.blocks.some((other) => other.id === id)) fail(`call id ${id} twice`)
    if (typeof name !== 'string' || name === '') fail(`tool name ${name}`)
    if (!isObject(input) || Object.keys(input).length > 0) fail('a tool_use block starts with input')
    this.blocks.push({ type: 'tool_use', id, name, content: '', deltas: 0 })
  }

  private blockDelta(data: JsonObject): void {
    this.move(['in a block'], 'in a block', 'content_block_delta')
    keys(data, 'type,index,delta')
    const block = this.openBlock(data['index'])
    const delta = object(data['delta'], 'delta')
    const [type, field] = block.type === 'text' ? ['text_delta', 'text'] : ['input_json_delta', 'partial_json']
    keys(delta, `type,${field}`)
    if (delta['type'] !== type) fail(`a ${delta['type']} in a block of type ${block.type}`)
    const piece = delta[field]
    if (typeof piece !== 'string') fail(`${field} is not a string`)
    if (piece === '' && (block.type === 'text' || block.deltas > 0)) fail('an empty delta')
    if (block.deltas > 0 && block.content === '') fail('a delta after the empty one')
    block.content += piece
    block.deltas++
  }

  private blockStop(data: JsonObject): void {
    this.move(['in a block'], 'between blocks', 'content_block_stop')
    keys(data, 'type,index')
    this.openBlock(data['index'])
  }

  private messageDelta(data: JsonObject): void {
    this.move(['between blocks'], 'finished', 'message_delta')
    keys(data, 'type,delta,usage')
    const delta = object(data['delta'], 'delta')
    keys(delta, 'stop_reason,stop_sequence')
    const { stop_reason: reason, stop_sequence: sequence } = delta
    if (typeof reason !== 'string' || !STOP_REASONS.includes(reason)) fail(`stop_reason ${reason}`)
    if (sequence !== null) fail(`stop_sequence ${sequence}`)
    this.stopReason = reason
    this.finalUsage = usageOf(data['usage'])
    this.checkBlocks(reason)
  }

  private messageStop(data: JsonObject): void {
    keys(data, 'type')
    this.move(['finished'], 'stopped', 'message_stop')
  }

  private checkBlocks(reason: string): void {
    const calls = this.blocks.filter((block) => block.type === 'tool_use')
    if (this.blocks.length === 0) fail('a message without a block')
    if (this.blocks.length > 1 && this.blocks.some((block) => block.type === 'text' && block.content === ''))
      fail('an empty text block beside others')
    if (reason === 'tool_use' && calls.length === 0) fail('tool_use without a call')
    if (reason === 'end_turn' && calls.length > 0) fail('end_turn after a call')
    if (reason === 'tool_use') for (const call of calls) wholeInput(call)
  }

  private openBlock(index: JsonValue | undefined): Block {
    const block = this.blocks.at(-1)
    if (block === undefined || index !== this.blocks.length - 1) return fail(`index ${index} is not the open block`)
    return block
  }
}

function wholeInput(call: Block): void {
  if (call.deltas === 0) fail(`the call ${call.id} has no delta`)
  if (call.content !== '' && !isObject(JSON.parse(call.content))) fail(`the input of ${call.id} is not an object`)
}

function usageOf(value: JsonValue | undefined): JsonObject {
  const usage = object(value, 'usage')
  const names = Object.keys(usage).filter((name) => name !== 'service_tier')
  if (!USAGE_KEYS.includes(names.join())) fail(`usage keys ${Object.keys(usage)}`)
  const { cache_creation: byTtl, service_tier: _tier, ...counts } = usage
  for (const [key, count] of Object.entries(counts)) natural(count, key)
  const { cache_creation_input_tokens: written, cache_read_input_tokens: read } = usage
  if (written === 0 && read === 0) fail('cache figures without cache activity')
  if (byTtl === undefined) return usage
  const ttls = object(byTtl, 'cache_creation')
  keys(ttls, 'ephemeral_5m_input_tokens,ephemeral_1h_input_tokens')
  const parts = Object.entries(ttls).map(([key, count]) => natural(count, key))
  if (parts.reduce((sum, part) => sum + part, 0) !== written) fail('cache_creation does not sum up')
  return usage
}

function natural(value: JsonValue | undefined, name: string): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) return fail(`${name} ${value}`)
  return value
}

function object(value: JsonValue | undefined, name: string): JsonObject {
  return isObject(value) ? value : fail(`\`${name}\` is not an object`)
}

function keys(value: JsonObject, expected: string): void {
  const found = Object.keys(value).join()
  if (found !== expected) fail(`the keys ${found} instead of ${expected}`)
}

/**
 * Name and data of each event. LF alone, one `event:` and one `data:` line, a blank line after each, nothing half at
 * the end.
 */
function eventsOf(text: string): (readonly [name: string, data: string])[] {
  if (text.startsWith('\ufeff')) fail('a byte order mark')
  if (/[\r\u0085\u2028\u2029]/.test(text)) fail('a line break that is not LF')
  if (!text.endsWith('\n\n')) fail('the last event is not ended by a blank line')
  const blocks = text.slice(0, -2).split('\n\n')
  return blocks.flatMap((block, at) => {
    if (/^:[^\n]*$/.test(block)) return []
    const [, name, data] = /^event: ([a-z_]+)\ndata: ([^\n]+)$/.exec(block) ?? []
    if (name === undefined || data === undefined)
      return fail(`block ${at} is not one event and one data line: ${JSON.stringify(block.slice(0, 200))}`)
    return [[name, data] as const]
  })
}

function fail(reason: string): never {
  throw new Error(reason)
}
