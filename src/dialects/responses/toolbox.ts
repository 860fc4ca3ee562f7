/**
 * Function tools from `tools`, from a `namespace`, and from `additional_tools` items of the input. A tool within a
 * namespace is sent under a joined name that providers accept, and its calls get back the caller's name and namespace.
 */

import type { Arena } from '../../core/arena.ts'
import { OF_OBJECT } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { EntryWriter } from '../../core/entry-writer.ts'
import { type JsonObject, objectOf, stringOf } from '../../core/json.ts'
import { type ListedTool, NO_OWN_TOOLS, type OwnName, type OwnTool } from '../../core/own-fields.ts'
import { liftedName, NO_TOOLS, ToolList } from '../../core/tool-list.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { checkFormat, freeDescription, TEXT_PARAMETERS } from '../free-text.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'
import { NO_PARAMETERS, schemaKind } from '../tool-schema.ts'
import { OwnTools } from './own-tools.ts'

const TOOL = words('type', 'name', 'description', 'parameters', 'strict', 'tools', 'format')
const TYPES = words('function', 'namespace', 'custom')
const [FUNCTION, NAMESPACE, CUSTOM] = [0, 1, 2]

/** A list of tools in the body, and its path: `tools`, `input[0].tools`. */
export interface ListedTools {
  readonly list: number
  readonly path: string
}

/** A function: where its members are in the document, or `NONE`. */
interface FoundTool extends OwnName {
  readonly path: string
  readonly nameValue: number
  readonly description: number
  readonly parameters: number
  readonly strict: number
  /** Its definition, if it takes a text; else `NONE`. */
  readonly custom: number
  /** The format of that text. */
  readonly format: number
}

const entries = new EntryWriter()

/**
 * Tools that are not functions are left out, because other providers have no counterpart. If they pass, `own` has them.
 * Throws `CallerError` if a function has no name.
 */
export class Toolbox {
  /** The tools under the names that are sent to providers. */
  readonly tools: ToolList
  /** Those whose sent name is the caller's own. */
  readonly unlifted: ToolList
  private owners: Map<string, OwnName> | undefined
  private sent: Map<string, string> | undefined
  /** Tools of OpenAI's own. */
  readonly own: readonly OwnTool[]
  /** All tools in the caller's order, for a provider of the same API; absent if their own forms show no more. */
  readonly listed: readonly ListedTool[] | undefined
  /** Calls of the history name tools of a namespace that is not listed. */
  hasUnlisted = false
  /** The sent names of tools that take a text. */
  private free: Set<string> | undefined

  /** `passes`: tools that take a text are kept, and those of OpenAI's own; else they are left out, too. */
  constructor(
    document: JsonDocument,
    arena: Arena,
    lists: readonly ListedTools[],
    limits: RequestLimits,
    private readonly passes = false,
  ) {
    if (lists.length === 0) {
      this.tools = NO_TOOLS
      this.unlifted = NO_TOOLS
      this.own = NO_OWN_TOOLS
      this.listed = undefined
      return
    }
    const own = new OwnTools(document, arena)
    const named = this.named(document, lists, limits, own)
    this.own = own.tools
    this.listed = this.passes && (this.owners !== undefined || own.tools.length > 0) ? own.listed : undefined
    this.tools = this.written(document, arena, named, true)
    this.unlifted = this.owners === undefined ? this.tools : this.written(document, arena, named, false)
  }

  private named(
    document: JsonDocument,
    lists: readonly ListedTools[],
    limits: RequestLimits,
    own: OwnTools,
  ): ReadonlyMap<string, FoundTool> {
    const found: FoundTool[] = []
    for (const { list, path } of lists)
      addFunctions(document, list, path, undefined, found, this.passes ? own : undefined)
    const named = new Map<string, FoundTool>()
    const add = (name: string, tool: FoundTool) => {
      named.set(name, tool)
      limits.checkTools(named.size + own.tools.length, tool.path)
    }
    limits.checkTools(own.tools.length, 'tools')
    // A later definition replaces an earlier one: `additional_tools` items repeat tools during a conversation.
    for (const tool of found) if (tool.namespace === undefined) add(tool.name, tool)
    for (const tool of found) if (tool.namespace !== undefined) add(this.lift(tool.name, tool.namespace, named), tool)
    return named
  }

  private written(
    document: JsonDocument,
    arena: Arena,
    named: ReadonlyMap<string, FoundTool>,
    withLifted: boolean,
  ): ToolList {
    entries.begin()
    for (const [sent, tool] of named) {
      const isLifted = this.owners?.has(sent) === true
      if (isLifted && !withLifted) continue
      if (isLifted) entries.addText(Kind.NAME, arena, sent)
      else entries.addValue(Kind.NAME, document, tool.nameValue)
      if (tool.custom !== NONE) {
        this.free ??= new Set()
        this.free.add(sent)
        addFree(document, arena, tool)
        continue
      }
      if (tool.description !== NONE) entries.addValue(Kind.TEXT, document, tool.description)
      if (tool.parameters === NONE) entries.add(Kind.INPUT, arena.addJson(NO_PARAMETERS), arena.end)
      else entries.addValue(schemaKind(document, tool.parameters), document, tool.parameters)
      if (tool.strict !== NONE) entries.addValue(Kind.STRICT, document, tool.strict)
    }
    return new ToolList(arena, entries.take(), 'responses')
  }

