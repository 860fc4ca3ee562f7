/** The rules that providers publish for request bodies, as strict checkers that throw at the first violation. */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { Literal } from '../support/literal.ts'
import { must, onlyKeys } from './rule-checks.ts'

function objects(value: JsonValue | undefined, what: string): JsonObject[] {
  must(isArray(value) && value.every(isObject), `${what} is a list of objects`, value)
  return value.filter(isObject)
}

function object(value: JsonValue | undefined, what: string): JsonObject {
  must(isObject(value), `${what} is an object`, value)
  return value
}

function string(value: JsonValue | undefined, what: string): string {
  must(typeof value === 'string', `${what} is a string`, value)
  return value
}

function isSolid(text: JsonValue | undefined): boolean {
  return typeof text === 'string' && text.trim() !== ''
}

/** Roles alternate, the user first, and no turn is empty. */
function checkTurns(turns: readonly JsonObject[], content: string, roles: readonly [string, string]): void {
  must(turns.length > 0, 'there is a message', turns)
  for (const [at, turn] of turns.entries()) {
    must(turn['role'] === roles[at % 2], 'roles alternate, the user first', turns)
    must(objects(turn[content], content).length > 0, 'a message has content', turn)
  }
}

interface Calls {
  /** The calls of a turn, in order. */
  readonly calls: (turn: JsonObject) => readonly { readonly id: string; readonly name: string }[]
  /** The positions and ids of results. */
  readonly results: (turn: JsonObject) => readonly { readonly id: string; readonly at: number }[]
}

/** Every call is answered at the start of the next turn; nothing else is answered; ids are unique. */
function checkPairs(turns: readonly JsonObject[], { calls, results }: Calls): void {
  const seen = new Set<string>()
  for (const [at, turn] of turns.entries()) {
    const wanted = calls(turns[at - 1] ?? {}).map(({ id }) => id)
    const given = results(turn)
    must(
      given.every((result, place) => result.at === place),
      'results stand first',
      turn,
    )
    must(
      [...wanted].sort().join() ===
        given
          .map(({ id }) => id)
          .sort()
          .join(),
      'calls and results pair',
      [wanted, turn],
    )
    for (const { id } of calls(turn)) {
      must(/^[a-zA-Z0-9_-]{1,64}$/.test(id), 'ids are legal', id)
      must(!seen.has(id), 'ids are unique', id)
      seen.add(id)
    }
  }
}

function checkNames(names: readonly string[], legal: RegExp): void {
  for (const name of names) must(legal.test(name), 'names are legal', name)
  must(new Set(names).size === names.length, 'names are unique', names)
}

/** At most four marks; no 1h after 5m. */
function checkMarks(ttls: readonly (JsonValue | undefined)[]): void {
  must(ttls.length <= 4, 'at most 4 cache marks', ttls)
  const short = ttls.findIndex((ttl) => ttl !== '1h')
  must(short === -1 || !ttls.slice(short).includes('1h'), '1h before 5m', ttls)
}

/** A prefill does not end in white space. */
function checkPrefill(text: JsonValue | undefined): void {
  if (typeof text === 'string') must(text === text.trimEnd(), 'a prefill does not end in white space', text)
}

