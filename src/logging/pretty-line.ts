/** A log line for people: the JSON of a line → one line of words, for terminals. */

import { isArray, isObject, type JsonObject, type JsonValue, numberOf, parseObject, stringOf } from '../core/json.ts'

const CODES = { red: 31, green: 32, yellow: 33, grey: 90 } as const

type Colour = keyof typeof CODES

const LEVELS: Readonly<Record<string, Colour>> = { fatal: 'red', error: 'red', warn: 'yellow', info: 'green' }

/** The fields that a line has in its own words, that repeat others, or that every line has. */
const SHOWN: ReadonlySet<string> = new Set(['level', 'time', 'node', 'msg', 'event'])

/**
 * `text` is a line with its line end. A line that is not JSON stays as it is. Values are quoted as JSON, so that what
 * callers wrote cannot steer a terminal.
 */
export function prettyLine(text: string, isColoured: boolean): string {
  const line = parseObject(text)
  if (line === undefined) return text
  const paint = (words: string, colour: Colour) => (isColoured ? `\u001b[${CODES[colour]}m${words}\u001b[0m` : words)
  const level = stringOf(line['level']) ?? 'info'
  const head = [paint(clock(line['time']), 'grey'), paint(level.toUpperCase().padEnd(5), LEVELS[level] ?? 'green')]
  const rest = line['msg'] === 'request' ? requestWords(line, paint) : eventWords(line, paint)
  return `${[...head, ...rest].filter((word) => word !== '').join(' ')}\n`
}

/** `13:05:59.042`, in the time zone of the terminal. */
function clock(time: JsonValue | undefined): string {
  const at = new Date(stringOf(time) ?? Number.NaN)
  if (Number.isNaN(at.getTime())) return ''
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0'))
  return `${parts.join(':')}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

type Paint = (words: string, colour: Colour) => string

/** `200 chat gpt-5-mini → claude-sonnet@anthropic acme/ci 812 ms 1204+311 tokens $0.000692`, and what is unusual. */
function requestWords(line: JsonObject, paint: Paint): readonly string[] {
  const status = numberOf(line['status']) ?? 0
  const word = (name: string) => plain(line[name])
  const [asked, served, outcome] = [word('requested_model'), word('served_model'), word('outcome')]
  const server = word('provider') === '' ? '' : `→ ${served === asked ? '' : `${served}@`}${word('provider')}`
  const owner = [word('organization'), word('key')].filter((name) => name !== '').join('/')
  const tokens = line['input_tokens'] === undefined ? '' : `${word('input_tokens')}+${word('output_tokens')} tokens`
  const cost = numberOf(line['cost_micro_usd'])
  const limit = word('limit') === '' ? '' : `${word('limit')} of ${word('limit_of')}`
  return [
    paint(String(status), status < 400 ? 'green' : status < 500 ? 'yellow' : 'red'),
    ...[word('dialect') || `${word('method')} ${word('path')}`.trim(), asked, server, owner],
    ...[`${word('total_ms')} ms`, tokens, cost === undefined ? '' : `$${(cost / 1_000_000).toFixed(6)}`],
    ...[outcome === 'completed' ? '' : paint(outcome, 'yellow'), paint(word('error'), 'yellow')],
    ...[word('param'), limit, word('key_state'), word('remote') === '' ? '' : `from ${word('remote')}`],
    paint(word('request_id'), 'grey'),
  ].filter((each) => each !== paint('', 'yellow'))
}

/** `ledger.down ledger down problem="…"` */
function eventWords(line: JsonObject, paint: Paint): readonly string[] {
  const fields = Object.entries(line).flatMap(([name, value]) =>
    SHOWN.has(name) || value === undefined ? [] : [[name, value] as const],
  )
  const event = plain(line['event'])
  return [
    event,
    event === '' ? plain(line['msg']) : paint(plain(line['msg']), 'grey'),
    ...fields.map(
      ([name, value]) => `${name}=${isArray(value) || isObject(value) ? JSON.stringify(value) : shown(value)}`,
    ),
  ]
}

/** A word as it is, or quoted if it has a blank, a quote or a control character. */
function plain(value: JsonValue | undefined): string {
  return value === undefined ? '' : shown(value)
}

function shown(value: JsonValue): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return /^[\x21\x23-\x7e\u00a1-\uffff]+$/.test(value) || /^[a-z][a-z ;,-]*$/.test(value) ? value : quoted(value)
}

/** JSON leaves C1 control characters as they are, which some terminals obey. */
function quoted(value: string): string {
  return JSON.stringify(value).replaceAll(
    /[\u007f-\u00a0]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
