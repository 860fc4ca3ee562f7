/**
 * Turns the errors of the schema into problems that an operator can fix, and finds the part of the file that is valid
 * and can be checked further.
 */

import { KindGuard, type TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { isArray, isObject, type JsonValue } from '../core/json.ts'
import type { Read } from './document.ts'
import { didYouMean, isCredentialed, type Path, Problems, pathText, problemText, quoted } from './problems.ts'
import { type File, schema } from './schema-file.ts'
import { provider } from './schema-models.ts'

/** The file without the values of a wrong type, so that a problem in one place does not hide problems in others. */
export type Loose<T> = T extends readonly (infer U)[]
  ? readonly (Loose<U> | undefined)[]
  : T extends object
    ? { readonly [K in keyof T]?: Loose<T[K]> | undefined }
    : T

/** The entries of a list that have the right type; undefined without a list. */
export function sound<T>(list: readonly (T | undefined)[] | undefined): readonly T[] | undefined {
  return list?.filter((entry) => entry !== undefined)
}

/** A file with more errors than this is not a configuration, and is not checked further. */
const ERRORS_MAX = 1000

interface Shape {
  readonly file: Loose<File>
  /** The same with defaults. */
  readonly completed: Loose<File>
  /** All of the data, valid or not. */
  readonly data: unknown
  /** Whether all of it is valid. */
  readonly isWhole: boolean
}

/**
 * Checks the file against the schema and adds a problem for each error. Unquoted references become numbers and
 * booleans if the schema expects those.
 */
export function checkShape(read: Read, problems: Problems): Shape {
  const value = convert(withoutRemoved(read, problems))
  let loose = value
  let errors = 0
  checked ??= TypeCompiler.Compile(schema)
  // Its errors take far longer than the check of a file that has none.
  for (const error of checked.Check(value) ? [] : Value.Errors(schema, value)) {
    if (++errors > ERRORS_MAX) return { file: {}, completed: {}, data: undefined, isWhole: false }
    const path = pathOf(error.path, value)
    // The place remains, so that indexes stay valid and the key still counts as present.
    if (isMistyped(error)) loose = replaced(loose, path, undefined)
    addProblem(error, path, read, problems)
  }
  return { file: asLoose(loose), completed: asLoose(withDefaults(loose)), data: value, isWhole: errors === 0 }
}

let checked: TypeCheck<typeof schema> | undefined

/** Keys of earlier versions: a file that has one is valid, and gets a warning. */
const REMOVED: Readonly<Record<string, string>> = {
  upstream: 'has no effect, because weir sends all requests with its own HTTP client; remove it',
}

function withoutRemoved(read: Read, problems: Problems): Read {
  if (!isObject(read.value)) return read
  const { value } = read
  for (const key of Object.keys(REMOVED)) if (Object.hasOwn(value, key)) problems.warn([key], REMOVED[key] ?? '')
  return { ...read, value: Object.fromEntries(Object.entries(value).filter(([key]) => !Object.hasOwn(REMOVED, key))) }
}

/** What is wrong with a value that is not a file, one line for each problem: `limits.spend.day: must be a number`. */
export function problemsOf(expected: TSchema, value: JsonValue): readonly string[] {
  const problems = new Problems()
  const read: Read = { value, written: new Map(), bare: new Set(), lines: () => new Map() }
  let errors = 0
  for (const error of Value.Errors(expected, value)) {
    addProblem(error, pathOf(error.path, value), read, problems)
    if (++errors >= ERRORS_MAX) break
  }
  return problems.list({ lineOf: () => undefined, found: () => undefined }).map(problemText)
}

/**
 * A copy with the defaults of the schema filled in. `Value.Default` visits each property twice, so those of the
 * innermost limits 64 times, and no record: of these, only providers have defaults.
 */
export function withDefaults(value: unknown): unknown {
  const completed = completedBy(schema, value)
  if (!isObject(completed) || !isObject(completed['providers'])) return completed
  const providers = Object.entries(completed['providers']).map(([name, one]) => [name, completedBy(provider, one)])
  return { ...completed, providers: Object.fromEntries(providers) }
}

function completedBy(type: TSchema, given: unknown): unknown {
  const { default: missing } = type
  const value = given !== undefined ? given : isObject(missing) || isArray(missing) ? structuredClone(missing) : missing
  if (KindGuard.IsArray(type) && isArray(value)) return value.map((item) => completedBy(type.items, item))
  if (KindGuard.IsUnion(type) && typeof value === 'object') {
    return (
      type.anyOf
        .map((one) => [one, completedBy(one, value)] as const)
        .find(([one, own]) => Value.Check(one, own))?.[1] ?? value
    )
  }
  if (!KindGuard.IsObject(type) || !isObject(value)) return value
  const completed: Record<string, unknown> = { ...value }
  for (const [name, property] of Object.entries(type.properties)) {
    const one = completedBy(property, value[name])
    if (one !== undefined) completed[name] = one
  }
  return completed
}

/** The type assertion is safe because every value of a wrong type was removed. */
function asLoose(value: unknown): Loose<File> {
  return isObject(value) ? (value as Loose<File>) : {}
}

/** `port: ${PORT}` has no quotes because a number is meant. A credential that consists of digits stays a string. */
function convert(read: Read): unknown {
  let value: unknown = read.value
  if (read.bare.size === 0) return value
  for (const error of Value.Errors(schema, read.value)) {
    const path = pathOf(error.path, read.value)
    if (typeof error.value !== 'string' || !read.bare.has(pathText(path))) continue
    const meant = scalarOf(error.value)
    if (meant !== undefined && Value.Check(error.schema, meant)) value = replaced(value, path, meant)
  }
  return value
}

function scalarOf(text: string): number | boolean | undefined {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined
}

function addProblem(error: ValueError, path: Path, read: Read, problems: Problems): void {
  const variant = error.type === ValueErrorType.Union ? meantVariant(error) : undefined
  if (variant !== undefined) {
    for (const inner of Value.Errors(variant, error.value)) {
      addProblem(inner, [...path, ...pathOf(inner.path, error.value)], read, problems)
    }
    return
  }
  const written = read.written.get(pathText(path))
  problems.add(path, `${wordsFor(error, path, written)}${unquoteAdvice(error, written)}`)
}

/** Within `{ }` a reference needs quotes, and quotes make it a string. */
function unquoteAdvice({ type, value }: ValueError, written: string | undefined): string {
  const isOther = type === ValueErrorType.Integer || type === ValueErrorType.Number || type === ValueErrorType.Boolean
  if (!isOther || written === undefined || typeof value !== 'string' || scalarOf(value) === undefined) return ''
  return '; write the reference without quotes, on a line of its own'
}

/**
 * The variant of a union that has the same type as the value: its error is more specific than that of the union. For
 * a string the union's error, which lists all words, is better.
 */
export function meantVariant(error: ValueError): TSchema | undefined {
  const variants = variantsOf(error.schema)
  if (isObject(error.value)) return bestObject(variants, Object.keys(error.value))
  if (typeof error.value === 'number') return variants.find((variant) => KindGuard.IsInteger(variant))
  if (typeof error.value === 'string') return variants.find((variant) => KindGuard.IsString(variant))
  return undefined
}

function bestObject(variants: readonly TSchema[], keys: readonly string[]): TSchema | undefined {
  const objects = variants.filter((variant) => KindGuard.IsObject(variant))
  return objects.find((variant) => keys.some((key) => Object.hasOwn(variant['properties'], key))) ?? objects[0]
}

function variantsOf(union: TSchema): readonly TSchema[] {
  return KindGuard.IsUnion(union) ? union.anyOf : []
}

/**
 * The message of an error. `written`: the text of the file before references were replaced; it is shown instead of
 * the value.
 */
function wordsFor(error: ValueError, path: Path, written: string | undefined): string {
  if (error.value === null) {
    return path.length === 0
      ? 'is empty; write a configuration as weir.example.yaml shows'
      : 'has no value; add one or remove the key'
  }
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return `is missing${about(error.schema)}`
    case ValueErrorType.ObjectAdditionalProperties:
      return unknownKey(error.schema, String(path.at(-1)))
    case ValueErrorType.Union:
      return unionWords(error, written)
    case ValueErrorType.String:
      return typeof error.value === 'number' || typeof error.value === 'boolean'
        ? 'must be a string; put it in quotes'
        : 'must be a string'
    case ValueErrorType.StringPattern:
      return String(error.schema['patternErrorMessage'])
    case ValueErrorType.Object:
      return `must be a group of keys${about(error.schema)}`
    case ValueErrorType.Array:
      return `must be a list${about(error.schema)}`
    default:
      return boundWords(error) ?? `is wrong: ${error.message.toLowerCase()}`
  }
}