export function anthropicRules(body: JsonObject, request: Literal): void {
  onlyKeys(body, [
    ...['model', 'max_tokens', 'system', 'tools', 'tool_choice', 'messages', 'stop_sequences', 'temperature'],
    ...['top_p', 'output_config', 'metadata', 'service_tier', 'stream', 'thinking'],
  ])
  const { tool_choice: choice, temperature, top_p: topP } = body
  const isForced = isObject(choice) && (choice['type'] === 'any' || choice['type'] === 'tool')
  claudeThinking(body['thinking'], {
    temperature,
    topP,
    isForced,
    limit: body['max_tokens'],
    messages: body['messages'],
  })
  must(Number.isInteger(body['max_tokens']) && Number(body['max_tokens']) > 0, 'max_tokens is required', body)
  must(!('temperature' in body && 'top_p' in body), 'temperature or top_p', body)
  if ('temperature' in body) must(Number(body['temperature']) >= 0 && Number(body['temperature']) <= 1, '0 to 1', body)
  must((body['stream'] === true) === request.stream, 'streams as requested', body)
  if ('stop_sequences' in body) {
    const stops = body['stop_sequences']
    must(isArray(stops) && stops.length > 0 && stops.every(isSolid), 'stop sequences are solid', body)
  }
  const messages = objects(body['messages'], 'messages')
  checkTurns(messages, 'content', ['user', 'assistant'])
  checkPairs(messages, {
    calls: (turn) =>
      blocksOf(turn, 'tool_use').map(({ block }) => ({ id: String(block['id']), name: String(block['name']) })),
    results: (turn) => blocksOf(turn, 'tool_result').map(({ block, at }) => ({ id: String(block['tool_use_id']), at })),
  })
  const system = 'system' in body ? objects(body['system'], 'system') : []
  for (const block of system) anthropicBlock(block, 'system')
  for (const message of messages)
    for (const block of objects(message['content'], 'content')) anthropicBlock(block, string(message['role'], 'role'))
  const last = messages.at(-1)
  if (last?.['role'] === 'assistant') checkPrefill(objects(last['content'], 'content').at(-1)?.['text'])
  anthropicTools(body, messages)
  const tools = 'tools' in body ? objects(body['tools'], 'tools') : []
  checkMarks([...tools, ...system, ...messages].flatMap(ttlsIn))
}

/** Settings beside thinking, in the words of an API. */
interface Beside {
  readonly temperature: JsonValue | undefined
  readonly topP: JsonValue | undefined
  readonly isForced: boolean
  readonly limit: JsonValue | undefined
  readonly messages: JsonValue | undefined
}

/** A model that thinks takes few settings, and a budget within its limit. */
function claudeThinking(thinking: JsonValue | undefined, beside: Beside): void {
  if (!isObject(thinking)) return must(thinking === undefined, 'thinking is an object', thinking ?? null)
  if (thinking['type'] === 'disabled') return onlyKeys(thinking, ['type'])
  const { temperature, topP, isForced, limit, messages } = beside
  must(['enabled', 'adaptive'].includes(String(thinking['type'])), 'thinking is of a known type', thinking)
  must(temperature === undefined, 'no temperature with thinking', temperature)
  must(topP === undefined || Number(topP) >= 0.95, 'no low top_p with thinking', topP)
  must(!isForced, 'no forced call with thinking', thinking)
  must(objects(messages, 'messages').at(-1)?.['role'] === 'user', 'no prefill with thinking', messages)
  if (thinking['type'] === 'adaptive') return must(!('budget_tokens' in thinking), 'no budget', thinking)
  const budget = Number(thinking['budget_tokens'])
  must(budget >= 1024 && (limit === undefined || budget < Number(limit)), 'a budget within the limit', thinking)
}

function blocksOf(turn: JsonObject, type: string): { readonly block: JsonObject; readonly at: number }[] {
  const content = isArray(turn['content']) ? turn['content'].filter(isObject) : []
  return content.flatMap((block, at) => (block['type'] === type ? [{ block, at }] : []))
}

function anthropicBlock(block: JsonObject, role: string): void {
  switch (block['type']) {
    case 'text':
      onlyKeys(block, ['type', 'text', 'cache_control'])
      must(isSolid(block['text']), 'text is not blank', block)
      return
    case 'image':
      must(role === 'user', 'images are the user’s', block)
      must(/^image\/(jpeg|png|gif|webp)$/.test(String(object(block['source'], 'source')['media_type'])), 'type', block)
      return
    case 'tool_use':
      must(role === 'assistant', 'calls are the assistant’s', block)
      must(isObject(block['input']), 'input is an object', block)
      must(/^[a-zA-Z0-9_-]{1,128}$/.test(String(block['name'])), 'name', block)
      return
    case 'tool_result': {
      must(role === 'user', 'results are the user’s', block)
      const { content } = block
      if (content === undefined) return
      if (typeof content === 'string') must(isSolid(content), 'a result is not blank', block)
      else for (const part of objects(content, 'content')) anthropicBlock(part, 'user')
      return
    }
    default:
      must(false, 'a known block', block)
  }
}

