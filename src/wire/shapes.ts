/**
 * The templates that a provider's streams have taught so far. Most streams have the shape of those before them, so that
 * each proof is made once: it takes as long as decoding a hundred frames.
 */

import { ownCopy } from './byte-text.ts'
import type { Template } from './template.ts'
import { learnedTemplate, type Prove, type TextFrame } from './template-learning.ts'

const SHAPES_MAX = 16
/** A stream whose frames always differ teaches nothing that is worth its proof. */
const PROOFS_FREE = 64
const COPIES_A_PROOF = 1024

/** A template with holes for everything that may differ between streams. */
interface Shape {
  readonly template: Template
  /** The holes whose content has differed within a stream. */
  readonly varying: Set<number>
  /** What the last stream used: the next one uses the same if it differs in nothing, as Anthropic's do. */
  last: Use | undefined
}

/** What one stream uses of a shape. */
export interface Use {
  readonly shape: Shape
  /** The shape with everything filled in that has not differed within a stream. */
  readonly template: Template
  readonly contents: readonly string[]
}

/** One for each provider adapter of the process. */
export class Shapes {
  /** The last used comes first. */
  private readonly shapes: Shape[] = []
  private proofs = 0
  private copies = 0

  constructor(private readonly prove: Prove) {}

  /** The shape of a decoded frame; `before` is what the stream used until now. Undefined if it has none. */
  use(given: TextFrame, before: Use | undefined): Use | undefined {
    // As the last stream, which most often was of the same shape: comparing that takes a fifth of looking for it.
    const last = this.shapes[0]?.last
    if (before === undefined && last !== undefined && isOfShape(last.template, given)) return last
    const known = this.known(given)
    if (known?.last !== undefined && before?.shape !== known) {
      const { template, varying } = known
      if (template.isFilledAlike(template.contentsOf(given.data), known.last.contents, varying)) return known.last
    }
    const frame = { ...given, data: ownCopy(given.data) }
    const shape = known ?? this.learned(frame)
    if (shape === undefined) return undefined
    const { template, varying } = shape
    const contents = template.contentsOf(frame.data)
    if (before?.shape === shape)
      for (const [at, content] of contents.entries()) if (content !== before.contents[at]) varying.add(at)
    shape.last = { shape, template: template.filledFrom(frame.data, varying), contents }
    return shape.last
  }

  /** So many frames were copied. */
  count(copies: number): void {
    this.copies += copies
  }

  private known(frame: TextFrame): Shape | undefined {
    const at = this.shapes.findIndex(({ template }) => isOfShape(template, frame))
    const shape = this.shapes[at]
    if (shape !== undefined && at > 0) {
      this.shapes.splice(at, 1)
      this.shapes.unshift(shape)
    }
    return shape
  }

  private learned(frame: TextFrame): Shape | undefined {
    if (this.proofs > PROOFS_FREE + this.copies / COPIES_A_PROOF) return undefined
    this.proofs++
    const template = learnedTemplate(frame, this.prove)
    if (template === undefined || !isOfShape(template, frame)) return undefined
    const shape = { template, varying: new Set<number>(), last: undefined }
    this.shapes.unshift(shape)
    if (this.shapes.length > SHAPES_MAX) this.shapes.pop()
    return shape
  }
}

/** True if the template finds in the frame what the decoder of the stream found. */
function isOfShape(template: Template, { kind, event, data, inside, usage }: TextFrame): boolean {
  if (template.kind !== kind || template.event !== event || !template.covers(data) || template.inside !== inside)
    return false
  return template.countsTokens ? Bun.deepEquals(template.usageIn(data), usage) : true
}
