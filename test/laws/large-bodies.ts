/** Large bodies of every dialect for tests: as agents send them, with something unusual now and then, and damaged. */

import type { JsonObject, JsonValue } from '../../src/core/json.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import type { Random } from '../support/random.ts'
import { inputOfAgent, inside } from './agent-json.ts'

/** JSON of a value whose strings `@` are the insides of long strings. */
export function written(value: JsonValue, random: Random, bytesMax = 6000): string {
  return JSON.stringify(value).replaceAll('"@"', () => `"${inside(random, bytesMax)}"`)
}

export const long = '@'
const schema = { type: 'object', properties: { content: { type: 'string', description: long }, text: { const: long } } }

function callArguments(random: Random): string {
  const json = random.pick([
    '{"path":"a","content":"@"}',
    '{"a":{"b":[1,2,"@"]}}',
    '[1,"@"]',
    '"@"',
    '{"cut":"@',
    '   ',
    ' null',
    ' {"a":"@"}',
    `{"a":${'['.repeat(200)}${']'.repeat(200)},"b":"@"}`,
  ])
  const inner = json.replaceAll('@', () => inside(random, 3000))
  return JSON.stringify(inner).slice(1, -1)
}

/** Nearly always an object; now and then with an escape that hides another one. */
function argumentsOfAgent(random: Random): string {
  if (random.chance(0.03)) return callArguments(random)
  if (random.chance(0.03)) return '{\\"a\\":\\"\\\\\\u0041\\"}'
  const json = random.pick(['{"path":"a","content":"@"}', '{"a":{"b":[1,2.50,"@"]}, "2":null}\n', '{}'])
  return JSON.stringify(json.replaceAll('@', () => inside(random, 3000))).slice(1, -1)
}

const MESSAGES: Readonly<Record<DialectName, (random: Random) => JsonValue>> = {
  chat: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long, name: long },
      {
        role: 'user',
        content: [
          { type: 'text', text: long, cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'a' },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } },
          { type: 'text', text: long },
        ],
      },
      { role: 'system', content: random.pick([long, ' ', '']) },
      {
        role: 'system',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: long, content: long },
        ],
      },
      {
        role: 'assistant',
        content: long,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '#' } }],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', function: { name: 'g', arguments: { content: long } } }],
      },
      {
        role: 'assistant',
        content: [
          { type: 'refusal', refusal: long },
          { type: 'text', text: long },
        ],
      },
      { role: 'tool', tool_call_id: 'c', content: long },
      {
        role: 'tool',
        tool_call_id: 'c',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: long },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: { text: long } }] },
      { role: long, content: long },
      { content: long, unknown: [long, { text: long }] },
    ]),
  messages: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long },
      {
        role: 'user',
        content: [
          { type: 'text', text: long },
          { type: 'text', text: 'b', cache_control: { type: 'ephemeral' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: long },
          { type: 'tool_use', id: 'c', name: 'f', input: { content: long, list: [long, { text: long }] } },
        ],
      },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'g', input: {} }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'c', content: long, is_error: random.chance(0.5) }],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'text', text: long },
              { type: 'text', text: long },
            ],
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD' } },
          { type: 'text', text: long },
        ],
      },
      { role: 'user', content: [{ type: 'document', text: long }] },
      { role: 'assistant', content: long },
    ]),
  responses: (random) =>
    random.pick<JsonValue>([
      { role: 'user', content: long },
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: long }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: long }] },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '#' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: { content: long } },
      { type: 'function_call_output', call_id: 'c', output: long },
      { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: long }] },
      { type: 'function_call_output', call_id: 'c', output: { text: long, content: [long] } },
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: long }], encrypted_content: long },
      { type: 'additional_tools', tools: [{ type: 'function', name: 'h', description: long, parameters: schema }] },
      { type: 'message', content: { text: long } },
    ]),
}