function anthropicTools(body: JsonObject, messages: readonly JsonObject[]): void {
  const used = messages.some((turn) => blocksOf(turn, 'tool_use').length + blocksOf(turn, 'tool_result').length > 0)
  must(!used || 'tools' in body, 'tools are defined if they were used', body)
  if (!('tools' in body)) {
    must(!('tool_choice' in body), 'no choice without tools', body)
    return
  }
  const tools = objects(body['tools'], 'tools')
  must(tools.length > 0, 'tools are not empty', body)
  const names = tools.map((tool) => string(tool['name'], 'name'))
  checkNames(names, /^[a-zA-Z0-9_-]{1,128}$/)
  for (const tool of tools) must(object(tool['input_schema'], 'schema')['type'] === 'object', 'type object', tool)
  const choice = body['tool_choice']
  if (!isObject(choice)) return
  must(/^(auto|any|tool|none)$/.test(String(choice['type'])), 'choice', choice)
  if (choice['type'] === 'tool') must(names.includes(String(choice['name'])), 'the named tool is there', choice)
}

/** The TTLs of the marks in a value, in reading order. */
function ttlsIn(value: JsonValue | undefined): (JsonValue | undefined)[] {
  if (isArray(value)) return value.flatMap(ttlsIn)
  if (!isObject(value)) return []
  const own = isObject(value['cache_control']) ? [value['cache_control']['ttl']] : []
  const point = isObject(value['cachePoint']) ? [value['cachePoint']['ttl']] : []
  const inside = isArray(value['content']) ? ttlsIn(value['content']) : []
  return [...inside, ...own, ...point]
}

function bedrockThinking({
  additionalModelRequestFields: more,
  inferenceConfig,
  toolConfig,
  messages,
}: JsonObject): void {
  if (more === undefined) return
  onlyKeys(object(more, 'additional fields'), ['thinking', 'output_config'])
  const { temperature, topP, maxTokens: limit } = object(inferenceConfig ?? {}, 'inferenceConfig')
  const choice = object(object(toolConfig ?? {}, 'toolConfig')['toolChoice'] ?? {}, 'toolChoice')
  const isForced = 'any' in choice || 'tool' in choice
  claudeThinking(object(more, 'additional fields')['thinking'], { temperature, topP, isForced, limit, messages })
}

export function bedrockRules(body: JsonObject, request: Literal): void {
  onlyKeys(body, ['system', 'toolConfig', 'messages', 'inferenceConfig', 'additionalModelRequestFields'])
  bedrockThinking(body)
  const messages = objects(body['messages'], 'messages')
  checkTurns(messages, 'content', ['user', 'assistant'])
  const unmarked = messages.map((turn): JsonObject => {
    const content = objects(turn['content'], 'content').filter((block) => !('cachePoint' in block))
    return { ...turn, content }
  })
  checkPairs(unmarked, {
    calls: (turn) => memberOf(turn, 'toolUse').map(({ member }) => ({ id: String(member['toolUseId']), name: '' })),
    results: (turn) => memberOf(turn, 'toolResult').map(({ member, at }) => ({ id: String(member['toolUseId']), at })),
  })
  const system = 'system' in body ? objects(body['system'], 'system') : []
  for (const block of system) converseBlock(block, ['text', 'cachePoint'])
  for (const turn of messages) {
    const mine = turn['role'] === 'user' ? ['text', 'image', 'toolResult'] : ['text', 'toolUse']
    for (const block of objects(turn['content'], 'content')) converseBlock(block, [...mine, 'cachePoint'])
    must(!('cachePoint' in (objects(turn['content'], 'content')[0] ?? {})), 'a cache point ends something', turn)
  }
  const last = unmarked.at(-1)
  if (last?.['role'] === 'assistant') checkPrefill(objects(last['content'], 'content').at(-1)?.['text'])
  const tools = bedrockTools(body, messages)
  if (request.toolChoice?.mode === 'none') must(!('toolConfig' in body), 'none means no tools', body)
  checkMarks([...tools, ...system, ...messages].flatMap(ttlsIn))
  const config = object(body['inferenceConfig'] ?? {}, 'inferenceConfig')
  onlyKeys(config, ['maxTokens', 'temperature', 'topP', 'stopSequences'])
  if ('temperature' in config) must(Number(config['temperature']) <= 1, 'temperature to 1', config)
}

