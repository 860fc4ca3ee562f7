/**
 * The types of fields in the configuration, each with its bounds and the error message for a value that breaks them.
 */

import {
  type ObjectOptions,
  type Static,
  type TArray,
  type TObject,
  type TOptional,
  type TProperties,
  type TRecord,
  type TSchema,
  type TUnion,
  Type,
} from '@sinclair/typebox'
import { DAY_MS } from '../core/durations.ts'
import { TAG_VALUE } from '../core/tag-value.ts'
import { TAGS_MAX } from '../core/tags.ts'

/** Ids of organisations, keys and providers appear in log lines, in the ledger and on command lines. */
export const IDENTIFIER = '^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$'
export const IDENTIFIER_WORDS = 'must be 1 to 64 letters, digits or ._@- and begin with a letter or digit'

/** Names of models are sent in headers. */
export const MODEL_NAME = '^[\\x21-\\x2b\\x2d-\\x7e]{1,128}$'
const MODEL_NAME_WORDS = 'must be 1 to 128 printable ASCII characters without spaces or commas'

export const object = <T extends TProperties>(properties: T, options: ObjectOptions = {}) =>
  Type.Object(properties, { ...options, additionalProperties: false })

export const optional = <T extends TSchema>(schema: T) => Type.Optional(schema)

/** Keys of which each may be left out. */
export function optionals<P extends TProperties>(properties: P): { [K in keyof P]: TOptional<P[K]> }
export function optionals(properties: TProperties): TProperties {
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, optional(schema)]))
}

/** A key that may be left out, and then has this value. */
export const withDefault = <T extends TSchema>(schema: T, value: Static<T>) =>
  Object.assign(Type.Optional(schema), { default: value })

/** The last parameter of many of the types below: a default, which makes the key one that may be left out. */
type Default<Value> = readonly [] | readonly [value: Value]
type Defaulted<T extends TSchema, D> = D extends readonly [] ? T : ReturnType<typeof withDefault<T>>

function defaulted<T extends TSchema, D extends Default<Static<T>>>(schema: T, value: D): Defaulted<T, D>
function defaulted(schema: TSchema, [value]: readonly unknown[]): TSchema {
  return value === undefined ? schema : withDefault(schema, value)
}

/** What a schema describes once every default is filled in. */
export type Completed<T extends TSchema> =
  T extends TObject<infer P>
    ? CompletedObject<P>
    : T extends TArray<infer I>
      ? readonly Completed<I>[]
      : T extends TUnion<infer V>
        ? Completed<V[number]>
        : T extends TRecord<TSchema, infer V>
          ? Readonly<Record<string, Completed<V>>>
          : Static<T>

type CompletedObject<P extends TProperties> = {
  readonly [K in keyof P as IsPresent<P[K]> extends true ? K : never]: Completed<P[K]>
} & { readonly [K in keyof P as IsPresent<P[K]> extends true ? never : K]?: Completed<P[K]> | undefined }

type IsPresent<T extends TSchema> = T extends { readonly default: unknown }
  ? true
  : T extends TOptional<TSchema>
    ? false
    : true

export const oneOf = <const T extends string, const D extends Default<T>>(
  words: readonly T[],
  description: string,
  ...value: D
) => {
  const literals = words.map((word) => Type.Literal(word))
  return defaulted(Type.Union(literals, { description }), value)
}

/** A line break or a NUL in one of these would end a header, an address or a path early. */
const NO_CONTROL = '^[^\\x00-\\x1f\\x7f]*$'

export const text = <D extends Default<string>>(description: string, ...value: D) => {
  const patternErrorMessage = 'must be one line without control characters'
  const schema = Type.String({ minLength: 1, maxLength: 4096, pattern: NO_CONTROL, patternErrorMessage, description })
  return defaulted(schema, value)
}

/** Marks a value that problems never show. Editors know the word from JSON Schema. */
export const secret = <T extends TSchema>(schema: T): T => Object.assign(schema, { writeOnly: true })

