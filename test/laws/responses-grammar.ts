/**
 * The grammar of a whole Responses stream, as strict as its strictest reader: a state machine over
 * its events. SDKs forgive much of this; a gateway that emits it must not need to be forgiven.
 */

import { deepEquals } from 'bun'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { checkCompletedResponse, checkOutputItem, checkStartedResponse } from './responses-schema.ts'

/** The content of a stream that the grammar accepts. */
export interface ResponsesStreamReading {
  /** The resource of `response.completed`. */
  readonly response: JsonObject
  /** Its items, as they were done. */
  readonly output: readonly JsonObject[]
  /** How many items were open at once at most. */
  readonly openAtOnce: number
}

const LINE = /^event: ([a-z_.]+)\ndata: ([^\n]+)$/
const EVENT_KEYS: Readonly<Record<string, string>> = {
  'response.created': 'type,sequence_number,response',
  'response.in_progress': 'type,sequence_number,response',
  'response.completed': 'type,sequence_number,response',
  'response.output_item.added': 'type,sequence_number,output_index,item',
  'response.output_item.done': 'type,sequence_number,output_index,item',
  'response.content_part.added': 'type,sequence_number,item_id,output_index,content_index,part',
  'response.content_part.done': 'type,sequence_number,item_id,output_index,content_index,part',
  'response.output_text.delta': 'type,sequence_number,item_id,output_index,content_index,delta,logprobs',
  'response.output_text.done': 'type,sequence_number,item_id,output_index,content_index,text,logprobs',
  'response.function_call_arguments.delta': 'type,sequence_number,item_id,output_index,delta',
  'response.function_call_arguments.done': 'type,sequence_number,item_id,output_index,name,arguments',
}
/** Where these differ between the first and the last resource, nothing is wrong. */
const LIFECYCLE_KEYS: ReadonlySet<string> = new Set(['status', 'completed_at', 'output', 'usage'])

/**
 * Throws with the event's number and the reason where the text is no whole stream of this dialect. Comments may stand
 * between events.
 */
export function checkResponsesStream(text: string): ResponsesStreamReading {
  const grammar = new Grammar()
  eventsOf(text).forEach(({ name, data }, at) => {
    try {
      grammar.event(name, data, at)
    } catch (error) {
      throw new Error(`event ${at}: ${error instanceof Error ? error.message : error}: ${data.slice(0, 300)}`)
    }
  })
  return grammar.end()
}

/** What an item awaits. A message: its part, deltas, then the three events of its end without anything between them. */
type Step = 'part' | 'deltas' | 'part done' | 'item done' | 'done'

interface Item {
  readonly added: JsonObject
  readonly id: string
  step: Step
  text: string
  done?: JsonObject
}

class Grammar {
  private started: JsonObject | undefined
  private compaction = false
  private completed: JsonObject | undefined
  private readonly items: Item[] = []
  /** The item whose next event must come now. */
  private awaited: Item | undefined
  private openAtOnce = 0

  event(name: string, data: string, at: number): void {
    if (this.completed !== undefined) fail('something follows response.completed')
    const event: unknown = JSON.parse(data)
    if (!isObject(event)) throw new Error('not an object')
    if (event['type'] !== name) fail(`type ${event['type']} in an event named ${name}`)
    if (event['sequence_number'] !== at) fail(`sequence_number ${event['sequence_number']}, not ${at}`)
    if (Object.keys(event).join() !== EVENT_KEYS[name]) fail(`keys ${Object.keys(event)}`)
    if ((at === 0) !== (name === 'response.created')) fail('response.created is not the first event alone')
    if (name.startsWith('response.output_item.')) this.itemEvent(name, event)
    else if (isObject(event['response'])) this.lifecycle(name, event['response'], at)
    else this.within(name, event)
  }

  end(): ResponsesStreamReading {
    if (this.completed === undefined) return fail('the stream ends without response.completed')
    return { response: this.completed, output: this.output(), openAtOnce: this.openAtOnce }
  }

