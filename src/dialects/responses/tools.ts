/**
 * Function tools, wherever the caller put them: in `tools`, in a `namespace`, in an `additional_tools` item of the input. Those of a
 * namespace are lifted out under names that providers take, and their calls go back under the caller's own name and namespace.
 */

import { createHash } from 'node:crypto'
import type { Tool } from '../../core/chat-request.ts'
import { isArray, isObject, type JsonObject, stringOf } from '../../core/json.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { RequestLimits } from '../request-limits.ts'

/** A list of tools in the body, and where it stands: `tools`, `input[0].tools`. */
export interface ToolList {
  readonly tools: unknown
  readonly path: string
}

/** How the caller knows a tool. */
export interface OwnName {
  readonly name: string
  readonly namespace?: string | undefined
}

interface FoundTool extends Omit<Tool, 'name'>, OwnName {
  readonly path: string
}

/** What every provider takes as a tool's name. */
const LEGAL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const NAME_CHARS_MAX = 64
const HASH_CHARS = 8

/** Tools that are not functions cannot run at other providers and are left out. Throws `CallerError` where a function has no name. */
export class Toolbox {
  /** As providers get them. */
  readonly tools: readonly Tool[]
  private readonly owners = new Map<string, OwnName>()
  private readonly sent = new Map<string, string>()

  constructor(lists: readonly ToolList[], limits: RequestLimits) {
    const found = lists.flatMap(({ tools, path }) => functionsOf(tools, path, undefined))
    const named = new Map<string, Tool>()
    const add = (name: string, { namespace: _, path, ...tool }: FoundTool) => {
      named.set(name, { ...tool, name })
      limits.tools(named.size, path)
    }
    // A later definition takes the place of an earlier one: `additional_tools` items repeat tools as a conversation goes on.
    for (const tool of found) if (tool.namespace === undefined) add(tool.name, tool)
    for (const tool of found) if (tool.namespace !== undefined) add(this.lift(tool.name, tool.namespace, named), tool)
    this.tools = [...named.values()]
  }

  /** Those that go by the caller's own name. */
  get unlifted(): readonly Tool[] {
    return this.tools.filter((tool) => !this.owners.has(tool.name))
  }

  /** The name under which a provider knows the caller's tool; for a call in the history the tool need not be there any more. */
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

/**
 * `namespace__name`, where that is legal and free; else cut to size, with a hash of both that keeps it apart from others. It depends on the
 * two names alone, so that the tools of a conversation read the same from turn to turn.
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
