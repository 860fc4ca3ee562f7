/** The rows of a table of PostgreSQL that was written as CSV or as JSON, and the values of its columns. */

import { readCsv } from '../core/csv-table.ts'
import { isArray, isObject, type JsonObject, type JsonValue, parseObject } from '../core/json.ts'

/** A JSON array, an object with one, one object a line, or CSV with headings; or what is wrong with the text. */
export function dumpRows(text: string): readonly JsonObject[] | { readonly problem: string } {
  const begin = text.trimStart()[0]
  if (begin !== '[' && begin !== '{') {
    const rows = readCsv(text)
    return 'problem' in rows ? { problem: `is no CSV: ${rows.problem}` } : rows
  }
  const whole = parsed(text)
  // A single row may have lists, too, of texts.
  const isTable = (value: JsonValue) => isArray(value) && value.some(isObject)
  const list = isArray(whole) ? whole : isObject(whole) ? Object.values(whole).filter(isArray).find(isTable) : undefined
  if (list !== undefined) return list.filter(isObject)
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const rows = lines.map((line) => parseObject(line))
  const wrong = rows.indexOf(undefined)
  return wrong < 0 ? rows.filter((row) => row !== undefined) : { problem: `is no JSON: line ${wrong + 1}` }
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A value as text; undefined for NULL. */
export function textOf(row: JsonObject, name: string): string | undefined {
  const value = row[name]
  if (value === undefined || value === null || value === '' || value === '\\N') return undefined
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A list: a JSON array, or `{a,"b c"}` as PostgreSQL writes it. */
export function listOf(row: JsonObject, name: string): readonly string[] {
  const value = row[name]
  if (isArray(value)) return value.filter((each) => typeof each === 'string')
  const text = textOf(row, name)?.trim()
  if (text === undefined) return []
  if (text.startsWith('[')) {
    const list = parsed(text)
    return isArray(list) ? list.filter((each) => typeof each === 'string') : []
  }
  const inner = /^\{(.*)\}$/s.exec(text)?.[1] ?? text
  const words = inner.matchAll(/"((?:[^"\\]|\\.)*)"|([^,"]+)/gs)
  return Array.from(words, ([, quoted, bare = '']) => quoted?.replaceAll(/\\(.)/gs, '$1') ?? bare.trim())
}

export function isTrue(row: JsonObject, name: string): boolean {
  return /^(?:t|true|1)$/i.test(textOf(row, name) ?? '')
}

/** Unix milliseconds. PostgreSQL's times without a zone are UTC here. */
export function timeOf(row: JsonObject, name: string): number | undefined {
  const [, date, time = '00:00:00', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?\s*(Z|[+-]\d\d(?::?\d\d)?)?$/.exec(
      textOf(row, name) ?? '',
    ) ?? []
  const ms = Date.parse(`${date}T${time}${zone.length === 3 ? `${zone}:00` : zone}`)
  return Number.isNaN(ms) ? undefined : ms
}

/** A member that is an object with members, or text of one. */
export function hasMembers(row: JsonObject, name: string): boolean {
  const value = row[name]
  const found = isObject(value) ? value : parseObject(textOf(row, name) ?? '')
  return found !== undefined && Object.keys(found).length > 0
}
