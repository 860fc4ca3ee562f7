/**
 * Writes prices into the text of a configuration and leaves every other byte of it as it is. Each edit replaces or
 * inserts the text of one value; a value that several places share by an anchor is written out at the others first.
 */

import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  parseDocument,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import { RATE_FIELDS } from '../config/prices.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { LongRates, Price, Rates, TierRates } from '../core/money.ts'
import { atLength, dollarsOf, type PriceDifference } from './price-differences.ts'

/** The text cannot be edited here; completes a sentence that begins with the price. */
class EditProblem extends Error {
  override readonly name = 'EditProblem'
}

/** What a model is to be charged, and what it is charged by the text. */
interface Wanted {
  readonly ours: Price | undefined
  /** Undefined if the list has none for the model. */
  readonly theirs: Price | undefined
  readonly differences: readonly PriceDifference[]
}

interface Edit {
  readonly from: number
  readonly to: number
  readonly text: string
}

/** Steps that the prices of one model may take: aliases are written out first, and some prices follow from others. */
const STEPS_MAX = 50

type Edited = { readonly text: string } | { readonly problem: string }

/**
 * The text with the wanted prices of the model with this index. `wantedOf` reads a text as the configuration that it
 * would be, and returns what of the model's price is to change then.
 */
export async function withPrice(
  before: string,
  index: number,
  wantedOf: (text: string) => Promise<Wanted | { readonly problem: string }>,
): Promise<Edited> {
  let text = before
  for (let step = 0; step < STEPS_MAX; step++) {
    const wanted = await wantedOf(text)
    if ('problem' in wanted) return { problem: `would not be valid: ${wanted.problem}` }
    const { ours, theirs, differences } = wanted
    if (theirs === undefined || differences.length === 0) {
      const isAlone = withoutPrice(text, index) === withoutPrice(before, index)
      return isAlone ? { text } : { problem: 'cannot be changed without other values' }
    }
    try {
      const next = new Editor(text, index).run({ ours, theirs, differences })
      if (next === text) break
      text = next
    } catch (error) {
      if (!(error instanceof EditProblem)) throw error
      return { problem: error.message }
    }
  }
  return { problem: 'cannot be changed' }
}

/** Everything of a configuration but the price of one model: what an edit must not change. */
function withoutPrice(text: string, index: number): string {
  const data: JsonValue = parseDocument(text).toJS({ maxAliasCount: -1 })
  if (!isObject(data) || !Array.isArray(data['models'])) return JSON.stringify(data)
  const models = data['models'].map((model, at) =>
    at === index && isObject(model) ? { ...model, price: undefined } : model,
  )
  return JSON.stringify({ ...data, models })
}

/** An alias was written out: the step is done, and the next one sees values of their own. */
class WrittenOut extends Error {}

type AnyMap = YAMLMap<Node, Node | null>

class Editor {
  private readonly document: Document.Parsed
  private edits: Edit[] = []
  private readonly eol: string

  constructor(
    private readonly text: string,
    private readonly index: number,
  ) {
    this.document = parseDocument(text, { uniqueKeys: false })
    this.eol = text.includes('\r\n') ? '\r\n' : '\n'
  }

  /** One step towards the wanted prices; the next one begins with the text that it returns. */
  run(wanted: Wanted & { readonly theirs: Price }): string {
    try {
      this.plan(wanted)
    } catch (error) {
      if (!(error instanceof WrittenOut)) throw error
    }
    let text = this.text
    // Several differences of one row cause the same edits.
    const edits = new Map(this.edits.map((edit) => [JSON.stringify(edit), edit]))
    const ordered = [...edits.values()].map((edit, at) => ({ ...edit, at }))
    // The last first, so that the places of the others stay.
    for (const { from, to, text: put } of ordered.sort((one, other) => other.from - one.from || other.at - one.at))
      text = text.slice(0, from) + put + text.slice(to)
    return text
  }