function memberOf(turn: JsonObject, name: string): { readonly member: JsonObject; readonly at: number }[] {
  const content = isArray(turn['content']) ? turn['content'].filter(isObject) : []
  return content.flatMap((block, at) => (isObject(block[name]) ? [{ member: block[name], at }] : []))
}

function converseBlock(block: JsonObject, kinds: readonly string[]): void {
  const keys = Object.keys(block)
  const [kind = ''] = keys
  must(keys.length === 1 && kinds.includes(kind), 'a union with one known member', block)
  if (kind === 'text') must(isSolid(block['text']), 'text is not blank', block)
  if (kind === 'image') must(object(block['image'], 'image')['format'] === 'jpeg', 'a known format', block)
  if (kind === 'toolUse') must(isObject(object(block['toolUse'], 'toolUse')['input']), 'input is an object', block)
  if (kind === 'toolResult') {
    const content = objects(object(block['toolResult'], 'toolResult')['content'], 'content')
    must(content.length > 0, 'a result has content', block)
    for (const part of content) converseBlock(part, ['text'])
  }
}

function bedrockTools(body: JsonObject, messages: readonly JsonObject[]): JsonObject[] {
  const used = messages.some((turn) => memberOf(turn, 'toolUse').length + memberOf(turn, 'toolResult').length > 0)
  must(!used || 'toolConfig' in body, 'toolConfig is defined if tools were used', body)
  if (!('toolConfig' in body)) return []
  const config = object(body['toolConfig'], 'toolConfig')
  const tools = objects(config['tools'], 'tools')
  const specs = tools.filter((tool) => !('cachePoint' in tool)).map((tool) => object(tool['toolSpec'], 'toolSpec'))
  must(specs.length > 0, 'there is a tool', config)
  checkNames(
    specs.map((spec) => string(spec['name'], 'name')),
    /^[a-zA-Z0-9_-]{1,64}$/,
  )
  for (const spec of specs)
    must(object(object(spec['inputSchema'], 'schema')['json'], 'json')['type'] === 'object', 'type object', spec)
  const choice = config['toolChoice']
  if (isObject(choice)) must(/^(auto|any|tool)$/.test(Object.keys(choice).join()), 'choice', choice)
  return tools
}

export function geminiRules(body: JsonObject): void {
  onlyKeys(body, ['systemInstruction', 'tools', 'toolConfig', 'contents', 'generationConfig'])
  const contents = objects(body['contents'], 'contents')
  checkTurns(contents, 'parts', ['user', 'model'])
  checkPairs(contents, {
    calls: (turn) => partsOf(turn, 'functionCall').map(({ part }) => ({ id: String(part['id']), name: '' })),
    results: (turn) => partsOf(turn, 'functionResponse').map(({ part, at }) => ({ id: String(part['id']), at })),
  })
  const nameOf = new Map<unknown, unknown>()
  for (const turn of contents) {
    for (const { part } of partsOf(turn, 'functionCall')) {
      must(isObject(part['args']), 'args is an object', part)
      nameOf.set(part['id'], part['name'])
    }
    for (const { part } of partsOf(turn, 'functionResponse')) {
      must(part['name'] === nameOf.get(part['id']), 'a response has the name of its call', part)
      must(isObject(part['response']), 'response is an object', part)
    }
    for (const part of objects(turn['parts'], 'parts')) if ('text' in part) must(isSolid(part['text']), 'text', part)
    for (const { part } of partsOf(turn, 'inlineData'))
      must(/^image\/(?:png|jpeg|webp|heic|heif)$/.test(String(part['mimeType'])), 'a media type that is known', part)
  }
  const config = object(body['generationConfig'] ?? {}, 'generationConfig')
  const stops = config['stopSequences']
  if (stops !== undefined) must(isArray(stops) && stops.length > 0, 'stops are not empty', config)
  geminiTools(body, config)
}

