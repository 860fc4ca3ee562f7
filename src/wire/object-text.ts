/** The text of one JSON object that arrives in pieces, such as the arguments of a tool call. */

import { type JsonObject, parseObject } from '../core/json.ts'
import { JsonShape, type ShapeProblem } from './json-shape.ts'

/**
 * - `open`: more may come · `whole`: a JSON object, with nothing but blanks around it
 * - `invalid`: its brackets have closed, but it is not a JSON object · `overrun`: something other than blanks follows a
 *   whole object
 */
export type ObjectState = 'open' | 'whole' | 'invalid' | 'overrun'

const NOT_BLANK = /[^ \t\n\r]/

/** The text is parsed once, when its first bracket closes: parsing it with each piece would take quadratic time. */
export class ObjectText {
  private text = ''
  private readonly shape = new JsonShape()
  private object: JsonObject | undefined
  private current: ObjectState = 'open'

  get state(): ObjectState {
    return this.current
  }

  get isEmpty(): boolean {
    return this.text === ''
  }

  /** The parsed object once the text is whole. */
  get value(): JsonObject | undefined {
    return this.object
  }

  /** Commas and colons so far. */
  get values(): number {
    return this.shape.values
  }

  /** Text that is too deep or too full is not parsed, and stays `open`. */
  get problem(): ShapeProblem | undefined {
    return this.shape.problem
  }

  /**
   * Returns how many characters of the piece belong to the object: fewer than the piece has if it closes within the
   * piece.
   */
  add(piece: string): number {
    if (this.current !== 'open') {
      if (this.current === 'whole' && NOT_BLANK.test(piece)) this.current = 'overrun'
      return this.current === 'invalid' ? piece.length : 0
    }
    const close = this.shape.add(piece)
    if (close === -1 || this.shape.problem !== undefined) {
      this.text += piece
      return piece.length
    }
    this.text += piece.slice(0, close)
    this.object = parseObject(this.text)
    if (this.object === undefined) {
      this.current = 'invalid'
      return piece.length
    }
    this.current = NOT_BLANK.test(piece.slice(close)) ? 'overrun' : 'whole'
    return close
  }
}
