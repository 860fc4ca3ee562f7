/** A line of the gateway's log as one short line of text, for a terminal. */

type Entry = Readonly<Record<string, unknown>>

const STATUS_WIDTH = 3
const DIALECT_WIDTH = 9

export function requestLine(entry: Entry): string {
  const text = (name: string) => (entry[name] === undefined || entry[name] === null ? '' : String(entry[name]))
  const time = new Date(text('time')).toTimeString().slice(0, 8)
  if (entry['msg'] !== 'request') return `${time} ${text('msg')}`
  const served = text('served_model')
  const requested = text('requested_model')
  const model = served === '' || served === requested ? requested : `${requested} → ${served}`
  const refused = text('error')
  const parts = [
    time,
    text('status').padEnd(STATUS_WIDTH),
    text('dialect').padEnd(DIALECT_WIDTH),
    model,
    ...(text('provider') === '' ? [] : [`from ${text('provider')}`]),
    ...(entry['total_ms'] === undefined ? [] : [`${Math.round(Number(entry['total_ms']))} ms`]),
    ...(entry['output_tokens'] === undefined ? [] : [`${text('input_tokens')} + ${text('output_tokens')} tokens`]),
    ...(entry['cost_micro_usd'] === undefined ? [] : [`$${(Number(entry['cost_micro_usd']) / 1e6).toFixed(6)}`]),
    refused === '' ? text('outcome') : refused,
  ]
  return parts.filter((part) => part.trim() !== '').join('  ')
}