/** A secret that is sent in a header. */
export const credential = (description: string) =>
  Type.String({
    writeOnly: true,
    minLength: 1,
    maxLength: 4096,
    pattern: '^[\\x21-\\x7e]*$',
    patternErrorMessage: 'must be printable ASCII characters without spaces or line breaks',
    description,
  })

/** An address or a part of one. The URL parser silently drops line breaks and tabs, so they are rejected here. */
export const unbroken = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: '^[^\\s\\x00-\\x1f\\x7f]*$',
    patternErrorMessage: 'must not contain spaces, line breaks or control characters',
    description,
  })

/** `words` is the error message; editors that know JSON Schema show it, too. */
export const pattern = (source: string, words: string, description: string) =>
  Type.String({ pattern: source, patternErrorMessage: words, description })

export const identifier = (description: string) => pattern(IDENTIFIER, IDENTIFIER_WORDS, description)
export const modelName = (description: string) => pattern(MODEL_NAME, MODEL_NAME_WORDS, description)
export const glob = modelName('A pattern: `*` matches any characters, `?` any one')

/** The name of a tag. It stands in a header in front of an equals sign. */
export const TAG_NAME = '[A-Za-z0-9._-]{1,64}'
export const tagName = (description: string) =>
  pattern(`^${TAG_NAME}$`, 'must be 1 to 64 letters, digits or ._-', description)

/** Values by names of a form. `words` is the error message for another name. */
export const record = <T extends TSchema>(names: string, words: string, value: T, options: ObjectOptions) =>
  Type.Record(Type.String({ pattern: names }), value, {
    ...options,
    additionalProperties: false,
    propertyNames: { pattern: names, patternErrorMessage: words },
  })

/** Tags by name. */
export const tags = (description: string) =>
  Type.Record(Type.String(), pattern(TAG_VALUE, 'must be 1 to 64 letters, digits or ._/@:-', 'The value of the tag'), {
    description,
    maxProperties: TAGS_MAX,
  })

export const integer = <D extends Default<number>>(
  [minimum, maximum]: readonly [minimum: number, maximum: number],
  description: string,
  ...value: D
) => defaulted(Type.Integer({ minimum, maximum, description }), value)

/** Milliseconds, at most a day. */
export const period = <D extends Default<number>>(description: string, ...value: D) =>
  integer([1, DAY_MS], description, ...value)

export const count = <D extends Default<number>>(description: string, ...value: D) =>
  integer([1, 1_000_000_000], description, ...value)

export const boolean = <D extends Default<boolean>>(description: string, ...value: D) =>
  defaulted(Type.Boolean({ description }), value)

export const port = <D extends Default<number>>(description: string, ...value: D) =>
  integer([0, 65_535], description, ...value)

export const host = <D extends Default<string>>(description: string, ...value: D) =>
  defaulted(pattern('^[^\\s/]{1,253}$', 'must be an address or a host name', description), value)

/** US dollars. The bound keeps every product of a price and a token count within the exact range of numbers. */
export const perMillion = (description: string) => Type.Number({ minimum: 0, maximum: 10_000, description })

export const dollars = (description: string) =>
  Type.Number({ minimum: 0, maximum: 1_000_000_000, description: `US dollars: ${description}` })

/** It may carry a password. */
export const redisUrl = (description: string) =>
  secret(
    pattern(
      '^rediss?://[^\\s\\x00-\\x1f\\x7f]+$',
      'must be an address that begins with redis:// or rediss://',
      description,
    ),
  )

/** A certificate chain is a few KB; the CA bundle of a whole system is a few hundred. */
const PEM_CHARS_MAX = 1024 * 1024

export const pem = (description: string) =>
  Type.String({
    writeOnly: true,
    pattern: '-----BEGIN [A-Z ]+-----',
    patternErrorMessage: 'must be PEM (-----BEGIN …), best from a file',
    maxLength: PEM_CHARS_MAX,
    description,
  })
