/** The tools of a request, as entries like those of its messages. */

import { Arena } from './arena.ts'
import {
  type BlockSpans,
  ENTRY_INTS,
  Entries,
  type MarkChange,
  OF_OBJECT,
  remarked,
  seenIn,
  type WireForm,
} from './conversation.ts'
import * as Kind from './entry-kinds.ts'

/** The arguments of a call up to its text, and after it: for a model, a tool that takes a text is a function of one. */
export const FREE_OPENING = '{"input":"'
export const FREE_CLOSING = '"}'

/**
 * The tools of a request, which are functions. Of each: its name, with its cache mark, its description as a text if it
 * has one, its schema, and `STRICT` if it has that.
 */
export class ToolList extends Entries {
  constructor(
    arena: Arena,
    numbers: Int32Array,
    readonly form: WireForm,
    /** Where the whole list is, with its brackets, if all of it has the value that it has in its own form. */
    readonly exactFrom: number = 0,
    readonly exactTo: number = 0,
    blocks?: BlockSpans,
  ) {
    super(arena, numbers, seenIn(numbers), undefined, blocks)
  }

  get isExact(): boolean {
    return this.exactTo > this.exactFrom
  }

  /** The next tool, or `end`. */
  endOfTool(tool: number): number {
    let end = tool + ENTRY_INTS
    while (end < this.end && this.kindAt(end) !== Kind.NAME) end += ENTRY_INTS
    return end
  }

  /** The entry of this kind of a tool; -1 if it has none. */
  memberOf(tool: number, kind: number): number {
    const end = this.endOfTool(tool)
    for (let entry = tool; entry < end; entry += ENTRY_INTS) if (this.kindAt(entry) === kind) return entry
    return -1
  }

  /** The names of those that take a text. */
  get freeNames(): ReadonlySet<string> {
    if (!this.has(Kind.FREE_FORM)) return NO_NAMES
    const names = new Set<string>()
    for (let tool = 0; tool < this.end; tool = this.endOfTool(tool))
      if (this.memberOf(tool, Kind.FREE_FORM) !== -1) names.add(this.textAt(tool))
    return names
  }

  /** Those of the tools that have one of these names. */
  only(names: ReadonlySet<string>): ToolList {
    const kept: number[] = []
    for (let tool = 0; tool < this.end; tool = this.endOfTool(tool)) {
      if (!names.has(this.textAt(tool))) continue
      for (let at = tool; at < this.endOfTool(tool); at++) kept.push(this.numbers[at] ?? 0)
    }
    if (kept.length === this.end) return this
    return new ToolList(this.arena, Int32Array.from(kept), this.form, 0, 0, this.blocks)
  }

  /** The same tools, written one by one: without others among them and, if these go, members that the entries lack. */
  rewritten(keepsMembers: boolean): ToolList {
    return new ToolList(this.arena, this.numbers, this.form, 0, 0, keepsMembers ? this.blocks : undefined)
  }

  /** Whether the `type` of this schema is certainly "object". */
  isOfObject(schema: number): boolean {
    return (this.bitsAt(schema) & OF_OBJECT) !== 0
  }

  /** The same tools with other cache marks. */
  remarked(change: MarkChange): ToolList {
    let [from, to] = [this.exactFrom, this.exactTo]
    const numbers = remarked(this.numbers, change, () => {
      from = 0
      to = 0
    })
    return numbers === this.numbers ? this : new ToolList(this.arena, numbers, this.form, from, to, this.blocks)
  }
}

const NO_NAMES: ReadonlySet<string> = new Set()

export const NO_TOOLS: ToolList = new ToolList(new Arena(new Uint8Array(0)), new Int32Array(0), 'chat')

/** A tool name that every provider accepts. */
const LEGAL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/
const NAME_CHARS_MAX = 64
const HASH_CHARS = 8

/**
 * The name of a tool in a namespace, for providers without these: `namespace__name` if that is legal and free, else a
 * shortened name with a hash of both. It depends on the two names alone, so that a tool keeps its name from turn to
 * turn. `attempt`: how many such names are taken.
 */
export function liftedName(name: string, namespace: string, attempt = 0): string {
  const joined = `${namespace}__${name}`
  if (attempt === 0 && LEGAL_NAME.test(joined)) return joined
  const hash = new Bun.CryptoHasher('sha256')
    .update(`${attempt}\0${namespace}\0${name}`)
    .digest('hex')
    .slice(0, HASH_CHARS)
  const legal = joined.replace(/[^A-Za-z0-9_-]/g, '_').replace(/^(?![A-Za-z_])/, '_')
  return `${legal.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hash}`
}
