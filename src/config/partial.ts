/**
 * What can be read of a configuration file that has mistakes. Commands that do not serve need little of it, and they
 * are needed most right after somebody has broken the file: a leaked key must be revoked all the same.
 */

import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import { build } from './build.ts'
import { checkProcess } from './check-process.ts'
import type { Config } from './config.ts'
import type { Sources } from './config-references.ts'
import { type Read, readDocument } from './document.ts'
import { locatorOf } from './found-values.ts'
import { otherGateway } from './other-gateways.ts'
import { didYouMean, NOWHERE, nearest, type Path, type Problem, Problems, pathText, problemText } from './problems.ts'
import { checkShape, meantVariant, pathOf, withDefaults } from './schema-errors.ts'
import { type CompletedFile, schema } from './schema-file.ts'

/** With a wrong value of one of these, a command would read or change another ledger than the gateway's. */
const PLACES = ['data_dir', 'ledger'] as const
type Place = (typeof PLACES)[number]

/** A removal can reveal another error, at most once for each level of the file. */
const ROUNDS_MAX = 40

type Failed = { readonly problem: string }

/**
 * The configuration without what is wrong, and without what no such command uses (providers, alerts, tracing,
 * compaction). The problem, if `ledger` or `data_dir` cannot be read for certain.
 */
export function partialConfig(text: string, sources: Sources): { readonly config: Config } | Failed {
  const read = readLeniently(text, sources)
  const problem = PLACES.map((place) => placeProblem(text, read, place)).find((found) => found !== undefined)
  if (problem !== undefined) return { problem: problemText(problem) }
  const { alerts: _alerts, tracing: _tracing, compaction: _compaction, ...used } = pruned(read.value)
  const file = { ...used, providers: {} }
  return { config: build(withDefaults(file) as CompletedFile, { cores: 1, env: {} }) }
}

/** The `data_dir`, and the first problem on the way to it: both, if the file is no YAML elsewhere. */
export function partialDataDir(
  text: string,
  sources: Sources,
): { readonly dataDir?: string; readonly problem?: Problem } {
  const read = readLeniently(text, sources)
  const problem = placeProblem(text, read, 'data_dir')
  if (problem !== undefined) return { problem }
  const dataDir = stringOf(read.value['data_dir']) ?? schema.properties.data_dir.default
  const [broken] = read.syntax
  return broken === undefined ? { dataDir } : { dataDir, problem: broken }
}

interface LenientRead {
  readonly value: JsonObject
  /** Why it is not YAML; empty if it is. */
  readonly syntax: readonly Problem[]
  readonly problems: readonly Problem[]
}

function readLeniently(text: string, sources: Sources): LenientRead {
  const problems = new Problems()
  const whole = readDocument(text, sources, problems)
  const syntax = whole === undefined ? problems.list(NOWHERE) : []
  const read = whole ?? readSections(text, sources, problems)
  const { file, completed, data } = checkShape(read, problems)
  checkProcess({ file, completed, problems, cores: 1, env: {}, shown: (path) => pathText(path) })
  const value = isObject(data) && otherGateway(read.value) === undefined ? data : {}
  return { value, syntax, problems: problems.list(locatorOf(read)) }
}

/** Each key of the top level by itself: an error in one, such as a bracket without its partner, hides no other. */
function readSections(text: string, sources: Sources, problems: Problems): Read {
  const lines = new Map<string, number>()
  const read = { written: new Map<string, string>(), bare: new Set<string>(), lines: () => lines }
  const value: Record<string, JsonValue> = {}
  for (const section of sectionsOf(text)) {
    const own = new Problems()
    const part = readDocument(section, sources, own)
    if (part === undefined || !isObject(part.value)) continue
    for (const { path, line, message } of own.list(locatorOf(part))) problems.add(path, message, { line })
    for (const [name, inside] of Object.entries(part.value)) {
      if (Object.hasOwn(value, name)) problems.add([name], 'duplicate key; keep one')
      value[name] = inside ?? null
    }
    for (const [path, words] of part.written) read.written.set(path, words)
    for (const [path, line] of part.lines()) lines.set(path, line)
    for (const path of part.bare) read.bare.add(path)
  }
  return { ...read, value }
}

/** What Git writes between the versions of a conflict, and YAML between documents: left out, others can be read. */
const MARKS = /^(?:---|\.\.\.|%|<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|)/