const BODIES: Readonly<Record<DialectName, (random: Random) => JsonObject>> = {
  chat: (random) => ({
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.chat(random))],
    tools: random.chance(0.6)
      ? [{ type: 'function', function: { name: 'f', description: long, parameters: schema } }]
      : null,
    stop: random.chance(0.2) ? [long] : null,
    user: random.chance(0.2) ? long : null,
    metadata_: long,
  }),
  messages: (random) => ({
    model: 'm',
    system: random.pick<JsonValue>([long, [{ type: 'text', text: long, cache_control: { type: 'ephemeral' } }], null]),
    messages: [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.messages(random))],
    tools: random.chance(0.6) ? [{ name: 'f', description: long, input_schema: schema }] : null,
    metadata: { user_id: long },
  }),
  responses: (random) => ({
    model: 'm',
    instructions: random.chance(0.5) ? long : null,
    input: random.chance(0.1)
      ? long
      : [{ role: 'user', content: 'Hi' }, ...random.list(12, () => MESSAGES.responses(random))],
    tools: random.chance(0.6) ? [{ type: 'function', name: 'f', description: long, parameters: schema }] : null,
    text: { format: { type: 'text' } },
  }),
}

/** A conversation as agents send it, now and then with something that makes a message unusual. */
function usualChat(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.03) ? random.pick(others) : usual)
  const rest = () => (random.chance(0.1) ? { name: 'n', unknown: [1.5, { a: [true, null, {}] }] } : {})
  const call = (id: string) => ({
    id: odd<JsonValue>(id, 7, long),
    type: odd<JsonValue>('function', null, 'custom'),
    function: { name: odd('read_file', '1st', 'a b', ''), arguments: odd<JsonValue>('#', '', {}), ...rest() },
    ...odd({}, { index: 0 }, { cache_control: null }),
  })
  const step = (own: string): JsonObject[] => {
    const id = odd(own, 'call_0', 'a b')
    return [
      {
        role: 'assistant',
        content: odd<JsonValue>(random.pick([long, null]), '', [], [{ type: 'text', text: long }]),
        tool_calls: odd<JsonValue>(random.chance(0.5) ? [call(id)] : [call(id), call(`${id}b`)], [], null),
        ...rest(),
        ...odd({}, { refusal: null }, { refusal: long }, { tool_call_id: 'x' }),
      },
      ...odd([], [question()]),
      {
        role: 'tool',
        tool_call_id: odd<JsonValue>(id, null),
        content: odd<JsonValue>(long, '', null, '  '),
        ...rest(),
      },
    ]
  }
  const question = (): JsonObject => ({
    role: odd('user', 'developer', 'human'),
    content: odd<JsonValue>(
      long,
      '',
      null,
      [{ type: 'text', text: long }],
      [
        { type: 'text', text: long },
        { type: 'text', text: 'and', ...rest() },
      ],
    ),
    ...odd({}, { cache_control: { type: 'ephemeral' } }, { tool_calls: [] }),
  })
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), { role: 'assistant', content: odd(long, '') }] : step(`call_${at}`),
  )
  const tool = (name: string) => ({
    type: odd('function', 'web_search'),
    function: {
      name: odd(name, 'a b'),
      description: odd<JsonValue>(long, null),
      parameters: odd<JsonValue>(schema, []),
    },
    ...odd({}, { cache_control: { type: 'ephemeral' } }),
  })
  const body: JsonObject = {
    model: 'm',
    messages: [{ role: 'system', content: odd(long, '') }, question(), ...steps.flat()],
    ...(random.chance(0.8) ? { tools: [tool('read_file'), tool('write_file')] } : random.pick([{}, { tools: [] }])),
    tool_choice: random.pick<JsonValue>([null, 'auto', { type: 'function', function: { name: odd('f', 'a b') } }]),
    max_tokens: 10,
  }
  const json = written(body, random, 3000).replaceAll('"#"', () => `"${argumentsOfAgent(random)}"`)
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" : ').replaceAll('},{', '},\n{') : json
  return random.chance(0.05)
    ? blanks.replace('"role"', () => random.pick(['"role":"user","role"', '"rol\\u0065"']))
    : blanks
}

