/**
 * Builders of the schemas in the reference: descriptions, references to named schemas, and marks for fields without
 * effect.
 */

import { type TObject, type TOptional, type TProperties, type TSchema, Type } from '@sinclair/typebox'

/** Schemas by the name that they have in the document. */
export type Components = Readonly<Record<string, TSchema>>

/** Refers to a schema of the document by its name. */
export function ref(name: string): TSchema {
  return Type.Unsafe({ $ref: `#/components/schemas/${name}` })
}

/** The schema with a description. */
export function described<T extends TSchema>(schema: T, description: string): T {
  return { ...schema, description }
}

/** The schema or null. */
export function orNull(schema: TSchema, description?: string): TSchema {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description })
}

/** An optional field, which callers may also send as null. */
export function optional(schema: TSchema, description?: string): TOptional<TSchema> {
  return Type.Optional(orNull(schema, description))
}

/** One of these texts. */
export function oneOf(...values: readonly string[]): TSchema {
  return Type.Unsafe({ type: 'string', enum: values })
}

/** A choice by the value of a field that all variants have. */
export function choice(field: string, variants: Readonly<Record<string, string>>, description: string): TSchema {
  const names = [...new Set(Object.values(variants))]
  const mapping = Object.fromEntries(
    Object.entries(variants).map(([value, name]) => [value, `#/components/schemas/${name}`]),
  )
  return Type.Unsafe({
    type: 'object',
    description,
    oneOf: names.map(ref),
    discriminator: { propertyName: field, mapping },
  })
}

/** A choice without a field that decides. */
export function anyOf(schemas: readonly TSchema[], description?: string): TSchema {
  return Type.Union([...schemas], description === undefined ? {} : { description })
}

/** Any JSON object. */
export function anyObject(description: string): TSchema {
  return Type.Unsafe({ type: 'object', additionalProperties: true, description })
}

/** The mark of a field that is accepted and has no effect. */
export const IGNORED = 'x-weir-ignored'

/** A field that is accepted without effect, with any value unless the schema restricts it. */
export function ignored(description: string, schema: TSchema = Type.Unknown()): TOptional<TSchema> {
  return Type.Optional({ ...schema, description: `Accepted without effect. ${description}`, [IGNORED]: true })
}

/** A field of native mode: without effect unless the operator has switched it on, so that any value is accepted. */
export function nativeOnly(description: string, schema: TSchema): TOptional<TSchema> {
  return ignored(description, anyOf([schema, Type.Unknown()]))
}

function ignoredFields(fields: Readonly<Record<string, Field>>): TProperties {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, typeof field === 'string' ? ignored(field) : field] as const),
  )
}

/** A field of a body: its description, or a schema that replaces the one by which the gateway checks its outer form. */
type Field = string | TSchema

/**
 * A request body: the schema with which a dialect checks it, with a description or a fuller schema for each field, and
 * the fields that are accepted without effect.
 */
export function requestBody<T extends TProperties>(
  checked: TObject<T>,
  fields: { readonly [Name in keyof T]: Field },
  withoutEffect: Readonly<Record<string, Field>>,
  rest: { readonly description: string } & Readonly<Record<string, unknown>>,
): TSchema {
  const properties = Object.entries(checked.properties).map(([name, schema]) => {
    const field: Field | undefined = fields[name]
    if (field === undefined) throw new Error(`the field '${name}' has no description`)
    return [name, typeof field === 'string' ? described(schema, field) : field] as const
  })
  return {
    ...checked,
    ...rest,
    properties: { ...Object.fromEntries(properties), ...ignoredFields(withoutEffect) },
  }
}

/** A whole number from 0 on. */
export function count(description: string): TSchema {
  return Type.Integer({ minimum: 0, description })
}

/** An id that weir makes. */
export function id(prefix: string, description: string): TSchema {
  return Type.String({ pattern: `^${prefix}[A-Za-z0-9_-]+$`, description })
}

/** Fields that mean the same in the three dialects. */
export const COMMON_FIELDS = {
  model: 'A name from `GET /v1/models`, an alias, or `auto` if it is available to the key.',
  stream: 'True: the answer is a stream of server-sent events.',
  temperature: 'Randomness of the output.',
  top_p: 'Nucleus sampling: the share of probability that is considered.',
  service_tier: "The provider's processing tier, passed on.",
  prompt_cache_key: "Passed on if the model's `prompt_cache` has `key: true`.",
  prompt_cache_retention: "Passed on if the model's `prompt_cache` allows it.",
}

/** Of a function that the model may call. */
export const FUNCTION_FIELDS = {
  name: Type.String({ minLength: 1, description: 'The name that the model calls.' }),
  description: optional(Type.String(), 'What the function does, for the model.'),
  parameters: optional(ref('JsonSchema'), 'The schema of the arguments. Without it, an object without properties.'),
  strict: optional(Type.Boolean(), 'Whether the provider must follow the schema exactly.'),
}

/** A cache mark that is dropped if the model cannot honour it. */
export const MARK_OR_DROPPED = optional(
  ref('CacheControl'),
  "Marks the end of a prefix to cache, if the model's `prompt_cache` allows it; else dropped.",
)