function partsOf(turn: JsonObject, name: string): { readonly part: JsonObject; readonly at: number }[] {
  const parts = isArray(turn['parts']) ? turn['parts'].filter(isObject) : []
  return parts.flatMap((part, at) => (isObject(part[name]) ? [{ part: part[name], at }] : []))
}

function geminiTools(body: JsonObject, config: JsonObject): void {
  if (!('tools' in body)) {
    must(!('toolConfig' in body), 'no config without functions', body)
    return
  }
  const [tool] = objects(body['tools'], 'tools')
  const names = objects(tool?.['functionDeclarations'], 'declarations').map((each) => string(each['name'], 'name'))
  must(names.length > 0, 'there is a function', body)
  checkNames(names, /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/)
  must(!('responseMimeType' in config), 'JSON mode and functions exclude each other', body)
  const calling = object(object(body['toolConfig'] ?? {}, 'toolConfig')['functionCallingConfig'] ?? {}, 'calling')
  const allowed = calling['allowedFunctionNames']
  if (allowed === undefined) return
  must(calling['mode'] === 'ANY', 'names go with ANY', calling)
  must(isArray(allowed) && allowed.every((name) => names.includes(String(name))), 'names are declared', calling)
}

/** Without ids, which Vertex AI rejects: the results of a turn are those of the calls before it, in their order. */
export function vertexGeminiRules(body: JsonObject): void {
  let names: readonly string[] = []
  let prefix = ''
  const contents = objects(body['contents'], 'contents').map((turn, at): JsonObject => {
    const calls = partsOf(turn, 'functionCall').map(({ part }) => part)
    const results = partsOf(turn, 'functionResponse').map(({ part }) => part)
    for (const part of [...calls, ...results]) must(part['id'] === undefined, 'no ids', part)
    must(results.map(({ name }) => name).join() === names.join(), 'results in the order of the calls', [names, turn])
    const numbered = withIds(turn, 'functionResponse', prefix)
    names = calls.map(({ name }) => String(name))
    prefix = `turn-${at}`
    return withIds(numbered, 'functionCall', prefix)
  })
  geminiRules({ ...body, contents })
}

/** The turn with numbered ids in the parts that have a member. */
function withIds(turn: JsonObject, name: string, prefix: string): JsonObject {
  let number = 0
  const parts = objects(turn['parts'], 'parts').map((part) => {
    const member = part[name]
    return isObject(member) ? { ...part, [name]: { ...member, id: `${prefix}-${number++}` } } : part
  })
  return { ...turn, parts }
}

/** The model is in the address, and the version in the body. */
export function vertexClaudeRules(body: JsonObject, request: Literal): void {
  const { anthropic_version: version, ...rest } = body
  must(version === 'vertex-2023-10-16', 'the version', body)
  must(!('model' in rest) && !('service_tier' in rest), 'no model, no service tier', body)
  anthropicRules(rest, request)
}

/** The model and the streaming are in the address, and the version in the body. */
export function bedrockClaudeRules(body: JsonObject, request: Literal): void {
  const { anthropic_version: version, ...rest } = body
  must(version === 'bedrock-2023-05-31', 'the version', body)
  must(!('model' in rest) && !('stream' in rest) && !('cache_control' in rest), 'no model, no stream, no mark', body)
  anthropicRules({ ...rest, ...(request.stream === true && { stream: true }) }, request)
}