function boundWords(error: ValueError): string | undefined {
  const bounds = error.schema
  switch (error.type) {
    case ValueErrorType.StringMinLength:
      return 'must not be empty'
    case ValueErrorType.StringMaxLength:
      return `must have at most ${bounds['maxLength']} characters`
    case ValueErrorType.Boolean:
      return 'must be true or false'
    case ValueErrorType.Integer:
      return 'must be a whole number'
    case ValueErrorType.Number:
      return 'must be a number'
    case ValueErrorType.NumberMinimum:
    case ValueErrorType.IntegerMinimum:
      return `must be at least ${bounds['minimum']}`
    case ValueErrorType.NumberMaximum:
    case ValueErrorType.IntegerMaximum:
      return `must be at most ${bounds['maximum']}`
    case ValueErrorType.ArrayMinItems:
    case ValueErrorType.ObjectMinProperties:
      return 'must not be empty'
    case ValueErrorType.ArrayUniqueItems:
      return 'has the same entry twice'
    default:
      return undefined
  }
}

/** The first sentence of a description, in brackets. */
function about({ description }: TSchema): string {
  return description === undefined ? '' : ` (${description.split('. ')[0]})`
}

function unknownKey(parent: TSchema, key: string): string {
  const names = parent['propertyNames']
  if (isObject(names)) return String(names['patternErrorMessage'])
  const known = KindGuard.IsObject(parent) ? Object.keys(parent.properties) : []
  return `unknown key${didYouMean(key, known) || `; known here: ${known.join(', ')}`}`
}

