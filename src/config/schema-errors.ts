/**
 * The schema's complaints in the words of a person who has to mend the file, and what of the file can still be looked
 * at beside them.
 */

import { KindGuard, type TSchema } from '@sinclair/typebox'
import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { isArray, isObject } from '../core/json.ts'
import type { Read } from './document.ts'
import { didYouMean, type Path, type Problems, pathText, quoted } from './problems.ts'
import { type File, schema } from './schema-file.ts'
import { provider } from './schema-models.ts'

/** The file with everything taken out that has a wrong type: a problem in one place does not hide those in others. */
export type Loose<T> = T extends readonly (infer U)[]
  ? readonly (Loose<U> | undefined)[]
  : T extends object
    ? { readonly [K in keyof T]?: Loose<T[K]> | undefined }
    : T

/** A file with more faults than this is no configuration; what else may be wrong with it is not looked for. */
const COMPLAINTS_MAX = 1000

interface Shape {
  readonly file: Loose<File>
  /** The same with defaults. */
  readonly completed: Loose<File>
  /** The data as a whole, sound or not. */
  readonly whole: unknown
}

/**
 * Checks the shape, adds a problem for each fault, and gives back what is sound. Bare references become numbers and
 * booleans where those are wanted.
 */
export function checkShape(read: Read, problems: Problems): Shape {
  const value = convert(read)
  let loose = value
  let complaints = 0
  for (const error of Value.Errors(schema, value)) {
    if (++complaints > COMPLAINTS_MAX) return { file: {}, completed: {}, whole: undefined }
    const path = pathOf(error.path, value)
    if (isMistyped(error)) loose = without(loose, path)
    complain(error, path, read, problems)
  }
  return { file: asLoose(loose), completed: asLoose(withDefaults(loose)), whole: value }
}

/**
 * A copy with the defaults of the schema filled in. `Value.Default` leaves out what is inside a record, so providers
 * are visited here.
 */
export function withDefaults(value: unknown): unknown {
  const completed = Value.Default(schema, Value.Clone(value))
  if (!isObject(completed) || !isObject(completed['providers'])) return completed
  const providers = Object.entries(completed['providers']).map(([name, one]) => [name, Value.Default(provider, one)])
  return { ...completed, providers: Object.fromEntries(providers) }
}

/**
 * The one step that the compiler has to be told: `without` has taken out whatever had a wrong type, so what is left
 * has the right ones.
 */
function asLoose(value: unknown): Loose<File> {
  return isObject(value) ? (value as Loose<File>) : {}
}

/** `port: ${PORT}` is written without quotes because a number is meant; a credential of digits stays a string. */
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

function complain(error: ValueError, path: Path, read: Read, problems: Problems): void {
  const variant = error.type === ValueErrorType.Union ? meantVariant(error) : undefined
  if (variant !== undefined) {
    for (const inner of Value.Errors(variant, error.value)) {
      complain(inner, [...path, ...pathOf(inner.path, error.value)], read, problems)
    }
    return
  }
  problems.add(path, wordsFor(error, path, read.written.get(pathText(path))))
}

/**
 * Of a union: the variant of the value's own type, whose complaint then says more than the union's. Words are left to
 * the union.
 */
function meantVariant(error: ValueError): TSchema | undefined {
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

/** `written` is what stood there before a reference was replaced: shown in its place. */
function wordsFor(error: ValueError, path: Path, written: string | undefined): string {
  if (error.value === null) return 'has no value; give it one or take the key out'
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
  if (typeof error.value !== 'string') return `must be one of ${allowed}`
  return `${quoted(written ?? error.value)} is not one of ${allowed}${didYouMean(error.value, words)}`
}

function variantWords(variant: TSchema): string {
  if (KindGuard.IsLiteral(variant)) return String(variant.const)
  if (KindGuard.IsInteger(variant)) return 'a whole number'
  return KindGuard.IsObject(variant) ? `{ ${Object.keys(variant.properties).join(', ')} }` : 'a string'
}

/** A mistyped value would break whoever reads on; one that is merely out of bounds does not. */
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

/** A JSON pointer as a path; what is an index and what a name is for the value to say. */
function pathOf(pointer: string, value: unknown): Path {
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

/** A copy in which the value at the path is another. A name that leads nowhere changes nothing. */
function replaced(value: unknown, path: Path, by: unknown): unknown {
  const [head, ...rest] = path
  if (head === undefined) return by
  if (isArray(value)) return value.map((item, index) => (index === head ? replaced(item, rest, by) : item))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, name === head ? replaced(item, rest, by) : item]),
  )
}

/**
 * A copy without the value at the path. Its place stays, so that indexes stay true and a name still counts as there.
 */
function without(value: unknown, path: Path): unknown {
  return replaced(value, path, undefined)
}
