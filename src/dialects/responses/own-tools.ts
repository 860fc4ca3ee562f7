/**
 * Tools of OpenAI's own, their items in the input, and the fields that belong to them. They go to providers that are
 * asked by the Responses API.
 */

import type { Arena } from '../../core/arena.ts'
import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../core/json.ts'
import { type ListedTool, NO_BETAS, type OwnFields, type OwnName, type OwnTool } from '../../core/own-fields.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { refuseForbiddenMembers, refuseForbiddenWithin } from '../forbidden-fields.ts'
import { invalid } from '../invalid-field.ts'

/** The date at the end of a type. */
const DATE = /_\d{4}_\d{2}_\d{2}$/
/** How much memory a container has without a choice. */
const USUAL_MEMORY = '1g'
/** What `include` may ask for of the items of such tools. */
const INCLUDED = /^(?:web_search_call|file_search_call|code_interpreter_call|computer_call_output)\.[a-z_.]{1,64}$/

const CACHE_CONTROL = words('cache_control')
const TOOLS = words('tools')

/** The members that are no scalars, by their index: the parameters, and the tools of a namespace. */
const HOLDS_OTHERS: ReadonlySet<number> = new Set([3, 5])

/** Gathers the tools of one request, each once: `additional_tools` items repeat them. */
export class OwnTools {
  readonly tools: OwnTool[] = []
  private readonly known = new Set<string>()
  private readonly places = new Map<string, ListedTool>()
  private readonly spaces = new Map<string, number>()
  private canList = true

  constructor(
    private readonly document: JsonDocument,
    private readonly arena: Arena,
  ) {}

  /** Throws `CallerError` for a forbidden name in its definition. */
  add(tool: number, type: string, path: string): void {
    const json = this.unmarked(tool) ?? this.document.written(tool)
    if (this.known.has(json)) return
    this.known.add(json)
    const definition = objectOf(this.document.value(tool)) ?? {}
    refuseForbiddenMembers(this.document, tool, () => path)
    this.tools.push({ kind: kindOf(type, definition), json, isHosted: isHosted(definition) })
    this.list(tool, json, 'own')
  }

  /** A tool of the caller's list. A later one of the same key replaces an earlier one. */
  list(tool: number, key: string, kind: ListedTool['kind']): void {
    const { document, arena } = this
    const json = this.unmarked(tool)
    const from = json === undefined ? document.fromOf(tool) : arena.addJson(json)
    this.places.set(key, { from, to: json === undefined ? document.toOf(tool) : arena.end, kind })
  }

  /** The same of a namespace. A later one may have other tools than an earlier one, which then has no place. */
  listNamespace(tool: number, name: string): void {
    const { document, spaces } = this
    const before = spaces.get(name)
    if (before !== undefined && document.written(before) !== document.written(tool)) this.listNone()
    spaces.set(name, tool)
    this.list(tool, `namespace ${name}`, 'namespace')
  }

  /** A definition without cache marks, which the API rejects in tools; undefined if it has none. */
  private unmarked(tool: number): string | undefined {
    if (!this.isMarked(tool)) return undefined
    const { cache_control: _, ...members } = objectOf(this.document.value(tool)) ?? {}
    const { tools } = members
    if (!isArray(tools)) return JSON.stringify(members)
    const inner = tools.map((one) => (isObject(one) ? { ...one, cache_control: undefined } : one))
    return JSON.stringify({ ...members, tools: inner })
  }

  private isMarked(tool: number): boolean {
    const { document } = this
    if (document.member(tool, CACHE_CONTROL) !== NONE) return true
    const inner = document.member(tool, TOOLS)
    if (!document.isList(inner)) return false
    for (let one = document.firstItem(inner); one !== NONE; one = document.nextItem(one))
      if (document.isObject(one) && document.member(one, CACHE_CONTROL) !== NONE) return true
    return false
  }

  /** Some tools can only be sent in the canonical form. */
  listNone(): void {
    this.canList = false
  }