function unionWords(error: ValueError, written: string | undefined): string {
  const words = variantsOf(error.schema).flatMap((variant) =>
    KindGuard.IsLiteral(variant) ? [String(variant.const)] : [],
  )
  const allowed = variantsOf(error.schema).map(variantWords).join(', ')
  if (typeof error.value !== 'string' || (written === undefined && isCredentialed(error.value)))
    return `must be one of ${allowed}`
  return `${quoted(written ?? error.value)} is not one of ${allowed}${didYouMean(error.value, words)}`
}

function variantWords(variant: TSchema): string {
  if (KindGuard.IsLiteral(variant)) return String(variant.const)
  if (KindGuard.IsInteger(variant)) return 'a whole number'
  return KindGuard.IsObject(variant) ? `{ ${Object.keys(variant.properties).join(', ')} }` : 'a string'
}

/** Whether the value has a wrong type, which later checks could not handle, and is not merely out of bounds. */
function isMistyped(error: ValueError): boolean {
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
    case ValueErrorType.StringPattern:
    case ValueErrorType.StringMinLength:
    case ValueErrorType.StringMaxLength:
    case ValueErrorType.NumberMinimum:
    case ValueErrorType.NumberMaximum:
    case ValueErrorType.IntegerMinimum:
    case ValueErrorType.IntegerMaximum:
    case ValueErrorType.ArrayMinItems:
    case ValueErrorType.ArrayUniqueItems:
    case ValueErrorType.ObjectMinProperties:
      return false
    default:
      return true
  }
}

/** A JSON pointer as a path. Whether a part is an index or a name depends on the value. */
export function pathOf(pointer: string, value: unknown): Path {
  const path: (string | number)[] = []
  let at: unknown = value
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    const index = isArray(at) ? Number(name) : undefined
    path.push(index ?? name)
    if (isArray(at)) at = at[Number(name)]
    else at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  return path
}

/** A copy with another value at the path. A path that does not exist changes nothing. */
function replaced(value: unknown, path: Path, by: unknown): unknown {
  const [head, ...rest] = path
  if (head === undefined) return by
  if (isArray(value)) return value.map((item, index) => (index === head ? replaced(item, rest, by) : item))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, name === head ? replaced(item, rest, by) : item]),
  )
}