/** One text for each key of the top level, with empty lines above it, so that line numbers stay those of the file. */
function sectionsOf(text: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => (MARKS.test(line) ? '' : line))
  // The closing brackets of a group may stand in the first column, too.
  const content = lines.filter((line) => /^ *[^\s#\]}]/.test(line))
  const indentation = Math.min(...content.map((line) => line.search(/\S/)))
  const isKey = (line: string) => line.search(/\S/) === indentation && /^ *["'\w]/.test(line)
  const starts = lines.flatMap((line, i) => (isKey(line) ? [i] : []))
  return starts.map((start, i) => '\n'.repeat(start) + lines.slice(start, starts[i + 1]).join('\n'))
}

/** Why a place cannot be read for certain; undefined if it can. */
function placeProblem(text: string, { value, problems, syntax }: LenientRead, place: Place): Problem | undefined {
  const own = problems.find(({ path }) => isOf(path, place))
  if (own !== undefined) return own
  if (Object.keys(value).length === 0) return syntax[0] ?? problems[0] ?? EMPTY_FILE
  if (Object.hasOwn(value, place)) return undefined
  // Absent, and then its default counts: but not if it is only mistyped, or in a part that cannot be read.
  const known = Object.keys(schema.properties)
  const mistyped = Object.keys(value).find((key) => !known.includes(key) && nearest(key, known) === place)
  if (mistyped !== undefined) {
    const found = problems.find(({ path }) => path === mistyped)
    return found ?? { ...EMPTY_FILE, path: mistyped, message: `unknown key${didYouMean(mistyped, [place])}` }
  }
  const mention = new RegExp(`(?:^|[\\s{,"'])${place}["']?\\s*:`)
  const at = text.split('\n').findIndex((line) => mention.test(line.replace(/(?:^|\s)#.*$/, '')))
  return at === -1 ? undefined : (syntax[0] ?? { ...EMPTY_FILE, line: at + 1, path: place, message: MISPLACED })
}

const EMPTY_FILE: Problem = { line: undefined, path: '(file)', message: 'is not a configuration', found: undefined }
const MISPLACED = 'is not a key of the top level; write it without indentation'

/** Whether a problem at a path makes the value of a place doubtful. Timeouts of `ledger` do not. */
function isOf(path: string, place: Place): boolean {
  return path === place || path.startsWith(`${place}[`) || new RegExp(`^${place}\\.(?:redis|tls)(?![\\w-])`).test(path)
}

/** What the schema requires and commands can do without. */
const EMPTY = { providers: {}, models: [], organizations: [] }

/** Removes every value that the schema rejects: the key, or the group or entry of a list that lacks a key. */
function pruned(value: JsonObject): JsonObject {
  let kept: unknown = { ...EMPTY, ...value }
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const paths = new Map(
      [...Value.Errors(schema, kept)]
        .flatMap((error) => removalOf(error, pathOf(error.path, kept)))
        .map((path) => [pathText(path), path]),
    )
    if (paths.size === 0) break
    // From the end, so that the indexes of entries that are still to be removed stay valid.
    for (const path of [...paths.values()].sort(fromTheEnd)) kept = removed(kept, path)
    kept = { ...EMPTY, ...(isObject(kept) ? kept : {}) }
  }
  return isObject(kept) ? kept : {}
}

/** What must go because of an error. An empty list of the top level may stay. */
function removalOf(error: ValueError, at: Path): readonly Path[] {
  const variant = error.type === ValueErrorType.Union ? meantVariant(error) : undefined
  if (variant !== undefined) {
    const inside = [...Value.Errors(variant, error.value)]
    return inside.flatMap((inner) => removalOf(inner, [...at, ...pathOf(inner.path, error.value)]))
  }
  if (error.type === ValueErrorType.ObjectRequiredProperty) return [at.slice(0, -1)]
  const isEmpty = error.type === ValueErrorType.ArrayMinItems || error.type === ValueErrorType.ObjectMinProperties
  return isEmpty && at.length === 1 ? [] : [at]
}

/** A copy without the value at the path. A path that does not exist changes nothing. */
function removed(value: unknown, [head, ...rest]: Path): unknown {
  if (isArray(value)) {
    if (rest.length === 0) return value.filter((_, index) => index !== head)
    return value.map((item, index) => (index === head ? removed(item, rest) : item))
  }
  if (!isObject(value) || typeof head !== 'string') return value
  if (rest.length > 0) return Object.hasOwn(value, head) ? { ...value, [head]: removed(value[head], rest) } : value
  const { [head]: _removed, ...others } = value
  return others
}

/** Orders paths so that later entries of a list, and what is inside of a value, come first. */
function fromTheEnd(one: Path, other: Path): number {
  for (let i = 0; i < Math.min(one.length, other.length); i++) {
    const [a = '', b = ''] = [one[i], other[i]]
    if (a !== b) return typeof a === 'number' && typeof b === 'number' ? b - a : String(b) < String(a) ? -1 : 1
  }
  return other.length - one.length
}
