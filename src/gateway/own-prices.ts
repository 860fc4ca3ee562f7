/** What fields and tools of a provider's own API cost, and what of it has no price. */

import { isSpendLimited, isStrict, type Key, type Model, publicName } from '../catalog/catalog.ts'
import { CallerError, type CallerErrorKind } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import type { JsonObject } from '../core/json.ts'
import type { Price } from '../core/money.ts'
import type { OwnFields, OwnTool } from '../core/own-fields.ts'
import { priceWithFields } from '../core/price-factors.ts'

/** Fields that change the price of a request, and their values that do not. */
const PRICED_FIELDS: Readonly<Record<string, readonly string[]>> = {
  speed: ['standard'],
  inference_geo: ['global', 'not_available'],
}

/** Tools that the caller runs itself, or that only find others. */
const FREE_TOOLS =
  /^(?:bash|text_editor|computer|computer_use|computer_use_preview|memory|tool_search(?:_tool\w*)?|local_shell|shell|apply_patch)$/

/** So many calls are reserved for each tool if the request does not limit them. */
const CALLS_RESERVED = 10
const PER_THOUSAND = 1000

/** How often the provider has run its tools, by kind. */
export type ToolCalls = ReadonlyMap<string, number>

/** Those of a request that have a price of their own: `speed:fast`. */
export function pricedFields({ members }: OwnFields): readonly string[] {
  if (Object.keys(members).length === 0) return []
  return Object.entries(PRICED_FIELDS).flatMap(([name, free]) => {
    const value = members[name] ?? undefined
    if (value === undefined || (typeof value === 'string' && free.includes(value))) return []
    return [`${name}:${typeof value === 'string' ? value : JSON.stringify(value)}`]
  })
}

function pricedTools({ tools }: OwnFields): readonly OwnTool[] {
  return tools.filter(({ kind, isHosted }) => isHosted === true || !FREE_TOOLS.test(kind))
}

/** The error for what has no price under a spend limit; undefined if all has one. */
function unpricedOwn(own: OwnFields, model: Model, isLimitStrict: boolean): CallerError | undefined {
  const { fields = {}, tools = {} } = model.price ?? {}
  const field = pricedFields(own).find((each) => !Object.hasOwn(fields, each))
  if (field !== undefined) {
    const [param = '', value = ''] = field.split(':')
    return unpricedError('unpriced_field', `${param} '${beginningOf(value)}'`, model, param)
  }
  const unpriced = pricedTools(own).find(({ kind }) => !Object.hasOwn(tools, kind))
  if (unpriced !== undefined)
    return unpricedError('unpriced_tool', `tool '${beginningOf(unpriced.kind)}'`, model, 'tools')
  const endless = pricedTools(own).find(
    ({ kind, callsMax = own.callsMax }) => callsMax === undefined && (tools[kind] ?? 0) > 0,
  )
  if (!isLimitStrict || endless === undefined) return undefined
  const limit = own.form === 'messages' ? 'max_uses of the tool' : 'max_tool_calls'
  const message = `Under a strict spend limit the calls of the tool '${endless.kind}' must be limited: set ${limit}.`
  return new CallerError('unpriced_tool', message, { param: 'tools' })
}

function unpricedError(kind: CallerErrorKind, what: string, model: Model, param: string): CallerError {
  const message = `The ${what} of model '${publicName(model)}' has no price under a spend limit. Leave it out.`
  return new CallerError(kind, message, { param })
}

interface OwnCost {
  readonly price: Price | undefined
  readonly toolsMicroUsd: number | undefined
}

/** How a model charges what a request has for its own API; under a spend limit, the error for what has no price. */
export function ownCost(own: OwnFields, model: Model, key: Key): OwnCost | CallerError {
  const { price } = model
  const unpriced = price !== undefined && isSpendLimited(key) && unpricedOwn(own, model, isStrict(key))
  if (unpriced) return unpriced
  const toolsMicroUsd = reservedToolsMicroUsd(own, price)
  return {
    price: price && priceWithFields(price, pricedFields(own)),
    toolsMicroUsd: toolsMicroUsd === 0 ? undefined : toolsMicroUsd,
  }
}

/** What the calls of tools may cost that a request allows: of a limit on all together, at the price of the dearest. */
function reservedToolsMicroUsd(own: OwnFields, price: Price | undefined): number {
  if (own.tools.length === 0) return 0
  const { callsMax: most } = own
  if (most !== undefined)
    return Math.max(0, ...pricedTools(own).map(({ kind }) => toolsMicroUsd(new Map([[kind, most]]), price)))
  const calls = new Map<string, number>()
  for (const { kind, callsMax = CALLS_RESERVED } of pricedTools(own)) calls.set(kind, (calls.get(kind) ?? 0) + callsMax)
  return toolsMicroUsd(calls, price)
}

/**
 * The calls of an answer by the kinds that have prices: a provider reports them by the tool alone, and the request has
 * its variant (`web_search_preview`, `code_interpreter_4g`). Of several variants, the dearest.
 */
export function callsByPrice(
  calls: ToolCalls | undefined,
  tools: readonly OwnTool[],
  price: Price | undefined,
): ToolCalls | undefined {
  if (calls === undefined || tools.length === 0) return calls
  const byPrice = new Map<string, number>()
  for (const [kind, count] of calls) {
    const rate = (name: string) => price?.tools?.[name] ?? 0
    const variants = tools.filter((tool) => tool.kind !== kind && VARIANT.exec(tool.kind)?.[1] === kind)
    const dearest = variants.reduce((most, tool) => (rate(tool.kind) > rate(most) ? tool.kind : most), kind)
    byPrice.set(dearest, (byPrice.get(dearest) ?? 0) + count)
  }
  return byPrice
}

const VARIANT = /^(\w+?)_(?:preview|\d+g)$/

/** What the calls of tools have cost, rounded up once. */
export function toolsMicroUsd(calls: ToolCalls, price: Price | undefined): number {
  const { tools } = price ?? {}
  if (tools === undefined) return 0
  let sum = 0n
  for (const [kind, count] of calls) if (Object.hasOwn(tools, kind)) sum += BigInt(count) * BigInt(tools[kind] ?? 0)
  const cost = (sum + BigInt(PER_THOUSAND - 1)) / BigInt(PER_THOUSAND)
  return cost > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(cost)
}

/**
 * The price of an answer: a field that was asked for multiplies it, unless the usage reports that another value has
 * served.
 */
export function servedPrice(price: Price, asked: readonly string[], usage: JsonObject): Price {
  if (asked.length === 0) return price
  const served = asked.flatMap((field) => {
    const [name = ''] = field.split(':')
    const value = usage[name]
    if (typeof value !== 'string') return [field]
    const actual = `${name}:${value}`
    if (PRICED_FIELDS[name]?.includes(value) === true) return []
    return Object.hasOwn(price.fields ?? {}, actual) ? [actual] : [field]
  })
  return priceWithFields(price, served)
}
