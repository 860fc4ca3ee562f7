/**
 * Bodies that cost as much as a body of their size can: of every dialect, with every field that may be long, deep or
 * repeated.
 */

import { compactionItem } from '../../src/dialects/responses/compaction.ts'
import { itemText } from './item-text.ts'
import type { Random } from './random.ts'
import { type Body, itemStore, ORGANIZATION, type Path, sealer } from './request-path.ts'

/** The largest body of the cost law. Repeated units reach the limits of a body at this size. */
export const LARGEST = 8 * 1024 * 1024
/** A little below the limit on the number of values in a body. */
const VALUES = 240_000

export interface HeavyBody {
  readonly name: string
  /** A body of at most `bytes` bytes. `dense`: with as many values as the smallest units allow. */
  readonly make: (bytes: number, dense: boolean) => Body
}

/** One unit of a list: its index, and a text that pads it to its size. */
type Unit = (index: number, pad: string) => string

interface Shape {
  readonly path: Path
  /** The text before and after the list of units. */
  readonly before: string
  readonly after: string
  /** The commas and colons in a unit. */
  readonly values: number
  readonly unit: Unit
}

function many({ path, before, after, values, unit }: Shape): HeavyBody['make'] {
  return (bytes, dense) => {
    const room = bytes - before.length - after.length
    const least = unit(VALUES, '').length + 1
    const wanted = dense ? least : Math.max(least, Math.ceil((LARGEST * (values + 1)) / VALUES))
    const count = Math.max(1, Math.min(Math.floor(room / wanted), Math.floor(VALUES / (values + 1))))
    const size = dense ? least : Math.floor(room / count)
    const pad = 'x'.repeat(Math.max(0, size - least))
    const units = Array.from({ length: count }, (_, index) => unit(index, pad))
    return { path, bytes: Buffer.from(before + units.join() + after) }
  }
}

const head: Readonly<Record<Path, string>> = {
  chat: '{"model":"m",',
  responses: '{"model":"m",',
  compact: '{"model":"m",',
  messages: '{"model":"m","max_tokens":10,',
  count: '{"model":"m",',
  generations: '{"model":"i","prompt":"p",',
  edits: '{"model":"i","prompt":"p",',
  form: '',
}

/** The rest of a body whose long field is another one. */
const rest: Readonly<Record<Path, string>> = {
  chat: ',"messages":[{"role":"user","content":"Hi"}]}',
  responses: ',"input":"Hi"}',
  compact: ',"input":"Hi"}',
  messages: ',"messages":[{"role":"user","content":"Hi"}]}',
  count: ',"messages":[{"role":"user","content":"Hi"}]}',
  generations: '}',
  edits: '}',
  form: '',
}

const LONG_ID = 'a'.repeat(56)
const LISTS: Partial<Record<Path, string>> = {
  chat: 'messages',
  messages: 'messages',
  count: 'messages',
  responses: 'input',
  compact: 'input',
}

function listed(
  path: Path,
  values: number,
  unit: Unit,
  around: readonly [string, string] = ['', ''],
): HeavyBody['make'] {
  return many({ path, values, unit, before: `${head[path]}"${LISTS[path]}":[${around[0]}`, after: `${around[1]}]}` })
}

function field(path: Path, values: number, unit: Unit, around: readonly [string, string]): HeavyBody['make'] {
  return many({ path, values, unit, before: `${head[path]}${around[0]}`, after: `${around[1]}${rest[path]}` })
}

const heavy: HeavyBody[] = []
const add = (name: string, make: HeavyBody['make']) => heavy.push({ name, make })

const hex = (index: number) => index.toString(36).padStart(6, '0')

// Messages of every role, small and many.
for (const role of ['user', 'system', 'developer', 'assistant']) {
  add(
    `chat: many ${role} messages`,
    listed('chat', 3, (i, pad) => `{"role":"${role}","content":"${hex(i)}${pad}"}`),
  )
  add(
    `chat: many parts of a ${role} message`,
    listed('chat', 3, (i, pad) => `{"type":"text","text":"${hex(i)}${pad}"}`, [`{"role":"${role}","content":[`, ']}']),
  )
  add(
    `chat: many marked parts of a ${role} message`,
    listed(
      'chat',
      7,
      (i, pad) => `{"type":"text","text":"${hex(i)}${pad}","cache_control":{"type":"ephemeral","ttl":"1h"}}`,
      [`{"role":"${role}","content":[`, ']}'],
    ),
  )
}
add(
  'chat: users and assistants in turn',
  listed('chat', 3, (i, pad) => `{"role":"${i % 2 ? 'assistant' : 'user'}","content":"${pad}"}`),
)
add(
  'chat: results of no call',
  listed('chat', 5, (i, pad) => `{"role":"tool","tool_call_id":"${LONG_ID}:${hex(i)}","content":"${pad}"}`),
)
add(
  'chat: results with illegal ids as long as can be',
  listed('chat', 5, (i, pad) => `{"role":"tool","tool_call_id":"${pad}:${hex(i)}","content":""}`),
)
const call = (id: string, name: string, args: string) =>
  `{"id":"${id}","type":"function","function":{"name":"${name}","arguments":"${args}"}}`