  /**
   * The name that a provider gets for the caller's tool. A call in the history may name a tool that is no longer
   * defined.
   */
  sentName({ name, namespace }: OwnName): string {
    if (namespace === undefined) return name
    const known = this.sent?.get(ownKey(name, namespace))
    if (known !== undefined) return known
    const lifted = liftedName(name, namespace)
    if (this.passes && this.owners?.has(lifted) !== true) {
      this.owners ??= new Map()
      this.owners.set(lifted, { name, namespace })
      this.hasUnlisted = true
    }
    return lifted
  }

  /** The tools of namespaces by the names that are sent to other providers; undefined if there are none. */
  get lifted(): ReadonlyMap<string, OwnName> | undefined {
    return this.passes ? this.owners : undefined
  }

  /** Whether the tool of this sent name takes a text instead of arguments. */
  takesText(sent: string): boolean {
    return this.free?.has(sent) === true
  }

  /**
   * The caller's own name of the tool that the model called. `members`: what only the provider's own API has of the
   * call; a tool that was found by a search is in no list.
   */
  ownName(sent: string, members?: JsonObject): OwnName {
    const known = this.owners?.get(sent)
    const caller = objectOf(members?.['caller'])
    if (known !== undefined) return caller === undefined ? known : { ...known, caller }
    const name = stringOf(members?.['name'])
    return name === undefined ? { name: sent, caller } : { name, namespace: stringOf(members?.['namespace']), caller }
  }

  private lift(name: string, namespace: string, taken: ReadonlyMap<string, FoundTool>): string {
    this.sent ??= new Map()
    this.owners ??= new Map()
    const key = ownKey(name, namespace)
    const known = this.sent.get(key)
    if (known !== undefined) return known
    let attempt = 0
    let lifted = liftedName(name, namespace, attempt)
    while (taken.has(lifted)) lifted = liftedName(name, namespace, ++attempt)
    this.sent.set(key, lifted)
    this.owners.set(lifted, { name, namespace })
    return lifted
  }
}

function ownKey(name: string, namespace: string): string {
  return `${namespace}\0${name}`
}

function addFunctions(
  document: JsonDocument,
  tools: number,
  path: string,
  namespace: string | undefined,
  found: FoundTool[],
  own: OwnTools | undefined,
): void {
  if (document.isNull(tools)) return
  if (!document.isList(tools)) throw invalid(path, 'must be an array')
  const members = new Int32Array(TOOL.length)
  let index = 0
  for (let tool = document.firstItem(tools); tool !== NONE; tool = document.nextItem(tool), index++) {
    const at = `${path}[${index}]`
    if (!document.isObject(tool)) throw invalid(at, 'must be an object')
    const many = document.select(tool, TOOL, members)
    const type = members[0] ?? NONE
    const kind = document.word(type, TYPES)
    if (kind === FUNCTION || (kind === CUSTOM && own !== undefined)) {
      const one = functionIn(document, members, at, namespace, kind === CUSTOM ? tool : NONE)
      found.push(one)
      own?.checkMembers(tool, many, members, at, kind === CUSTOM)
      const isStated = kind === CUSTOM || one.strict !== NONE
      if (namespace === undefined) own?.list(tool, `tool ${one.name}`, isStated ? 'function' : 'strictness unknown')
    } else if (kind === NAMESPACE) {
      if (namespace !== undefined) {
        own?.listNone()
        continue
      }
      const name = document.text(nameOf(document, members[1] ?? NONE, at))
      own?.checkMembers(tool, many, members, at, false)
      own?.listNamespace(tool, name)
      addFunctions(document, members[5] ?? NONE, `${at}.tools`, name, found, own)
    } else if (!document.isString(type)) throw missing(`${at}.type`)
    else if (kind !== CUSTOM && namespace === undefined) own?.add(tool, document.text(type), at)
    else own?.listNone()
  }
}

function functionIn(
  document: JsonDocument,
  members: Int32Array,
  path: string,
  namespace: string | undefined,
  custom: number,
): FoundTool {
  const parameters = members[3] ?? NONE
  if (!document.isNull(parameters) && !document.isObject(parameters))
    throw invalid(`${path}.parameters`, 'must be an object')
  const nameValue = nameOf(document, members[1] ?? NONE, path)
  const description = members[2] ?? NONE
  const strict = members[4] ?? NONE
  return {
    path,
    name: document.text(nameValue),
    namespace,
    nameValue,
    description: document.isString(description) ? description : NONE,
    parameters: document.isNull(parameters) ? NONE : parameters,
    strict: document.isBoolean(strict) ? strict : NONE,
    custom,
    format: custom === NONE ? NONE : formatOf(document, members[6] ?? NONE, `${path}.format`),
  }
}

/** Throws `CallerError` for one that is neither a text nor a grammar. */
function formatOf(document: JsonDocument, format: number, path: string): number {
  if (document.isNull(format)) return NONE
  checkFormat(document.value(format), path)
  return format
}

function nameOf(document: JsonDocument, name: number, path: string): number {
  if (!document.isFilled(name)) throw missing(`${path}.name`)
  return name
}

/** A tool that takes a text, as a function of one. A model that gets no grammar reads it in the description. */
function addFree(document: JsonDocument, arena: Arena, { description, format, custom }: FoundTool): void {
  const text = description === NONE ? '' : document.text(description)
  const words = freeDescription(text, objectOf(format === NONE ? undefined : document.value(format)))
  if (words !== '') entries.addText(Kind.TEXT, arena, words)
  entries.add(Kind.INPUT | OF_OBJECT, arena.addJson(TEXT_PARAMETERS), arena.end)
  entries.addValue(Kind.FREE_FORM, document, custom)
}