  private plan({ ours, theirs, differences }: Wanted & { readonly theirs: Price }): void {
    const models = this.own(this.mapOf(this.document.contents).get('models', true) ?? null)
    if (!isSeq(models)) throw new EditProblem('has no place in the file')
    const model = this.mapOf(models.items[this.index])
    if (ours === undefined) return this.set(model, 'price', priceFields(theirs))
    const price = this.mapOf(this.valueOf(model, 'price'))
    const rewritten = new Set<string>()
    for (const { tier, above, only, rates } of differences) {
      const tierKey = tier ?? ''
      if (rewritten.has(tierKey)) continue
      const [mine, others] = tier === undefined ? [ours, theirs] : [tierNamed(ours, tier), tierNamed(theirs, tier)]
      if (others === undefined) continue
      if (only === 'tier') {
        rewritten.add(tierKey)
        this.setInside(price, 'tiers', tierKey, tierFields(others, {}))
        continue
      }
      const node = tier === undefined ? price : this.tierNode(price, tier)
      if (node.has('factor') && mine !== undefined) {
        rewritten.add(tierKey)
        this.replaceFactor(node, tierFields(others, others.above === undefined ? { ...mine, above: undefined } : mine))
        continue
      }
      if (above > 0) this.setLength(node, above, others, mine ?? ours)
      else for (const { field, theirs: amount } of rates) this.setRate(node, field, amount)
    }
  }

  private tierNode(price: AnyMap, tier: string): AnyMap {
    return this.mapOf(this.valueOf(this.mapOf(this.valueOf(price, 'tiers')), tier))
  }

  private setRate(node: AnyMap, field: string, amount: number): void {
    const dollars = Number(dollarsOf(amount))
    if (field.startsWith('images.')) return this.setImage(node, field.slice('images.'.length), dollars)
    this.set(node, RATE_FIELDS.find(([each]) => each === field)?.[1] ?? field, dollars)
  }

  /** One price for all images gives way to a table, in which it is that of all others. */
  private setImage(node: AnyMap, row: string, dollars: number): void {
    const single = pairOf(node, 'image')
    if (single === undefined) return this.setInside(node, 'images', row, dollars)
    const images = { '*': Number(numberAt(node, 'image')), [row]: dollars }
    this.edits.push({ from: startOf(single.key), to: endOf(single.value), text: `images: ${flow(images)}` })
    throw new WrittenOut()
  }

  /** Sets what the list states above a length, in the row of this length or in a new one. */
  private setLength(node: AnyMap, above: number, theirs: TierRates, ours: TierRates): void {
    const found = this.valueOf(node, 'above')
    if (found === null) {
      // Without a table of its own the tier grows with the length as the model does: all of that is stated now.
      const lengths = [...(ours.above ?? []).map((long) => long.inputTokens), above]
      this.set(
        node,
        'above',
        [...new Set(lengths)].map((length) => lengthRow(length, theirs, ours)),
      )
      throw new WrittenOut()
    }
    if (!isSeq<Node>(found)) throw new EditProblem('has an `above` that is no list')
    const wanted = lengthRow(above, theirs, ours)
    for (const item of found.items) {
      const row = this.mapOf(item)
      if (numberAt(row, 'input_tokens') !== above) continue
      for (const [name, value] of Object.entries(wanted)) {
        if (numberAt(row, name) !== value) this.set(row, name, value)
      }
      return
    }
    this.append(node, found, wanted)
  }

  /** A tier by a factor gets prices of its own, in the place of the factor. */
  private replaceFactor(node: AnyMap, fields: JsonObject): void {
    const pair = pairOf(node, 'factor')
    if (pair === undefined) return
    const [from, to] = [startOf(pair.key), endOf(pair.value)]
    const entries = Object.entries(fields).map(([name, value]) => `${name}: ${flow(value)}`)
    this.edits.push({ from, to, text: entries.join(node.flow === true ? ', ' : this.eol + this.indentOf(from)) })
  }

