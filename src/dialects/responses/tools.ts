/**
 * Function tools from `tools`, from a `namespace`, and from `additional_tools` items of the input. A tool within a
 * namespace is sent under a joined name that providers accept, and its calls get back the caller's name and namespace.
 */

import { createHash } from 'node:crypto'
import type { Tool } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonObject, stringOf } from '../../core/json.ts'
import { invalid, missing } from '../invalid-field.ts'
import { RequestLimits } from '../request-limits.ts'

/** A list of tools in the body, and its path: `tools`, `input[0].tools`. */
export interface ToolList {
  readonly tools: unknown
  readonly path: string
}

/** The caller's own name of a tool. */
export interface OwnName {
  readonly name: string
  readonly namespace?: string | undefined
}

interface FoundTool extends Omit<Tool, 'name'>, OwnName {
  readonly path: string
}

/** A tool name that every provider accepts. */
const LEGAL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const NAME_CHARS_MAX = 64
const HASH_CHARS = 8

/**
 * Tools that are not functions are left out, because other providers have no counterpart. Throws `CallerError` if a
 * function has no name.
 */
export class Toolbox {
  /** The tools under the names that are sent to providers. */
  readonly tools: readonly Tool[]
  /** Those whose sent name is the caller's own. */
  readonly unlifted: readonly Tool[]
  private readonly owners = new Map<string, OwnName>()
  private readonly sent = new Map<string, string>()

  constructor(lists: readonly ToolList[], limits: RequestLimits) {
    const found = lists.flatMap(({ tools, path }) => functionsOf(tools, path, undefined))
    const named = new Map<string, Tool>()
    const add = (name: string, { namespace: _, path, ...tool }: FoundTool) => {
      named.set(name, { ...tool, name })
      limits.checkTools(named.size, path)
    }
    // A later definition replaces an earlier one: `additional_tools` items repeat tools during a conversation.
    for (const tool of found) if (tool.namespace === undefined) add(tool.name, tool)
    for (const tool of found) if (tool.namespace !== undefined) add(this.lift(tool.name, tool.namespace, named), tool)
    this.tools = [...named.values()]
    this.unlifted = this.tools.filter((tool) => !this.owners.has(tool.name))
  }

  /**
   * The name that a provider gets for the caller's tool. A call in the history may name a tool that is no longer
   * defined.
   */
  sentName({ name, namespace }: OwnName): string {
    if (namespace === undefined) return name
    return this.sent.get(ownKey(name, namespace)) ?? liftedName(name, namespace, 0)
  }

  /** The caller's own name of the tool that the model called. */
  ownName(sent: string): OwnName {
    return this.owners.get(sent) ?? { name: sent }
  }

  private lift(name: string, namespace: string, taken: ReadonlyMap<string, Tool>): string {
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

/** For a request without tools: made once, because its maps and lists are a sixth of the garbage of a small request. */
export const EMPTY_TOOLBOX = new Toolbox([], new RequestLimits())

/**
 * `namespace__name` if that is legal and free, else a shortened name with a hash of both. It depends on the two names
 * alone, so that a tool keeps its name from turn to turn.
 */
function liftedName(name: string, namespace: string, attempt: number): string {
  const joined = `${namespace}__${name}`
  if (attempt === 0 && LEGAL_NAME.test(joined)) return joined
  const hash = createHash('sha256').update(`${attempt}\0${namespace}\0${name}`).digest('hex').slice(0, HASH_CHARS)
  const legal = joined.replace(/[^A-Za-z0-9_-]/g, '_').replace(/^(?![A-Za-z_])/, '_')
  return `${legal.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hash}`
}

function ownKey(name: string, namespace: string): string {
  return `${namespace}\0${name}`
}

function functionsOf(tools: unknown, path: string, namespace: string | undefined): FoundTool[] {
  if (tools === undefined || tools === null) return []
  if (!isArray(tools)) throw invalid(path, 'must be an array')
  return tools.flatMap((tool, index) => {
    const at = `${path}[${index}]`
    if (!isObject(tool)) throw invalid(at, 'must be an object')
    switch (tool['type']) {
      case 'function':
        return functionTool(tool, at, namespace)
      case 'namespace':
        return namespace === undefined ? functionsOf(tool['tools'], `${at}.tools`, nameOf(tool, at)) : []
      default:
        if (typeof tool['type'] !== 'string') throw missing(`${at}.type`)
        return []
    }
  })
}

function functionTool(tool: JsonObject, path: string, namespace: string | undefined): FoundTool {
  const { parameters = null, strict } = tool
  if (parameters !== null && !isObject(parameters)) throw invalid(`${path}.parameters`, 'must be an object')
  return {
    path,
    name: nameOf(tool, path),
    namespace,
    description: stringOf(tool['description']),
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: typeof strict === 'boolean' ? strict : undefined,
  }
}

function nameOf(tool: JsonObject, path: string): string {
  const { name } = tool
  if (typeof name !== 'string' || name === '') throw missing(`${path}.name`)
  return name
}
