/** A schema as HTML: a table of its fields, or a list of its variants. Named schemas are links. */

import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { objectsOf, textOf } from './document-values.ts'
import { html, inline, type Markup, separated } from './markup.ts'

const OR = html` <span class="or">or</span> `

/** The name in a reference to a schema; undefined if it is none. */
export function nameOfRef(schema: JsonObject): string | undefined {
  const { $ref } = schema
  return typeof $ref === 'string' ? $ref.slice($ref.lastIndexOf('/') + 1) : undefined
}

export function schemaLink(name: string): Markup {
  return html`<a class="type" href="#${name}">${name}</a>`
}

/** Fields, variants, or the type of a schema. `isRequest`: every optional field may be null, which is not repeated. */
export function schemaBody(schema: JsonObject, isRequest: boolean): Markup {
  const { properties, discriminator } = schema
  if (isObject(properties)) return fieldTable(schema, properties, isRequest)
  if (isObject(discriminator)) return choiceList(discriminator)
  const variants = objectsOf(schema['anyOf'])
  const forbidden = schema['x-weir-forbidden']
  if (isArray(forbidden)) return html``
  if (variants.length > 0)
    return html`<ul class="variants">${variants.map((each) => variantItem(each, isRequest))}</ul>`
  return html`<p class="kind">${typeText(schema)}</p>`
}

function choiceList(discriminator: JsonObject): Markup {
  const { propertyName, mapping } = discriminator
  const rows = isObject(mapping) ? Object.entries(mapping) : []
  const items = rows.map(([value, to]) => {
    const name = textOf(to).slice(textOf(to).lastIndexOf('/') + 1)
    return html`<li><code>"${value}"</code> ${schemaLink(name)}</li>`
  })
  return html`<p class="kind">One of these, by <code>${textOf(propertyName)}</code>:</p>
<ul class="variants">${items}</ul>`
}

function variantItem(variant: JsonObject, isRequest: boolean): Markup {
  const description = inline(textOf(variant['description']))
  const inner = isObject(variant['properties']) && schemaBody(variant, isRequest)
  return html`<li>${typeText(variant)} <span class="about">${description}</span>${inner}</li>`
}

function fieldTable(schema: JsonObject, properties: JsonObject, isRequest: boolean): Markup {
  const required = new Set(isArray(schema['required']) ? schema['required'] : [])
  const fields = Object.entries(properties).flatMap(([name, field]) => (isObject(field) ? [{ name, field }] : []))
  const isIgnored = (field: JsonObject) => field['x-weir-ignored'] === true
  const effective = fields.filter(({ field }) => !isIgnored(field))
  const idle = fields.filter(({ field }) => isIgnored(field))
  const row = ({ name, field }: (typeof fields)[number]) => fieldRow(name, field, required.has(name), isRequest)
  const list =
    effective.length === 0
      ? html`<p class="kind">An empty object.</p>`
      : html`<dl class="fields">${effective.map(row)}</dl>`
  if (idle.length === 0) return list
  return html`${list}<details class="idle"><summary>Accepted without effect: ${idle.length} ${
    idle.length === 1 ? 'field' : 'fields'
  }</summary><dl class="fields">${idle.map(row)}</dl></details>`
}

function fieldRow(name: string, field: JsonObject, isRequired: boolean, isRequest: boolean): Markup {
  const shown = isRequest && !isRequired ? withoutNull(field) : field
  const described = textOf(field['description']).replace(/^Accepted without effect\. /, '')
  const bounds = boundsOf(shown)
  const needed = isRequest ? isRequired && REQUIRED : !isRequired && MAY_BE_ABSENT
  return html`<div class="field"><dt><code>${name}</code>${needed}</dt>
<dd><p class="kind">${typeText(shown)}${bounds === '' ? '' : `, ${bounds}`}</p>
${described !== '' && html`<p>${inline(described)}</p>`}${innerFields(shown, isRequest)}</dd></div>`
}

/** In requests most fields are optional, and in answers most are there: the others are marked. */
const REQUIRED = html` <span class="required">required</span>`
const MAY_BE_ABSENT = html` <span class="optional">may be absent</span>`

/** The fields of objects within a field that have no name of their own. */
function innerFields(schema: JsonObject, isRequest: boolean): readonly Markup[] {
  const { items } = schema
  const candidates = [
    schema,
    ...objectsOf(schema['anyOf']),
    ...(isObject(items) ? [items, ...objectsOf(items['anyOf'])] : []),
  ]
  return candidates.flatMap((each) => {
    const { properties, discriminator } = each
    if (isObject(discriminator)) return [choiceList(discriminator)]
    if (!isObject(properties) || Object.keys(properties).length === 0) return []
    return [html`<div class="inner">${schemaBody(each, isRequest)}</div>`]
  })
}

function withoutNull(field: JsonObject): JsonObject {
  const { type, enum: values, anyOf: variants, ...rest } = field
  const types = isArray(type) ? type.filter((each) => each !== 'null') : type
  const only = isArray(types) && types.length === 1 ? types[0] : types
  const kept = objectsOf(variants).filter((each) => each['type'] !== 'null')
  const [single] = kept
  return {
    ...(kept.length === 1 ? single : {}),
    ...rest,
    ...(only === undefined ? {} : { type: only }),
    ...(isArray(values) ? { enum: values.filter((each) => each !== null) } : {}),
    ...(kept.length > 1 ? { anyOf: [...kept] } : {}),
  }
}

/** The type in a few words: `string`, `array of ChatMessage`, `"auto" or "none"`. */
function typeText(schema: JsonObject): Markup {
  const name = nameOfRef(schema)
  if (name !== undefined) return schemaLink(name)
  const { const: constant, enum: values, anyOf: variants, items, type, discriminator } = schema
  if (constant !== undefined) return literal(constant)
  if (isArray(values)) return html`${separated(OR, values.map(literal))}`
  if (isArray(variants)) return html`${separated(OR, distinct(objectsOf(variants).map(typeText)))}`
  if (type === 'array') return html`array${isObject(items) && itemText(items)}`
  if (isObject(discriminator)) return html`object`
  if (isArray(type)) {
    const names = type.map((each) => html`${String(each)}`)
    return html`${separated(OR, names)}`
  }
  return typeof type === 'string' ? html`${type}` : html`any value`
}

function itemText(items: JsonObject): Markup | false {
  const text = typeText(items)
  return text.text === 'any value' ? false : html` of ${text}`
}

function distinct(parts: readonly Markup[]): readonly Markup[] {
  const seen = new Map(parts.map((part) => [part.text, part]))
  return [...seen.values()]
}

function literal(value: JsonValue): Markup {
  return html`<code>${JSON.stringify(value)}</code>`
}

/** `0 to 2`, `at least 1 item`. */
function boundsOf(schema: JsonObject): string {
  const { minimum, maximum, minItems, maxItems, minLength } = schema
  const words = [
    minimum !== undefined && maximum !== undefined && `${minimum} to ${maximum}`,
    minimum !== undefined && maximum === undefined && `at least ${minimum}`,
    minItems !== undefined && minItems === maxItems && `exactly ${minItems}`,
    minItems !== undefined && minItems !== maxItems && `at least ${minItems}`,
    maxItems !== undefined && maxItems !== 0 && minItems !== maxItems && `at most ${maxItems}`,
    minLength !== undefined && 'not empty',
  ]
  return words.filter((each) => each !== false).join(', ')
}