  /** Sets an entry of a map inside a map, and makes that if it is not there. */
  private setInside(map: AnyMap, name: string, key: string, value: JsonValue): void {
    const found = this.valueOf(map, name)
    if (found !== null) return this.set(this.mapOf(found), key, value, pairOf(map, name))
    this.set(map, name, { [key]: value })
    // More entries may be wanted inside.
    throw new WrittenOut()
  }

  private set(map: AnyMap, key: string, value: JsonValue, parent?: Pair<Node, Node | null>): void {
    const pair = pairOf(map, key)
    if (pair !== undefined) {
      if (pair.value === null) throw new EditProblem(`has a ${key} without a value`)
      const node = this.own(pair.value)
      this.edits.push({ from: startOf(node), to: this.trimmedEnd(node), text: flow(value) })
      return
    }
    const entry = `${flow(key)}: ${flow(value)}`
    if (map.flow === true) return this.putInFlow(map, entry)
    const before = map.items.findLast((each) => isScalar(each.value) && isEarlier(each.key, key))
    if (before !== undefined) return this.putAfterLine(endOf(before.value), startOf(before.key), entry)
    if (parent !== undefined) return this.putAfterLine(endOf(parent.key), startOf(map.items[0]?.key), entry)
    const at = startOf(map.items[0]?.key)
    this.insert(at, `${entry}${this.eol}${this.indentOf(at)}`)
  }

  private append(map: AnyMap, list: YAMLSeq<Node>, row: JsonObject): void {
    if (list.flow === true) return this.putInFlow(list, flow(row))
    const key = pairOf(map, 'above')?.key
    this.putAfterLine(endOf(key), startOf(list), `- ${flow(row)}`)
  }

  private putInFlow(collection: AnyMap | YAMLSeq<Node>, entry: string): void {
    const last = collection.items.at(-1)
    const lastNode = last !== undefined && 'key' in last ? (last.value ?? last.key) : last
    if (lastNode === undefined) this.insert(startOf(collection) + 1, ` ${entry} `)
    else this.insert(this.trimmedEnd(lastNode), `, ${entry}`)
  }

  private insert(at: number, text: string): void {
    this.edits.push({ from: at, to: at, text })
  }

  /** A new line after the one with the place, as far in as the column of `aligned`. */
  private putAfterLine(place: number, aligned: number, entry: string): void {
    const end = this.text.indexOf('\n', place)
    const at = end === -1 ? this.text.length : this.eol === '\r\n' ? end - 1 : end
    this.insert(at, `${this.eol}${this.indentOf(aligned)}${entry}`)
  }

  private indentOf(place: number): string {
    return ' '.repeat(place - (this.text.lastIndexOf('\n', place - 1) + 1))
  }

  private mapOf(value: unknown): AnyMap {
    const node = this.own(value)
    if (isMap<Node, Node | null>(node)) return node
    throw new EditProblem('is not a map')
  }

  private valueOf(map: AnyMap, key: string): Node | null {
    return pairOf(map, key)?.value ?? null
  }

  /** The node, if no other place has it, too; else the others get its value first. */
  private own(value: unknown): Node {
    if (!isAlias(value) && !isScalar(value) && !isCollection(value)) throw new EditProblem('is not in the file')
    if (isAlias(value)) this.writeOut([value])
    const { anchor } = value as { readonly anchor?: string }
    const aliases: Node[] = []
    visit(this.document, {
      Alias: (_, alias) => {
        if (anchor !== undefined && alias.source === anchor && alias.resolve(this.document) === value)
          aliases.push(alias)
      },
    })
    if (aliases.length > 0) this.writeOut(aliases)
    return value
  }