/** The same in Messages. */
function usualMessages(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.03) ? random.pick(others) : usual)
  const mark = (): JsonObject =>
    random.chance(0.05)
      ? {
          cache_control: odd<JsonValue>(
            { type: 'ephemeral' },
            null,
            { type: 'ephemeral', ttl: '1h' },
            { ttl: '5m', type: 'ephemeral', scope: 'global' },
            { type: 'other' },
          ),
        }
      : {}
  const rest = (): JsonObject => (random.chance(0.05) ? { citations: null, extra: [1.5, { a: [true, {}, []] }] } : {})
  /** A block whose members are in any order. */
  const block = (members: JsonObject): JsonObject => {
    const all = Object.entries({ ...members, ...mark(), ...rest() })
    return Object.fromEntries(random.chance(0.3) ? all.reverse() : all)
  }
  const text = (): JsonObject => block({ type: 'text', text: odd<JsonValue>(long, '', '  ', 'ok', 7) })
  const image = (): JsonObject =>
    block({
      type: 'image',
      source: {
        type: odd('base64', 'url'),
        media_type: odd<JsonValue>('image/png', 'IMAGE/JPG', 'image/jpg', 'text/plain', null),
        data: odd<JsonValue>('QUJD', '', 7),
        ...rest(),
      },
    })
  const textOrImage = (): JsonObject => (random.chance(0.3) ? image() : text())
  const call = (id: string): JsonObject =>
    block({
      type: odd('tool_use', 'thinking'),
      id: odd<JsonValue>(id, 'call_0', 'a b', '', 7),
      name: odd('read_file', '1st', 'a b', ''),
      input: odd<JsonValue>(
        random.pick<JsonValue>(['#', { path: 'a', content: long, more: [1, { b: long }] }]),
        {},
        [],
      ),
    })
  const result = (id: string): JsonObject =>
    block({
      type: 'tool_result',
      tool_use_id: odd<JsonValue>(id, 'a b', null),
      ...odd<JsonObject>({ content: long }, {}, { content: null }, { content: '' }, { content: [] }, { content: ' ' }),
      ...(random.chance(0.1) ? { content: random.list(3, random.chance(0.5) ? text : textOrImage) } : {}),
      ...(random.chance(0.5) ? { is_error: odd<JsonValue>(random.chance(0.5), null, 'no') } : {}),
    })
  const step = (id: string): JsonObject[] => {
    const ids = random.chance(0.5) ? [id] : [id, `${id}b`]
    return [
      { role: 'assistant', content: [...(random.chance(0.5) ? [text()] : []), ...ids.map(call), ...odd([], [text()])] },
      {
        role: 'user',
        content: [...odd([], [text()]), ...ids.map(result), ...(random.chance(0.1) ? [textOrImage()] : [])],
        ...rest(),
      },
    ]
  }
  const question = (): JsonObject => ({
    role: odd('user', 'system', 'human'),
    content: odd<JsonValue>([text()], long, '', [], [text(), textOrImage()], [image()], [{ type: 'image' }]),
  })
  const answer = (): JsonObject => ({ role: 'assistant', content: odd<JsonValue>([text()], long, '', [], '  ') })
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), answer()] : step(`call_${at}`),
  )
  const tool = (name: string): JsonObject => ({
    ...odd<JsonObject>({ name: odd(name, 'a b') }, { name, type: 'custom' }, { name, type: 'web_search_20250305' }),
    description: odd<JsonValue>(long, null),
    input_schema: odd<JsonValue>(schema, { properties: {} }, [], { ...schema, type: ['object'] }),
    ...odd({}, { strict: true }, { strict: null }, { defer_loading: true }),
    ...mark(),
  })
  const beginning = { model: odd('m', ''), ...odd({}, { cache_control: { type: 'ephemeral' } }) }
  const system = odd<JsonObject>(
    { system: [text(), ...odd([], [text()])] },
    {},
    { system: long },
    { system: null },
    { system: [] },
    { system: [{ type: 'image' }] },
  )
  const turns = {
    messages: [...odd([question()], [], [question(), question()]), ...steps.flat(), ...odd([question()], [])],
  }
  const body: JsonObject = {
    ...beginning,
    ...(random.chance(0.5) ? { ...system, ...turns } : { ...turns, ...system }),
    ...odd({ tools: [tool('read_file'), tool('write_file')] }, {}, { tools: [] }),
    tool_choice: random.pick<JsonValue>([null, { type: 'auto' }, { type: 'tool', name: odd('f', 'a b') }]),
    max_tokens: 10,
  }
  const json = written(body, random, 3000).replaceAll('"#"', () => inputOfAgent(random))
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" : ').replaceAll('},{', '},\n{') : json
  return random.chance(0.05)
    ? blanks
        .replace('"role"', () => random.pick(['"role":"user","role"', '"rol\\u0065"', '"x":1e999,"role"']))
        .replace('"type"', () => random.pick(['"type":"text","type"', '"typ\\u0065"', '"type"']))
    : blanks
}