  /** The items as they were done, in the order of a whole answer: the message, then the calls. */
  private output(): JsonObject[] {
    const done = this.items.flatMap((item) => (item.done === undefined ? [] : [item.done]))
    const isMessage = (item: JsonObject) => item['type'] === 'message'
    return [...done.filter(isMessage), ...done.filter((item) => !isMessage(item))]
  }

  private lifecycle(name: string, response: JsonObject, at: number): void {
    if (name === 'response.completed') {
      this.complete(response)
      return
    }
    checkStartedResponse(response)
    if (name === 'response.in_progress') {
      if (at !== 1) fail('response.in_progress is not the second event')
      if (!deepEquals(response, this.started)) fail('response.in_progress differs from response.created')
      this.compaction = true
    }
    this.started = response
  }

  private complete(response: JsonObject): void {
    checkCompletedResponse(response)
    const open = this.items.filter((item) => item.step !== 'done')
    if (open.length > 0) fail(`items ${open.map((item) => item.id)} are not done`)
    for (const [key, value] of Object.entries(this.started ?? {})) {
      if (!LIFECYCLE_KEYS.has(key) && !deepEquals(value, response[key])) fail(`${key} changed`)
    }
    if (Object.keys(response).join() !== Object.keys(this.started ?? {}).join()) fail('the order of keys changed')
    if (!deepEquals(response['output'], this.output())) fail('output is not what was done, the message first')
    this.wholeAnswer(response)
    this.completed = response
  }

  private wholeAnswer(response: JsonObject): void {
    const types = this.items.map((item) => item.added['type'])
    if (types.length === 0) fail('no item')
    if (types.filter((type) => type === 'message').length > 1) fail('more than one message')
    if (this.compaction ? types.join() !== 'compaction' : types.includes('compaction')) fail(`items ${types}`)
    if (types.length > 1 && this.items.some((item) => item.added['type'] === 'message' && item.text === '')) {
      fail('an empty message beside other items')
    }
    const { usage } = response
    if (!isObject(usage)) throw new Error('no usage')
    if (Number(usage['input_tokens']) + Number(usage['output_tokens']) !== usage['total_tokens'])
      fail('total_tokens is not the sum')
  }

  private itemEvent(name: string, event: JsonObject): void {
    const { item, output_index: index } = event
    if (!isObject(item)) throw new Error('no item')
    if (name.endsWith('.added')) this.added(item, index)
    else this.done(item, index)
  }

  private added(item: JsonObject, index: JsonValue | undefined): void {
    if (this.awaited !== undefined) fail(`an item within ${this.awaited.id}`)
    if (index !== this.items.length) fail(`output_index ${index}, not ${this.items.length}`)
    const { id, type, call_id: callId } = item
    if (typeof id !== 'string' || id === '') throw new Error('no id')
    if (this.items.some((other) => other.id === id)) fail(`item id ${id} twice`)
    if (callId !== undefined && this.items.some((other) => other.added['call_id'] === callId))
      fail(`call_id ${callId} twice`)
    const step = firstStep(item)
    const added: Item = { added: item, id, step, text: '' }
    this.items.push(added)
    if (type !== 'function_call') this.awaited = added
    this.openAtOnce = Math.max(this.openAtOnce, this.items.filter((other) => other.step !== 'done').length)
  }

  private done(item: JsonObject, index: JsonValue | undefined): void {
    const known = this.at(index, item['id'])
    this.inTurn(known)
    if (known.step !== 'item done') fail(`done in the step ${known.step}`)
    checkOutputItem(item)
    if (!deepEquals(item, finished(known))) fail('the item is not that of its events')
    if (this.items.slice(0, this.items.indexOf(known)).some((before) => before.step !== 'done'))
      fail('done before an earlier item')
    known.done = item
    known.step = 'done'
    this.awaited = undefined
  }

