/** A whole answer in its order: texts, calls, thoughts, and blocks that only the provider's own API has. */

import type { OwnEvent, ThoughtEvent } from './event.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from './json.ts'

/** A piece of an answer that has thoughts, or something of the provider's own. */
export type AnswerBlock =
  | ThoughtBlock
  | { readonly kind: 'text'; readonly text: string; readonly members?: JsonObject | undefined }
  | { readonly kind: 'call'; readonly index: number }
  | OwnBlock

/** `texts`: the parts of the reasoning. */
export interface ThoughtBlock {
  readonly kind: 'thought'
  readonly texts: readonly string[]
  readonly seal?: string | undefined
  readonly isRedacted?: true | undefined
}

/** `json`: the text of the block's input, if it came apart. */
interface OwnBlock {
  readonly kind: 'own'
  block: JsonObject
  readonly index?: number | undefined
  readonly json: string[]
}

interface OpenThought {
  kind: 'thought'
  readonly parts: string[][]
  seal?: string | undefined
  isRedacted?: true | undefined
}

interface OpenText {
  readonly kind: 'text'
  readonly pieces: string[]
  members?: JsonObject | undefined
}

/** Members of an answer, and of its usage, that only the provider's own API has. */
export interface OwnMembers {
  readonly members: JsonObject
  readonly usage: JsonObject
}

/** Gathers an answer in its order. */
export class BlockFold {
  private readonly blocks: (OpenText | { kind: 'call'; index: number } | OpenThought | OwnBlock)[] = []
  private hasThoughts = false
  own: OwnMembers | undefined

  text(text: string): void {
    const last = this.blocks.at(-1)
    if (last?.kind === 'text') last.pieces.push(text)
    else this.blocks.push({ kind: 'text', pieces: [text] })
  }

  call(index: number): void {
    this.blocks.push({ kind: 'call', index })
  }

  /** A seal ends the thought that is open; without one, it is a thought of which nothing is shown. */
  thought(event: ThoughtEvent): void {
    if (event.type === 'thought' && event.seal === undefined) return
    this.hasThoughts = true
    const last = this.blocks.at(-1)
    const open = last?.kind === 'thought' && last.seal === undefined ? last : undefined
    const thought = open ?? { kind: 'thought', parts: [] }
    if (open === undefined) this.blocks.push(thought)
    if (event.type === 'thought') {
      thought.seal = event.seal
      thought.isRedacted = event.isRedacted
    } else if (thought.parts.length === 0 || event.isNewPart) thought.parts.push([event.text])
    else thought.parts.at(-1)?.push(event.text)
  }

  /** Something of the provider's own. */
  ownEvent({ part, value, index, name }: OwnEvent): void {
    const { members, usage } = this.own ?? { members: {}, usage: {} }
    this.own = { members, usage }
    switch (part) {
      case 'block':
        this.blocks.push({ kind: 'own', block: value, json: [], index })
        return
      case 'stop': {
        const open = this.blocks.findLast((block) => block.kind === 'own' && block.index === index)
        if (index !== undefined && open?.kind === 'own') open.block = value
        return
      }
      case 'text':
        this.blocks.push({ kind: 'text', pieces: [], members: value })
        return
      case 'delta':
        // That which has a name is repeated by the whole item.
        return name === undefined ? this.delta(value) : undefined
      case 'message':
      case 'ending': {
        const { usage: reported, delta, ...more } = value
        this.own = {
          members: { ...members, ...more, ...(isObject(delta) && delta) },
          usage: { ...usage, ...(isObject(reported) && reported) },
        }
      }
    }
  }

  private delta(value: JsonObject): void {
    const last = this.blocks.at(-1)
    if (last?.kind === 'text') last.members = grown(last.members ?? {}, value)
    else if (last?.kind !== 'own') return
    else if (typeof value['partial_json'] === 'string') last.json.push(value['partial_json'])
    else last.block = grown(last.block, value)
  }

  get whole(): readonly AnswerBlock[] | undefined {
    if (!this.hasThoughts && this.own === undefined) return undefined
    return this.blocks.map((block) => {
      if (block.kind === 'call' || block.kind === 'own') return block
      if (block.kind === 'text') return { kind: 'text', text: block.pieces.join(''), members: block.members }
      const { parts, seal, isRedacted } = block
      return { kind: 'thought', texts: parts.map((pieces) => pieces.join('')), seal, isRedacted }
    })
  }
}

/** A block with a delta: citations and annotations are gathered, texts continued, other members replaced. */
function grown(block: JsonObject, { type: _, citation, annotation, ...members }: JsonObject): JsonObject {
  const after: Record<string, JsonValue | undefined> = { ...block }
  if (citation !== undefined) after['citations'] = [...listIn(block['citations']), citation]
  if (annotation !== undefined) after['annotations'] = [...listIn(block['annotations']), annotation]
  for (const name in members) {
    const [before, value] = [block[name], members[name]]
    after[name] = typeof before === 'string' && typeof value === 'string' ? before + value : value
  }
  return after
}

function listIn(value: JsonValue | undefined): readonly JsonValue[] {
  return isArray(value) ? value : []
}
