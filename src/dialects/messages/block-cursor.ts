/**
 * The base of `read-turns.ts`: one block of a Messages body after the other, with its members, its type, its path and
 * its cache mark, and whether the entries that are made of it say all of it.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { BlockSpan } from '../../core/conversation.ts'
import { solidStart } from '../../core/solid-text.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { isWholeMark, readMark } from '../cache-mark.ts'
import { refuseForbiddenMembers } from '../forbidden-fields.ts'
import { invalid } from '../invalid-field.ts'
import type { MediaRules } from '../read-media.ts'

/** What happens to images within the result of a tool: rejected by default, passed on if the operator allows it. */
export type ToolResultImages = 'refuse' | 'pass'

/** What reading a conversation needs besides the body. */
export interface ReadOptions extends MediaRules {
  readonly toolResultImages: ToolResultImages
  /** Whether answers of the assistant may have blocks of thinking. Absent: no. */
  readonly takesThoughts?: boolean
  /** Whether documents, images by address, and both within results may come. */
  readonly takesContent: boolean
  /** Whether blocks and members that are not read pass to providers of the same API. */
  readonly passesOwn: boolean
}

/** The members of blocks that are read. The numbers of `MEMBERS` are places in this list. */
const BLOCK = words(
  ...['type', 'text', 'cache_control', 'id', 'name', 'input', 'tool_use_id', 'content', 'is_error', 'source'],
  ...['thinking', 'signature', 'data'],
)
export const MEMBERS = {
  ...{ type: 0, text: 1, cache: 2, id: 3, name: 4, input: 5, callId: 6, content: 7, isError: 8, source: 9 },
  ...{ thinking: 10, signature: 11, data: 12 },
} as const
/** The types of blocks that are read. The numbers of `TYPES` are places in this list. */
const BLOCK_TYPES = words('text', 'tool_use', 'tool_result', 'image', 'thinking', 'redacted_thinking', 'document')
export const TYPES = { text: 0, call: 1, result: 2, image: 3, thinking: 4, redacted: 5, document: 6 } as const

/** The members of the current block, by `MEMBERS`. All cursors share it: valid until the next `typeOf`. */
export const blockMembers = new Int32Array(BLOCK.length)

/** Where reading is among the blocks. A path is made of the indexes when an error needs it. */
export abstract class BlockCursor {
  /** Of the message; -1 for the system. */
  protected index = -1
  /** Of the block in its content, and of the block within the content of a result. */
  protected block = 0
  protected inner = NONE
  /** Of the block within a document. */
  protected nested = NONE
  /** Whether Anthropic would get the same message as it came. */
  protected isExact = false
  /** How many members the current block has. */
  protected members = 0
  /** The block that is read has members, or content, that its entries lack. */
  protected hasMore = false
  /** Blocks with `hasMore`, by their first entry, if the caller's own members pass. */
  blocks: Map<number, BlockSpan> | undefined

  constructor(
    protected readonly document: JsonDocument,
    protected readonly reading: ReadOptions,
  ) {}

  /** The path of the current block. */
  protected readonly path = (): string => {
    const path = `${this.index === -1 ? 'system' : `messages[${this.index}].content`}[${this.block}]`
    const inner = this.inner === NONE ? path : `${path}.content[${this.inner}]`
    return this.nested === NONE ? inner : `${inner}.source.content[${this.nested}]`
  }

  /** The type of a block among `BLOCK_TYPES`, or `NONE`. Its members are in `blockMembers` then. */
  protected typeOf(block: number): number {
    const { document } = this
    if (!document.isObject(block)) throw invalid(this.path(), 'must be an object')
    this.members = document.select(block, BLOCK, blockMembers)
    this.hasMore = false
    const type = document.word(blockMembers[MEMBERS.type] ?? NONE, BLOCK_TYPES)
    const isMedia = type === TYPES.image || type === TYPES.document
    if (isMedia && this.reading.passesOwn) refuseForbiddenMembers(document, block, this.path)
    return type
  }

  /** Whether the block that was read, which is of none of `BLOCK_TYPES`, passes as it is. */
  protected passes(block: number): boolean {
    const { document } = this
    const type = blockMembers[MEMBERS.type] ?? NONE
    if (!this.reading.passesOwn || !document.isString(type)) return false
    if (document.word(type, BLOCK_TYPES) !== NONE) return false
    refuseForbiddenMembers(document, block, this.path)
    return true
  }

  /** Notes where a block is that its entry, which begins here, does not say all of. */
  protected note(block: number, from: number, marks: number): void {
    const { document } = this
    if (!this.hasMore || !this.reading.passesOwn) return
    refuseForbiddenMembers(document, block, this.path)
    this.blocks ??= new Map()
    this.blocks.set(from, { from: document.fromOf(block), to: document.toOf(block), marks })
  }

  protected isSolid(text: number): boolean {
    return this.hasSolidStart(text) || this.document.text(text).trim() !== ''
  }

  protected stringOf(value: number): string | undefined {
    return this.document.isString(value) ? this.document.text(value) : undefined
  }

  /** How many members the block has if it has no others than those that are written. */
  protected expect(members: number): void {
    if (this.members !== members) this.lacks()
  }

  /** The entries say less than the block does. */
  protected lacks(): void {
    this.hasMore = true
    if (!this.reading.passesOwn) this.isExact = false
  }

  protected expectSolid(value: number): void {
    const { reading } = this
    if (!(reading.passesOwn ? this.isSolid(value) : this.hasSolidStart(value))) this.isExact = false
  }

  protected hasSolidStart(value: number): boolean {
    return solidStart(this.document.bytes, this.document.fromOf(value), this.document.toOf(value)) !== -1
  }

  /** The cache mark of the block, by its index in `MARKS`. */
  protected mark(): number {
    const value = blockMembers[MEMBERS.cache] ?? NONE
    if (value === NONE) return 0
    const mark = readMark(this.document, value, this.path)
    if (!isWholeMark(this.document, value, mark)) this.lacks()
    return mark
  }
}

/** Callers compare the whole message, so it cannot name the block; `param` does. */
export function unsupportedBlock(param: string): CallerError {
  return new CallerError('invalid_field', 'Unsupported Anthropic content block', { param })
}