  private writeOut(aliases: readonly Node[]): never {
    const copies = aliases.map((alias) => {
      const data: JsonValue = alias.toJS(this.document, { maxAliasCount: 1000 })
      return { from: startOf(alias), to: endOf(alias), text: flow(data) }
    })
    // Other edits of this step may be of the same text.
    this.edits = copies
    throw new WrittenOut()
  }

  /** The end of a value; that of a block does not include the line break after it. */
  private trimmedEnd(node: Node): number {
    const [from, to] = [startOf(node), endOf(node)]
    return from + this.text.slice(from, to).trimEnd().length
  }
}

function pairOf(map: AnyMap, key: string): Pair<Node, Node | null> | undefined {
  return map.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === key)
}

function numberAt(map: AnyMap, key: string): unknown {
  const value = pairOf(map, key)?.value
  return isScalar(value) ? value.value : undefined
}

function startOf(node: Node | null | undefined): number {
  if (node?.range) return node.range[0]
  throw new EditProblem('has a value without a place')
}

function endOf(node: Node | null | undefined): number {
  if (node?.range) return node.range[1]
  throw new EditProblem('has a value without a place')
}

const ORDER: readonly string[] = ['name', 'input_tokens', ...RATE_FIELDS.map(([, name]) => name), 'above', 'tiers']

/** Whether a line with this key is to stand before a new one. */
function isEarlier(key: Node, added: string): boolean {
  if (!isScalar(key)) return false
  const [at, rank] = [ORDER.indexOf(String(key.value)), ORDER.indexOf(added)]
  return at !== -1 && (rank === -1 || at < rank)
}

function tierNamed({ tiers = [] }: Price, name: string): TierRates | undefined {
  return tiers.find(({ names }) => names.includes(name))
}

/** A row of `above`: what the list states from a length on, and what it does not state of ours. */
function lengthRow(length: number, theirs: TierRates, ours: TierRates): Record<string, number> {
  return { input_tokens: length, ...rateFields(atLength(ours, length)), ...rateFields(atLength(theirs, length)) }
}

/** Of tiers and lengths, which have no price by the image. */
function rateFields(rates: Rates): Record<string, number> {
  const fields = RATE_FIELDS.flatMap(([field, name]) => {
    const amount = rates[field]
    return amount === undefined || field === 'image' ? [] : [[name, Number(dollarsOf(amount))] as const]
  })
  return Object.fromEntries(fields)
}

/** What the list states, and what it does not state of ours. */
function tierFields(theirs: TierRates, ours: TierRates): JsonObject {
  const lengths = [...(ours.above ?? []), ...(theirs.above ?? [])].map((long: LongRates) => long.inputTokens)
  const above = [...new Set(lengths)].sort((one, other) => one - other).map((length) => lengthRow(length, theirs, ours))
  return { ...rateFields(ours), ...rateFields(theirs), ...(above.length === 0 ? {} : { above }) }
}

function priceFields(price: Price): JsonObject {
  const { tiers = [], images, image } = price
  const byImage = Object.entries(images ?? {}).map(([row, amount]) => [row, Number(dollarsOf(amount))] as const)
  const byTier = tiers.map((tier) => [tier.names[0] ?? '', tierFields(tier, {})] as const)
  return {
    ...tierFields(price, {}),
    ...(tiers.length === 0 ? {} : { tiers: Object.fromEntries(byTier) }),
    ...(image === undefined ? {} : { image: Number(dollarsOf(image)) }),
    ...(images === undefined ? {} : { images: Object.fromEntries(byImage) }),
  }
}

/** A value on one line, as YAML. */
function flow(value: JsonValue | undefined): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`
  if (isObject(value)) {
    const entries = Object.entries(value).map(([key, each]) => `${flow(key)}: ${flow(each)}`)
    return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`
  }
  if (typeof value !== 'string') return String(value)
  return /^[A-Za-z][A-Za-z0-9_-]*$/.test(value) && !/^(?:null|true|false)$/i.test(value) ? value : JSON.stringify(value)
}