  private within(name: string, event: JsonObject): void {
    const item = this.at(event['output_index'], event['item_id'])
    this.inTurn(item)
    const kind = name.includes('function_call') ? 'function_call' : 'message'
    if (item.added['type'] !== kind) fail(`${name} for a ${item.added['type']}`)
    if (kind === 'message' && event['content_index'] !== 0) fail(`content_index ${event['content_index']}`)
    if ('logprobs' in event && !deepEquals(event['logprobs'], [])) fail('logprobs')
    const expected =
      name.endsWith('.delta') || name === 'response.output_text.done' || name.includes('arguments')
        ? 'deltas'
        : name.endsWith('part.added')
          ? 'part'
          : 'part done'
    if (item.step !== expected) fail(`${name} in the step ${item.step}`)
    switch (name) {
      case 'response.content_part.added':
        if (!deepEquals(event['part'], textPart(''))) fail('a part that is not an empty text')
        this.next(item, 'deltas')
        return
      case 'response.content_part.done':
        if (!deepEquals(event['part'], textPart(item.text))) fail('the part is not that of the deltas')
        this.next(item, 'item done')
        return
      case 'response.output_text.done':
        if (event['text'] !== item.text) fail('the text is not that of the deltas')
        this.next(item, 'part done')
        return
      case 'response.function_call_arguments.done':
        if (event['arguments'] !== item.text) fail('the arguments are not those of the deltas')
        if (event['name'] !== item.added['name']) fail(`name ${event['name']}`)
        if (item.text === '') fail('empty arguments')
        this.next(item, 'item done')
        return
      default:
        if (typeof event['delta'] !== 'string' || event['delta'] === '') fail('an empty delta')
        item.text += String(event['delta'])
    }
  }

  private next(item: Item, step: Step): void {
    item.step = step
    this.awaited = step === 'deltas' ? undefined : item
  }

  private at(index: JsonValue | undefined, id: JsonValue | undefined): Item {
    const item = typeof index === 'number' ? this.items[index] : undefined
    if (item === undefined) return fail(`no item at output_index ${index}`)
    if (item.id !== id) fail(`item id ${id}, not ${item.id}`)
    return item
  }

  private inTurn(item: Item): void {
    if (this.awaited !== undefined && this.awaited !== item)
      fail(`an event of ${item.id} within the end of ${this.awaited.id}`)
  }
}

/** Checks an item as it is added. */
function firstStep(item: JsonObject): Step {
  const keys = Object.keys(item).join()
  switch (item['type']) {
    case 'message':
      if (keys !== 'id,type,status,role,content') fail(`message keys ${keys}`)
      if (item['status'] !== 'in_progress' || item['role'] !== 'assistant') fail('a message that does not begin')
      if (!isArray(item['content']) || item['content'].length > 0) fail('a message that begins with content')
      return 'part'
    case 'function_call':
      if (!/^id,type,status,arguments,call_id,name(,namespace)?$/.test(keys)) fail(`call keys ${keys}`)
      if (item['status'] !== 'in_progress' || item['arguments'] !== '') fail('a call that does not begin')
      return 'deltas'
    case 'compaction':
      checkOutputItem(item)
      return 'item done'
    default:
      return fail(`an item of type ${item['type']}`)
  }
}

/** The item as it must be done, by its events. */
function finished(item: Item): JsonObject {
  switch (item.added['type']) {
    case 'message':
      return { ...item.added, status: 'completed', content: [textPart(item.text)] }
    case 'function_call':
      return { ...item.added, status: 'completed', arguments: item.text }
    default:
      return item.added
  }
}

function textPart(text: string): JsonObject {
  return { type: 'output_text', annotations: [], logprobs: [], text }
}

/** Name and data of each event: two lines, LF alone, a blank line after each, nothing half at the end. */
function eventsOf(text: string): { readonly name: string; readonly data: string }[] {
  if (text.startsWith('\ufeff')) fail('a byte order mark')
  if (/[\r\u0085\u2028\u2029]/.test(text)) fail('a line break that is not LF')
  if (!text.endsWith('\n\n')) fail('the last event is not ended by a blank line')
  return text
    .slice(0, -2)
    .split('\n\n')
    .flatMap((block, at) => {
      if (/^:[^\n]*$/.test(block)) return []
      const [, name, data] = LINE.exec(block) ?? []
      if (name === undefined || data === undefined)
        return fail(`block ${at} is not an event: ${JSON.stringify(block.slice(0, 200))}`)
      return { name, data }
    })
}

function fail(reason: string): never {
  throw new Error(reason)
}