/** The same in Responses. */
function usualResponses(random: Random): string {
  const odd = <T>(usual: T, ...others: readonly [T, ...T[]]) => (random.chance(0.01) ? random.pick(others) : usual)
  const rest = (): JsonObject =>
    random.chance(0.2)
      ? random.pick<JsonObject>([
          { id: 'fc_1', status: 'completed' },
          { internal: [1.5, { a: [true, {}, []], type: 'message', role: 'user' }] },
        ])
      : {}
  /** An item or a part whose members are in any order. */
  const shuffled = (members: JsonObject): JsonObject => {
    const all = Object.entries({ ...rest(), ...members, ...rest() })
    return Object.fromEntries(random.chance(0.3) ? all.reverse() : all)
  }
  const text = (type: string): JsonObject =>
    shuffled({
      type: odd(type, 'text', 'refusal', 'input_image', 'reasoning_text'),
      text: odd<JsonValue>(random.chance(0.1) ? '' : long, 7, null),
      ...odd({}, { annotations: [], logprobs: [] }, { cache_control: null }, { cache_control: { type: 'ephemeral' } }),
    })
  const picture: JsonObject = { type: 'input_image', image_url: 'data:image/png;base64,QUJD', detail: 'high' }
  const message = (role: string, type: string): JsonObject =>
    shuffled({
      ...(random.chance(0.7) ? { type: odd<JsonValue>('message', null, 'Message') } : {}),
      role: random.chance(0.01) ? 'escaped' : odd<JsonValue>(role, 'human', null, 'system', 'developer'),
      content: odd<JsonValue>(
        random.pick<JsonValue>([long, [text(type)], [text(type), text(type)], [text(type), picture]]),
        '',
        [],
        null,
        [picture],
        [text(type), 'and'],
        { text: long },
      ),
    })
  const question = () => message(odd('user', 'system', 'developer'), 'input_text')
  const thought = (): JsonObject =>
    random.pick<JsonObject>([
      shuffled({ type: 'reasoning', summary: [], content: null, encrypted_content: long }),
      { type: 'reasoning', summary: [{ type: 'summary_text', text: long }], content: [{ type: 'reasoning_text' }] },
      { type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: long },
      { type: 'custom_tool_call_output', call_id: 'c', output: long },
      { type: 'web_search_call', action: { type: 'search', query: long } },
    ])
  const call = (id: string): JsonObject =>
    shuffled({
      type: odd('function_call', 'mcp_call', 'compaction', 'item_reference'),
      call_id: odd<JsonValue>(id, 'call_0', 'a b', 'c\u0001', '', 7),
      name: odd('read_file', '1st', 'a b', ''),
      arguments: odd<JsonValue>('#', '', null, {}),
      ...odd({}, { namespace: null }, { namespace: '' }, { namespace: 'mcp' }),
    })
  const output = (id: string): JsonObject =>
    shuffled({
      type: 'function_call_output',
      call_id: odd<JsonValue>(id, 'call_0', 'nothing', null),
      ...odd<JsonObject>(
        { output: random.chance(0.8) ? long : [text('input_text'), text('input_text')] },
        { output: '' },
        { output: [] },
        { output: null },
        { output: [picture] },
        { output: { text: long } },
        {},
      ),
    })
  const few = <T>(share: number, make: () => T): readonly T[] => (random.chance(share) ? [make()] : [])
  const step = (id: string): JsonObject[] => {
    const ids = random.chance(0.5) ? [id] : [id, `${id}b`, ...few(0.2, () => id)]
    const outputs = ids.map(output)
    return [
      ...few(0.3, thought),
      ...few(0.6, () => message('assistant', 'output_text')),
      ...ids.map(call),
      ...few(0.1, () => message('assistant', 'output_text')),
      ...few(0.1, thought),
      ...odd<JsonObject[]>([], [question()]),
      ...random.pick([outputs, outputs, outputs, outputs, outputs, outputs, outputs.toReversed(), []]),
    ]
  }
  const steps = Array.from({ length: random.between(1, 8) }, (_, at) =>
    random.chance(0.2) ? [question(), message('assistant', 'output_text')] : step(`call_${at}`),
  )
  const tool = (name: string): JsonObject =>
    shuffled({
      type: odd('function', 'custom', 'web_search', 'namespace'),
      name: odd<JsonValue>(name, 'read_file', 'a b', '', 7),
      ...odd<JsonObject>({ description: long }, {}, { description: null }, { description: '' }),
      ...odd<JsonObject>({ parameters: schema }, {}, { parameters: null }, { parameters: {} }, { parameters: [] }),
      ...random.pick<JsonObject>([{}, { strict: false }, { strict: true }, { strict: null }, { strict: 'no' }]),
    })
  const beginning: JsonObject = {
    model: odd('m', ''),
    ...odd<JsonObject>({ instructions: long }, {}, { instructions: null }, { instructions: '' }, { instructions: 7 }),
  }
  const items = [...odd([question()], [], [question(), question()]), ...steps.flat(), ...odd([question()], [])]
  const input: JsonObject = { input: odd<JsonValue>(items, long, '', [], [question(), 7]) }
  const offered = [tool('read_file'), ...few(0.2, () => ({ type: 'web_search' })), tool('write_file')]
  if (random.chance(0.1)) offered.push(tool('read_file'))
  const body: JsonObject = {
    ...(random.chance(0.5) ? { ...beginning, ...input } : { ...input, ...beginning }),
    ...odd<JsonObject>({ tools: offered }, {}, { tools: [] }, { tools: null }, { tools: [{ type: 'web_search' }] }),
    tool_choice: random.pick<JsonValue>([null, 'auto', 'required', { type: 'function', name: 'read_file' }]),
    ...odd({}, { temperature: 9 }),
    store: false,
    reasoning: { effort: 'high', summary: null },
    include: ['reasoning.encrypted_content'],
  }
  const json = written(body, random, 3000)
    .replaceAll('"#"', () => `"${argumentsOfAgent(random)}"`)
    .replaceAll('"escaped"', '"assist\\u0061nt"')
  const blanks = random.chance(0.3) ? json.replaceAll('":', '" :\r\n').replaceAll('},{', '},\n{') : json
  const again = () =>
    random.pick(['"role":"user","role"', '"rol\\u0065"', '"x":1e999,"role"', '"type":"message","role"'])
  const twice = () =>
    random.pick(['"type":"message","type"', '"typ\\u0065"', '"type":"functi\\u006fn_call","x"', '"call_id":"z","type"'])
  if (random.chance(0.05)) return blanks.replace('"role"', again)
  return random.chance(0.05) ? blanks.replace('"type"', twice) : blanks
}

export function bodyOf(name: DialectName, random: Random, bytesMax?: number): string {
  return written(BODIES[name](random), random, bytesMax).replaceAll('"#"', () => `"${callArguments(random)}"`)
}

/** One change that leaves most of a body as it is. */
export function mutated(bytes: Uint8Array, random: Random): Uint8Array {
  const at = random.below(bytes.length)
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  const put = random.pick(['"', '\\', '\n', '\u0001', '{', '}', ',', ':', '\\u12', '\\x', 'é', '\ufeff'])
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, after.subarray(1)])
    case 1:
      return Buffer.concat([before, Buffer.of(random.below(256)), after.subarray(1)])
    case 2:
      return Buffer.concat([before, Buffer.from(put), after])
    case 3:
      return Buffer.concat([before, after.subarray(random.below(40)), bytes.subarray(at, at + 30)])
    default:
      return before
  }
}

/** A conversation as agents send it in each dialect. */
export const USUAL: Readonly<Record<DialectName, (random: Random) => string>> = {
  chat: usualChat,
  messages: usualMessages,
  responses: usualResponses,
}