const calls = (around: readonly [string, string] = ['{"role":"assistant","tool_calls":[', ']}']) => around
add(
  'chat: calls whose ids share their beginning',
  listed('chat', 11, (i, pad) => call(`${LONG_ID}${hex(i)}`, 'f', pad), calls()),
)
add(
  'chat: calls whose ids share more than a provider takes',
  listed('chat', 11, (i, pad) => call(`${LONG_ID}${LONG_ID}${hex(i)}`, 'f', pad), calls()),
)
add(
  'chat: calls of ids that share their beginning, each twice',
  listed('chat', 11, (i, pad) => call(`${LONG_ID}${hex(i >> 1)}`, 'f', pad), calls()),
)
add(
  'messages: calls of ids that share their beginning, each twice',
  listed(
    'messages',
    7,
    (i, pad) => `{"type":"tool_use","id":"${LONG_ID}${hex(i >> 1)}","name":"f","input":{"a":"${pad}"}}`,
    ['{"role":"assistant","content":[', ']}'],
  ),
)
add(
  'responses: calls of ids that share their beginning, each twice',
  listed(
    'responses',
    7,
    (i, pad) => `{"type":"function_call","call_id":"${LONG_ID}${hex(i >> 1)}","name":"f","arguments":"${pad}"}`,
  ),
)
add(
  'chat: calls of one id',
  listed('chat', 11, (_, pad) => call('same', 'f', pad), calls()),
)
add(
  'chat: calls of one id with its numbers taken',
  listed('chat', 11, (i, pad) => call(i % 2 ? `${LONG_ID}_${i}` : LONG_ID, 'f', pad), calls()),
)
add(
  'chat: calls of illegal names',
  listed('chat', 11, (i, pad) => call(hex(i), `${pad}.${hex(i)}`, ''), calls()),
)
add(
  'chat: calls of illegal ids',
  listed('chat', 11, (i, pad) => call(`${pad}.${hex(i)}`, 'f', ''), calls()),
)
add(
  'chat: messages of one call each',
  listed('chat', 14, (i, pad) => `{"role":"assistant","tool_calls":[${call(`${LONG_ID}${hex(i)}`, 'f', pad)}]}`),
)
add(
  'chat: calls and their results in turn',
  listed('chat', 8, (i, pad) =>
    i % 2
      ? `{"role":"tool","tool_call_id":"same","content":"${pad}"}`
      : `{"role":"assistant","tool_calls":[${call('same', 'f', '{}')}]}`,
  ),
)
add('chat: many calls of one id, then many results', (bytes, dense) => {
  const half = (bytes / 2) | 0
  const first = listed('chat', 11, (_, pad) => call('same', 'f', pad), calls())(half, dense)
  const second = listed('chat', 5, (_, pad) => `{"role":"tool","tool_call_id":"same","content":"${pad}"}`)(half, dense)
  const list = (body: Body) =>
    Buffer.from(body.bytes)
      .toString()
      .slice(head.chat.length + '"messages":['.length, -2)
  return { path: 'chat', bytes: Buffer.from(`${head.chat}"messages":[${list(first)},${list(second)}]}`) }
})
const escapedDeep = (units: number, open: string, close: string) => open.repeat(units) + close.repeat(units)
function args(name: string, inside: (room: number) => string): void {
  add(`chat: arguments of ${name}`, (bytes) => {
    const json = inside(bytes - 200)
    return {
      path: 'chat',
      bytes: Buffer.from(`${head.chat}"messages":[{"role":"assistant","tool_calls":[${call('a', 'f', json)}]}]}`),
    }
  })
  add(`responses: arguments of ${name}`, (bytes) => {
    const json = inside(bytes - 200)
    return {
      path: 'responses',
      bytes: Buffer.from(
        `${head.responses}"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"${json}"}]}`,
      ),
    }
  })
}
args('lists within lists', (room) => `{\\"a\\":${escapedDeep((room / 2) | 0, '[', ']')}}`)
args('objects within objects', (room) => `${'{\\"a\\":'.repeat((room / 9) | 0)}1${'}'.repeat((room / 9) | 0)}`)
args('many values', (room) => `{\\"a\\":[${'1,'.repeat((room / 2) | 0)}1]}`)
args('many empty objects', (room) => `{\\"a\\":[${'{},'.repeat((room / 3) | 0)}1]}`)
args('many members', (room) => `{${Array.from({ length: (room / 14) | 0 }, (_, i) => `\\"${hex(i)}\\":1`).join()}}`)
args('one long text of escapes', (room) => `{\\"a\\":\\"${'\\\\\\"'.repeat((room / 4) | 0)}\\"}`)
args('brackets that never close', (room) => '['.repeat(room))
args('quotes', (room) => '\\"'.repeat((room / 2) | 0))
args('blanks', (room) => ' '.repeat(room))
add(
  'chat: many calls with many values each',
  listed(
    'chat',
    11,
    (i, pad) => call(hex(i), 'f', `{\\"a\\":[${pad.replace(/xx/g, '1,').replace(/x$/, '1')}1]}`),
    calls(),
  ),
)
add(
  'chat: arguments that are no text',
  listed('chat', 1, () => '{}', [
    '{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"a":[',
    ']}}}]}',
  ]),
)
// Tools.
const chatTool = (name: string, more = '') => `{"type":"function","function":{"name":"${name}"${more}}}`
add(
  'chat: many tools',
  field('chat', 6, (i, pad) => chatTool(`${hex(i)}`, `,"description":"${pad}"`), ['"tools":[', ']']),
)
add(
  'chat: many tools of illegal names',
  field('chat', 5, (i, pad) => chatTool(`.${hex(i)}${pad}`), ['"tools":[', ']']),
)
add(
  'chat: many tools of illegal names alike',
  field('chat', 5, (i, pad) => chatTool(`${LONG_ID}${LONG_ID}.${hex(i)}${pad}`), ['"tools":[', ']']),
)
add(
  'chat: many tools and one that is wrong',
  field('chat', 6, (i, pad) => chatTool(`${hex(i)}`, `,"description":"${pad}"`), [
    '"tools":[',
    ',{"type":"function","function":{"name":3}}]',
  ]),
)
add(
  'chat: tools of other types',
  field('chat', 2, (i, pad) => `{"type":"${hex(i)}${pad}"}`, ['"tools":[', ']']),
)
add(
  'chat: a schema of many properties',
  field('chat', 4, (i, pad) => `"${hex(i)}${pad}":{"type":"string"}`, [
    '"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{',
    '}}}}]',
  ]),
)
add(
  'chat: a schema of many members',
  field('chat', 1, (i, pad) => `"${hex(i)}${pad}":1`, [
    '"tools":[{"type":"function","function":{"name":"f","parameters":{',
    '}}}]',
  ]),
)
add(
  'chat: a schema of many empty objects',
  field('chat', 1, () => '{}', ['"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[', ']}}}]']),
)
add(
  'chat: a schema of many texts',
  field('chat', 0, (i, pad) => `"${hex(i)}${pad}"`, [
    '"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[',
    ']}}}]',
  ]),
)
add(
  'chat: a schema as deep as may be',
  field('chat', 3, (_, pad) => `${'{"a":'.repeat(100)}"${pad}"${'}'.repeat(100)}`, [
    '"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[',
    ']}}}]',
  ]),
)
add('chat: allowed tools', (bytes, dense) => {
  const half = (bytes / 2) | 0
  const tools = field('chat', 5, (i, pad) => chatTool(`${hex(i)}${pad}`), ['"tools":[', ']'])(half, dense)
  const allowed = field('chat', 5, (i, pad) => chatTool(`${pad}${hex(i)}`), [
    '"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[',
    ']}}',
  ])(half, dense)
  const inner = Buffer.from(allowed.bytes).toString().slice(head.chat.length, -rest.chat.length)
  return {
    path: 'chat',
    bytes: Buffer.from(`${Buffer.from(tools.bytes).toString().slice(0, -rest.chat.length)},${inner}${rest.chat}`),
  }
})
add(
  'chat: allowed tools, one tool',
  field('chat', 5, (i, pad) => chatTool(`.${hex(i)}${pad}`), [
    `"tools":[${chatTool('f')}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[`,
    ']}}',
  ]),
)
// Other fields.
add(
  'chat: stops',
  field('chat', 0, (i, pad) => `"${hex(i)}${pad}"`, ['"stop":[', ']']),
)
add(
  'chat: stops, and one that is none',
  field('chat', 0, (i, pad) => `"${hex(i)}${pad}"`, ['"stop":[', ',3]']),
)
add(
  'chat: blank stops',
  field('chat', 0, () => '""', ['"stop":[', ']']),
)
add(
  'chat: logit bias',
  field('chat', 1, (i) => `"${hex(i)}":1`, ['"logit_bias":{', '}']),
)
add(
  'chat: logit bias of a long wrong key',
  field('chat', 0, (_, pad) => `"/${pad.replaceAll('x', '/')}":"a"`, ['"logit_bias":{', '}']),
)
add(
  'chat: response format',
  field('chat', 1, (i, pad) => `"${hex(i)}${pad}":{}`, ['"response_format":{', '}']),
)
add(
  'chat: prompt cache options',
  field('chat', 1, (i, pad) => `"${hex(i)}${pad}":{}`, ['"prompt_cache_options":{', '}']),
)
add(
  'chat: unknown fields',
  field('chat', 1, (i, pad) => `"${hex(i)}${pad}":{}`, ['', '']),
)
add('chat: a long model', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(`{"model":"${'m'.repeat(bytes)}"${rest.chat}`),
}))
add('chat: a long wrong role', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(`${head.chat}"messages":[{"role":"${'m'.repeat(bytes)}"}]}`),
}))
add(
  'chat: refusals',
  listed('chat', 3, (i, pad) => `{"type":"refusal","refusal":"${hex(i)}${pad}"}`, [
    '{"role":"assistant","content":[',
    ']}',
  ]),
)
// Images and other parts.
const png = 'iVBORw0KGgoAAAANSUhEUgAABAAAAAQA'
const jpeg = '/9j/4AAQSkZJRgABAQAAAQABAAD/'
add(
  'chat: pictures',
  listed('chat', 5, (_, pad) => `{"type":"image_url","image_url":{"url":"data:image/png;base64,${png}${pad}"}}`, [
    '{"role":"user","content":[',
    ']}',
  ]),
)
add(
  'chat: JPEG pictures without an end of their headers',
  listed(
    'chat',
    5,
    (_, pad) => {
      const filling = '/'.repeat(4000) + pad.slice(4000).replaceAll('x', '/')
      return `{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,${jpeg}${filling}"}}`
    },
    ['{"role":"user","content":[', ']}'],
  ),
)
add(
  'chat: pictures by address',
  listed('chat', 4, (i, pad) => `{"type":"image_url","image_url":"https://a.test/${pad}.${hex(i)}"}`, [
    '{"role":"user","content":[',
    ']}',
  ]),
)
add('chat: a data address of many parameters', (bytes) => ({
  path: 'chat',
  bytes: imageUrlBody(`data:image/png${';a'.repeat((bytes / 2) | 0)}`),
}))
add('chat: a data address of one long type', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(
    `${head.chat}"messages":[{"role":"user","content":[{"type":"image_url","image_url":"data:${'a'.repeat(bytes)}"}]}]}`,
  ),
}))
add('chat: an address of many dots', (bytes) => ({
  path: 'chat',
  bytes: imageUrlBody(`https://${'.png'.repeat((bytes / 4) | 0)}`),
}))
for (const [what, label] of [
  ['nothing but dots', '.'],
  ['short labels', 'a.'],
  ['labels beyond ASCII', '\u00fc.'],
] as const) {
  add(`chat: an address whose host has ${what}`, (bytes) => ({
    path: 'chat',
    bytes: imageUrlBody(`https://a${label.repeat((bytes / Buffer.byteLength(label)) | 0)}x/`),
  }))
}
add(
  'chat: files',
  listed('chat', 5, (_, pad) => `{"type":"file","file":{"file_data":"${pad}"}}`, ['{"role":"user","content":[', ']}']),
)
add(
  'chat: sounds of many members',
  listed('chat', 1, (i, pad) => `"${hex(i)}${pad}":1`, [
    '{"role":"user","content":[{"type":"input_audio","input_audio":{',
    '}}]}',
  ]),
)
add('chat: one long text', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(`${head.chat}"messages":[{"role":"user","content":"${'word '.repeat((bytes / 5) | 0)}"}]}`),
}))
for (const [name, unit] of [
  ['escaped quotes', '\\"'],
  ['backslashes', '\\\\'],
  ['escapes of halves of pairs', '\\ud800'],
  ['escapes', '\\u0000'],
  ['blanks', ' '],
  ['line ends', '\\n'],
  ['two-byte characters', 'é'],
  ['wide characters', '字'],
  ['quotes after backslashes', '\\\\\\"'],
] as const) {
  const text = (bytes: number) => unit.repeat((bytes / Buffer.byteLength(unit)) | 0)
  add(`chat: a text of ${name}`, (bytes) => ({
    path: 'chat',
    bytes: Buffer.from(`${head.chat}"messages":[{"role":"user","content":"${text(bytes)}"}]}`),
  }))
  add(`messages: an assistant's last text of ${name}`, (bytes) => ({
    path: 'messages',
    bytes: Buffer.from(
      `${head.messages}"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"${text(bytes)}"}]}`,
    ),
  }))
  add(`responses: instructions of ${name}`, (bytes) => ({
    path: 'responses',
    bytes: Buffer.from(`${head.responses}"input":"a","instructions":"${text(bytes)}"}`),
  }))
  add(`chat: an id of ${name}`, (bytes) => ({
    path: 'chat',
    bytes: Buffer.from(`${head.chat}"messages":[{"role":"assistant","tool_calls":[${call(text(bytes), 'f', '{}')}]}]}`),
  }))
  add(`chat: a name of ${name}`, (bytes) => ({
    path: 'chat',
    bytes: Buffer.from(
      `${head.chat}"messages":[{"role":"assistant","tool_calls":[${call('a', `b${text(bytes)}`, '{}')}]}]}`,
    ),
  }))
}
// Bodies that are not JSON.
for (const [name, unit] of [
  ['empty strings', '""'],
  ['open lists', '['],
  ['closed lists', ']'],
  ['empty objects', '{}'],
  ['letters', 'a'],
  ['blanks', ' '],
  ['quotes', '"'],
  ['digits', '1'],
  ['commas', ','],
  ['minus signs', '-'],
] as const) {
  add(`no JSON: ${name}`, (bytes) => ({ path: 'chat', bytes: Buffer.from(unit.repeat((bytes / unit.length) | 0)) }))
  add(`no JSON: an object of ${name}`, (bytes) => ({
    path: 'messages',
    bytes: Buffer.from(`{"a":${unit.repeat((bytes / unit.length) | 0)}`),
  }))
}
add('no JSON: a long number', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(`${head.chat}"seed":${'1'.repeat(bytes)}${rest.chat}`),
}))
add('no JSON: a long fraction', (bytes) => ({
  path: 'chat',
  bytes: Buffer.from(`${head.chat}"temperature":0.${'1'.repeat(bytes)}${rest.chat}`),
}))
// Messages.
for (const path of ['messages', 'count'] as const) {
  add(
    `${path}: many messages`,
    listed(path, 3, (i, pad) => `{"role":"${i % 2 ? 'assistant' : 'user'}","content":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: many messages of a user`,
    listed(path, 3, (i, pad) => `{"role":"user","content":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: many messages and one that is wrong`,
    listed(path, 3, (i, pad) => `{"role":"user","content":"${hex(i)}${pad}"}`, ['', ',{"role":"user"}']),
  )
  add(
    `${path}: many blocks`,
    listed(path, 3, (i, pad) => `{"type":"text","text":"${hex(i)}${pad}"}`, ['{"role":"user","content":[', ']}']),
  )
  add(
    `${path}: many marked blocks`,
    listed(
      path,
      7,
      (i, pad) => `{"type":"text","text":"${hex(i)}${pad}","cache_control":{"type":"ephemeral","ttl":"1h"}}`,
      ['{"role":"user","content":[', ']}'],
    ),
  )
  add(
    `${path}: many blocks of an assistant`,
    listed(path, 3, (i, pad) => `{"type":"text","text":"${hex(i)}${pad}"}`, ['{"role":"assistant","content":[', ']}']),
  )
  add(
    `${path}: many calls`,
    listed(path, 7, (i, pad) => `{"type":"tool_use","id":"${LONG_ID}${hex(i)}","name":"f","input":{"a":"${pad}"}}`, [
      '{"role":"assistant","content":[',
      ']}',
    ]),
  )
  add(
    `${path}: a call of many values`,
    listed(path, 0, (i, pad) => `"${hex(i)}${pad}"`, [
      '{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[',
      ']}}]}',
    ]),
  )
  add(
    `${path}: a call of many objects`,
    listed(path, 1, () => '{"a":{}}', [
      '{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[',
      ']}}]}',
    ]),
  )
  add(
    `${path}: many results`,
    listed(path, 5, (i, pad) => `{"type":"tool_result","tool_use_id":"${LONG_ID}:${hex(i)}","content":"${pad}"}`, [
      '{"role":"user","content":[',
      ']}',
    ]),
  )
  add(
    `${path}: a result of many blocks`,
    listed(path, 3, (i, pad) => `{"type":"text","text":"${hex(i)}${pad}"}`, [
      '{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[',
      ']}]}',
    ]),
  )
  add(
    `${path}: many pictures`,
    listed(
      path,
      8,
      (_, pad) => `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${png}${pad}"}}`,
      ['{"role":"user","content":[', ']}'],
    ),
  )
  add(
    `${path}: many pictures within a result`,
    listed(
      path,
      8,
      (_, pad) => `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${png}${pad}"}}`,
      ['{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[', ']}]}'],
    ),
  )
  add(
    `${path}: many tools`,
    field(path, 4, (i, pad) => `{"name":".${hex(i)}","description":"${pad}"}`, ['"tools":[', ']']),
  )
  add(
    `${path}: many texts of the system`,
    field(path, 3, (i, pad) => `{"type":"text","text":"${hex(i)}${pad}"}`, ['"system":[', ']']),
  )
  add(
    `${path}: stops`,
    field(path, 0, (i, pad) => `"${hex(i)}${pad}"`, ['"stop_sequences":[', ']']),
  )
  add(
    `${path}: stops and one that is none`,
    field(path, 0, (i, pad) => `"${hex(i)}${pad}"`, ['"stop_sequences":[', ',1]']),
  )
}
// Responses.
for (const path of ['responses', 'compact'] as const) {
  add(
    `${path}: many messages`,
    listed(path, 3, (i, pad) => `{"role":"${i % 2 ? 'assistant' : 'user'}","content":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: many system messages`,
    listed(path, 3, (i, pad) => `{"role":"system","content":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: many assistant messages`,
    listed(path, 3, (i, pad) => `{"role":"assistant","content":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: many marked parts`,
    listed(path, 7, (i, pad) => `{"type":"input_text","text":"${hex(i)}${pad}","cache_control":{"type":"ephemeral"}}`, [
      '{"role":"user","content":[',
      ']}',
    ]),
  )
  add(
    `${path}: many ignored parts with marks`,
    listed(path, 6, (_, pad) => `{"type":"x${pad}","cache_control":{"type":"ephemeral"}}`, [
      '{"role":"user","content":[{"type":"input_text","text":"a"},',
      ']}',
    ]),
  )
  add(
    `${path}: many calls`,
    listed(
      path,
      7,
      (i, pad) => `{"type":"function_call","call_id":"${LONG_ID}${hex(i)}","name":"f","arguments":"${pad}"}`,
    ),
  )
  add(
    `${path}: many calls of namespaces`,
    listed(
      path,
      9,
      (i, pad) =>
        `{"type":"function_call","call_id":"${hex(i)}","name":"f${hex(i)}","namespace":".${pad}","arguments":""}`,
    ),
  )
  add(
    `${path}: many outputs`,
    listed(path, 5, (i, pad) => `{"type":"function_call_output","call_id":"${LONG_ID}.${hex(i)}","output":"${pad}"}`),
  )
  add(
    `${path}: an output of many values`,
    listed(path, 1, (i, pad) => `"${hex(i)}${pad}":{}`, [
      '{"type":"function_call_output","call_id":"a","output":{',
      '}}',
    ]),
  )
  add(
    `${path}: many references to nothing`,
    listed(path, 3, (i, pad) => `{"type":"item_reference","id":"${hex(i)}${pad}"}`),
  )
  add(`${path}: many references to one item`, (bytes, dense) => {
    itemStore.put(ORGANIZATION, [
      itemText({
        id: 'msg_one',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'Hello' }],
      }),
    ])
    return listed(path, 3, () => `{"type":"item_reference","id":"msg_one"}`)(bytes, dense)
  })
  add(`${path}: many references to items`, (bytes, dense) => {
    const ids = Array.from({ length: 4096 }, (_, i) => `msg_${i}`)
    const text = 'x'.repeat(2000)
    itemStore.put(
      ORGANIZATION,
      ids.map((id) => itemText({ id, type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })),
    )
    return listed(path, 3, (i) => `{"type":"item_reference","id":"msg_${i % 4096}"}`)(bytes, dense)
  })
  add(`${path}: many references to large items`, (bytes, dense) => {
    const text = 'x'.repeat(400_000)
    const ids = Array.from({ length: 140 }, (_, i) => `msg_large_${i}`)
    itemStore.put(
      ORGANIZATION,
      ids.map((id) => itemText({ id, type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })),
    )
    return listed(path, 3, (i) => `{"type":"item_reference","id":"msg_large_${139 - (i % 140)}"}`)(bytes, dense)
  })
  add(`${path}: compaction items`, (bytes, dense) => {
    const { json } = compactionItem(sealer, ORGANIZATION, 'A summary.')
    return listed(path, 3, () => json)(bytes, dense)
  })
  add(`${path}: a large compaction item`, (bytes) => {
    const { json } = compactionItem(sealer, ORGANIZATION, 'é'.repeat(Math.min(bytes / 3, 512 * 1024)))
    const count = Math.max(1, Math.floor(bytes / (json.length + 1)))
    return { path, bytes: Buffer.from(`${head[path]}"input":[${new Array(count).fill(json).join()}]}`) }
  })
  add(`${path}: a compaction item that is none`, (bytes) => ({
    path,
    bytes: Buffer.from(`${head[path]}"input":[{"type":"compaction","encrypted_content":"gw1.${'A'.repeat(bytes)}"}]}`),
  }))
  add(
    `${path}: many tools`,
    field(path, 6, (i, pad) => `{"type":"function","name":".${hex(i)}","description":"${pad}"}`, ['"tools":[', ']']),
  )
  add(
    `${path}: many tools of a namespace`,
    field(path, 6, (i, pad) => `{"type":"function","name":".${hex(i)}","description":"${pad}"}`, [
      '"tools":[{"type":"namespace","name":"n","tools":[',
      ']}]',
    ]),
  )
  add(
    `${path}: many namespaces`,
    field(
      path,
      9,
      (i, pad) => `{"type":"namespace","name":"n${hex(i)}${pad}","tools":[{"type":"function","name":"f"}]}`,
      ['"tools":[', ']'],
    ),
  )
  add(
    `${path}: many lists of tools`,
    listed(
      path,
      8,
      (i, pad) =>
        `{"type":"additional_tools","tools":[{"type":"function","name":"f${hex(i)}","description":"${pad}"}]}`,
    ),
  )
  add(
    `${path}: unknown items`,
    listed(path, 2, (i, pad) => `{"type":"${hex(i)}${pad}"}`),
  )
  add(
    `${path}: reasoning`,
    field(path, 1, (i, pad) => `"${hex(i)}${pad}":{}`, ['"reasoning":{', '}']),
  )
}
// Images.
for (const path of ['generations', 'edits'] as const) {
  add(
    `${path}: many fields`,
    field(path, 1, (i, pad) => `"${hex(i)}${pad}":{}`, ['"a":1,', '']),
  )
  add(
    `${path}: the same field many times`,
    field(path, 1, (_, pad) => `"quality":"${pad}"`, ['', '']),
  )
  add(
    `${path}: many images`,
    field(path, 2, (i, pad) => `{"image_url":"${hex(i)}${pad}"}`, ['"images":[', ']']),
  )
  add(
    `${path}: addresses wherever they stand`,
    field(path, 0, (i, pad) => `"https://\u00fc${hex(i)}.\u00f6.de/${pad}"`, ['"images":[{"a":[', ']}]']),
  )
  add(
    `${path}: many texts as images`,
    field(path, 0, (i, pad) => `"${hex(i)}${pad}"`, ['"images":[', ']']),
  )
  add(`${path}: a long prompt of escapes`, (bytes) => ({
    path,
    bytes: Buffer.from(`{"model":"i","prompt":"${'\\"'.repeat((bytes / 2) | 0)}"}`),
  }))
  add(`${path}: a field of a long escaped name`, (bytes) => ({
    path,
    bytes: Buffer.from(`{"model":"i","prompt":"a","${'\\"'.repeat((bytes / 2) | 0)}":1}`),
  }))
}
function form(name: string, boundary: string, content: (room: number) => string): void {
  add(`form: ${name}`, (bytes) => {
    const field = (name: string, value: string) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
    const fields = field('model', 'i') + field('prompt', 'p')
    const body = `${fields}${content(bytes - fields.length - 100)}\r\n--${boundary}--\r\n`
    return { path: 'form', contentType: `multipart/form-data; boundary="${boundary}"`, bytes: Buffer.from(body) }
  })
}
const part = (boundary: string, disposition: string, content: string) =>
  `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${content}`
const parts = (room: number, make: (size: number) => string, count = 126) =>
  Array.from({ length: count }, () => make(Math.max(0, Math.floor(room / count) - 60))).join('\r\n')
form('many parts', 'b', (room) =>
  parts(room, (size) => part('b', 'name="image[]"; filename="a.png"', 'x'.repeat(size))),
)
form('names that begin again and again', 'b', (room) =>
  parts(room, (size) => part('b', `x="${';name="'.repeat(1100)}`, 'x'.repeat(Math.max(0, size - 7700)))),
)
form('names of backslashes', 'b', (room) =>
  parts(room, (size) => part('b', `name="${'\\'.repeat(8001)}`, 'x'.repeat(Math.max(0, size - 8000)))),
)
form('file names that begin again and again', 'b', (room) =>
  parts(room, (size) =>
    part('b', `name="image"; x="${';filename="'.repeat(700)}`, 'x'.repeat(Math.max(0, size - 7700))),
  ),
)
form('names of brackets', 'b', (room) =>
  parts(room, (size) => part('b', `name="${'['.repeat(8000)}"`, 'x'.repeat(Math.max(0, size - 8000)))),
)
form('blanks in a header', 'b', (room) =>
  parts(room, (size) => part('b', `${'; '.repeat(3900)}name="a"`, 'x'.repeat(Math.max(0, size - 8000)))),
)
form('many header lines', 'b', (room) =>
  parts(room, (size) => {
    const fields = Array.from({ length: 1000 }, (_, i) => `${hex(i)}:\r\n`).join('')
    const head = `--b\r\nContent-Disposition: form-data; name="a"\r\n${fields}\r\n`
    return head + 'x'.repeat(Math.max(0, size - 8000))
  }),
)
form('a boundary of dashes in dashes', '-', (room) => part('-', 'name="image"', '-'.repeat(room)))
form('boundaries that are none', 'a', (room) => part('a', 'name="image"', '--a'.repeat((room / 3) | 0)))
form('lines that begin like a boundary', 'a', (room) => part('a', 'name="image"', '\r\n--ab'.repeat((room / 6) | 0)))
form('lines of blanks after a boundary', 'a', (room) =>
  part('a', 'name="image"', `\r\n--a${' '.repeat(200)}b`.repeat((room / 206) | 0)),
)
form('line ends', 'a', (room) => part('a', 'name="image"', '\r\n'.repeat((room / 2) | 0)))
form('a long boundary, nearly', `${'-'.repeat(60)}z`, (room) =>
  part(`${'-'.repeat(60)}z`, 'name="image"', `\r\n${'-'.repeat(61)}`.repeat((room / 63) | 0)),
)
form('a prompt of wide characters', 'a', (room) => part('a', 'name="prompt"', '字'.repeat((room / 3) | 0)))

// Numbers that keep their text.
const LONG_NUMBERS = ['12345678901234567890', '-0', '1e400', '0.12345678901234567890'] as const
for (const number of LONG_NUMBERS) {
  const list = (bytes: number) => Array.from({ length: Math.min(VALUES, (bytes / 24) | 0) }, () => number).join()
  const around =
    (path: Path, before: string, after: string): HeavyBody['make'] =>
    (bytes) => ({
      path,
      bytes: Buffer.from(`${head[path]}${before}${list(bytes)}${after}${rest[path]}`),
    })
  add(
    `chat: a schema of ${number}`,
    around('chat', '"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[', ']}}}]'),
  )
  add(
    `messages: a schema of ${number}`,
    around('messages', '"tools":[{"name":"f","input_schema":{"type":"object","enum":[', ']}}]'),
  )
  add(
    `responses: a schema of ${number}`,
    around('responses', '"tools":[{"type":"function","name":"f","parameters":{"enum":[', ']}}]'),
  )
  add(`chat: arguments of ${number}`, (bytes) => ({
    path: 'chat',
    bytes: Buffer.from(
      `${head.chat}"messages":[{"role":"assistant","tool_calls":[${call('a', 'f', `{\\"a\\":[${list(bytes)}]}`)}]}]}`,
    ),
  }))
  add(`responses: arguments of ${number}`, (bytes) => ({
    path: 'responses',
    bytes: Buffer.from(
      `${head.responses}"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{\\"a\\":[${list(bytes)}]}"}]}`,
    ),
  }))
  add(`messages: a call of ${number}`, (bytes) => ({
    path: 'messages',
    bytes: Buffer.from(
      `${head.messages}"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a":[${list(bytes)}]}}]}]}`,
    ),
  }))
}

export const heavyBodies: readonly HeavyBody[] = heavy

const MIXED = ['chat', 'messages', 'responses'] as const

/** A chat request with one image by URL. */
function imageUrlBody(url: string): Uint8Array {
  return Buffer.from(`${head.chat}"messages":[{"role":"user","content":[{"type":"image_url","image_url":"${url}"}]}]}`)
}

/** The lists of several bodies in one. */
export function mixed(random: Random): Body {
  const path = random.pick(MIXED)
  const bytes = random.between(LARGEST / 8, LARGEST)
  const start = `${head[path]}"${LISTS[path]}":[`
  const lists: string[] = []
  const count = random.between(2, 6)
  while (lists.length < count) {
    const { make } = heavy[random.below(heavy.length)] ?? { make: () => ({ path, bytes: new Uint8Array() }) }
    const body = make(Math.floor(bytes / count), random.chance(0.3))
    const text = Buffer.from(body.bytes).toString()
    if (body.path === path && text.startsWith(start) && text.endsWith(']}')) lists.push(text.slice(start.length, -2))
  }
  return { path, bytes: Buffer.from(`${start}${lists.join()}]}`) }
}