  /** All tools in the caller's order; undefined if some have no place among them. */
  get listed(): readonly ListedTool[] | undefined {
    return this.canList ? [...this.places.values()] : undefined
  }

  /**
   * Throws `CallerError` for a forbidden name in the definition of a function, a tool that takes a text, or a
   * namespace. `found`: the members of `many` that are known, of which a format has members of its own.
   */
  checkMembers(tool: number, many: number, found: Int32Array, path: string, hasFormat: boolean): void {
    const { document } = this
    const isKnown = (value: number, index: number) =>
      value !== NONE && (HOLDS_OTHERS.has(index) || !(document.isObject(value) || document.isList(value)))
    if (!hasFormat && many === found.filter(isKnown).length) return
    refuseForbiddenMembers(document, tool, () => path, TOOLS)
  }
}

/** As prices name it: containers with more memory cost more. */
function kindOf(type: string, { container }: JsonObject): string {
  const kind = type.replace(DATE, '')
  const memory = isObject(container) ? container['memory_limit'] : undefined
  return typeof memory === 'string' && memory !== USUAL_MEMORY ? `${kind}_${memory}` : kind
}

/** A shell in a container of the provider. */
function isHosted({ type, environment }: JsonObject): boolean {
  return type === 'shell' && isObject(environment) && environment['type'] !== 'local'
}

/** The tools of a request, as only the Responses API has them. */
interface OfferedTools {
  readonly own: readonly OwnTool[]
  readonly listed: readonly ListedTool[] | undefined
  readonly lifted: ReadonlyMap<string, OwnName> | undefined
}

/**
 * What only the Responses API takes of a request; undefined if it has no such tools and no items of them. `thinks`:
 * what it states about thoughts passes. Throws `CallerError`.
 */
export function ownFields(
  settings: JsonObject,
  { own: tools, listed, lifted }: OfferedTools,
  conversation: Conversation,
  thinks: boolean,
): OwnFields | undefined {
  if (tools.length === 0 && lifted === undefined && !conversation.has(Kind.OWN_BLOCK)) return undefined
  const { max_tool_calls: most = null, include, tool_choice: choice } = settings
  if (most !== null && !(Number.isSafeInteger(most) && Number(most) > 0))
    throw invalid('max_tool_calls', 'must be a whole number of at least 1')
  const included = isArray(include) ? include.filter((one) => typeof one === 'string' && INCLUDED.test(one)) : []
  const isLimited = most !== null && tools.length > 0
  const { parallel_tool_calls: parallel, text, reasoning } = settings
  const verbosity = isObject(text) ? text['verbosity'] : undefined
  const context = isObject(reasoning) && thinks ? reasoning['context'] : undefined
  const members: Record<string, JsonValue> = {
    ...(parallel === false && { parallel_tool_calls: false }),
    ...(typeof verbosity === 'string' && { 'text.verbosity': verbosity }),
    ...(typeof context === 'string' && { 'reasoning.context': context }),
    ...(isLimited && { max_tool_calls: most }),
    ...(included.length > 0 && { include: included }),
    ...(isObject(choice) && isChoice(choice, tools) && { tool_choice: choice }),
  }
  refuseForbiddenWithin(members['tool_choice'], 'tool_choice')
  const defaults = {
    ...(parallel === true && { parallel_tool_calls: true }),
    ...(choice === 'auto' && { tool_choice: choice }),
  }
  return {
    ...{ form: 'responses', betas: NO_BETAS, members, defaults, tools, listed, lifted },
    callsMax: isLimited ? Number(most) : undefined,
  }
}

/** Whether it forces one of the tools. */
function isChoice({ type }: JsonObject, tools: readonly OwnTool[]): boolean {
  if (typeof type !== 'string') return false
  const kind = type.replace(DATE, '')
  return tools.some((tool) => tool.kind === kind || tool.kind.startsWith(`${kind}_`))
}
