/** The kinds of fields that the configuration is made of, each with its bounds and the words that say what it must be. */

import { type ObjectOptions, type TProperties, type TSchema, Type } from '@sinclair/typebox'

/** Ids of organisations, keys and providers stand in log lines, in the ledger and on command lines. */
export const IDENTIFIER = '^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$'
export const IDENTIFIER_WORDS = 'must be 1 to 64 letters, digits or ._@- and begin with a letter or digit'

/** Names of models stand in headers. */
export const MODEL_NAME = '^[\\x21-\\x2b\\x2d-\\x7e]{1,128}$'
const MODEL_NAME_WORDS = 'must be 1 to 128 printable ASCII characters without spaces or commas'

/** No period in this file is longer than a day, save for what is remembered. */
const DAY_MS = 86_400_000

export const object = <T extends TProperties>(properties: T, options: ObjectOptions = {}) =>
  Type.Object(properties, { ...options, additionalProperties: false })

export const optional = <T extends TSchema>(schema: T) => Type.Optional(schema)

export const oneOf = <const T extends string>(words: readonly T[], description: string, fallback?: T) =>
  Type.Union(
    words.map((word) => Type.Literal(word)),
    fallback === undefined ? { description } : { description, default: fallback },
  )

/** A line break or a NUL in one of these would end a header, an address or a path early. */
const NO_CONTROL = '^[^\\x00-\\x1f\\x7f]*$'

export const text = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: NO_CONTROL,
    patternErrorMessage: 'must be one line without control characters',
    description,
  })

/** What is sent in a header to prove who asks. */
export const credential = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: '^[\\x21-\\x7e]*$',
    patternErrorMessage: 'must be printable ASCII characters without spaces or line breaks',
    description,
  })

/** An address or a part of one: the parser of addresses leaves line breaks and tabs out without a word. */
export const unbroken = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 4096,
    pattern: '^[^\\s\\x00-\\x1f\\x7f]*$',
    patternErrorMessage: 'must not contain spaces, line breaks or control characters',
    description,
  })

/** `words` is the complaint; editors that know JSON Schema show it, too. */
export const pattern = (source: string, words: string, description: string) =>
  Type.String({ pattern: source, patternErrorMessage: words, description })

export const identifier = (description: string) => pattern(IDENTIFIER, IDENTIFIER_WORDS, description)
export const modelName = (description: string) => pattern(MODEL_NAME, MODEL_NAME_WORDS, description)
export const glob = modelName('A name, in which * stands for any characters and ? for any one')

export const period = (description: string, fallback?: number) =>
  Type.Integer({ minimum: 1, maximum: DAY_MS, description, ...(fallback === undefined ? {} : { default: fallback }) })

export const count = (description: string) => Type.Integer({ minimum: 1, maximum: 1_000_000_000, description })

export const port = (description: string, fallback: number) =>
  Type.Integer({ minimum: 0, maximum: 65_535, description, default: fallback })

export const host = (fallback: string) =>
  Type.String({
    pattern: '^[^\\s/]{1,253}$',
    patternErrorMessage: 'must be an address or a host name',
    description: 'The address to listen on',
    default: fallback,
  })

/** The bound keeps every product of a price and a count of tokens far from where numbers lose their last digit. */
export const perMillion = (description: string) =>
  Type.Number({ minimum: 0, maximum: 10_000, description: `US dollars per million tokens: ${description}` })

export const dollars = (description: string) =>
  Type.Number({ minimum: 0, maximum: 1_000_000_000, description: `US dollars: ${description}` })

export const redisUrl = (description: string) =>
  pattern(
    '^rediss?://[^\\s\\x00-\\x1f\\x7f]+$',
    'must be an address that begins with redis:// or rediss://',
    description,
  )

/** A chain of an authority is a few KB; the bundle of a whole system a few hundred. */
const PEM_CHARS_MAX = 1024 * 1024

export const pem = (description: string) =>
  Type.String({
    pattern: '-----BEGIN [A-Z ]+-----',
    patternErrorMessage: 'must be PEM (-----BEGIN …), best from a file',
    maxLength: PEM_CHARS_MAX,
    description,
  })
