/** Limits on what is expensive to convert. Exceeding one is a 400 that names the field. */

import type { CallerError } from '../core/caller-error.ts'
import { CALLS_MAX } from '../core/completion.ts'
import { DEPTH_MAX, JsonShape, VALUES_MAX } from '../wire/json-shape.ts'
import { invalid } from './invalid-field.ts'

/** Far more than any agent offers. A tool whose name is not legal for a provider costs a hash. */
export const TOOLS_MAX = 2048
/** Providers take 100 or fewer. */
const IMAGES_MAX = 1024
/** Each is decrypted. A conversation needs one. */
const COMPACTIONS_MAX = 64

/**
 * One for each request. Every method throws `CallerError` if its limit is exceeded; `path` is the field that exceeds
 * it.
 */
export class RequestLimits {
  /** Absent while nothing was counted. */
  private counts: Map<string, number> | undefined
  /** Values within the arguments of tool calls: some providers get these as objects, so that they are parsed. */
  private values: number

  /** `longArgumentValues`: values within arguments that are not read here. */
  constructor(longArgumentValues = 0) {
    this.values = longArgumentValues
  }

  /** `count` is the number of tools in `field`. */
  checkTools(count: number, field: string): void {
    if (count > TOOLS_MAX) throw tooMany(field, TOOLS_MAX, 'tools')
  }

  countCall(path: string): void {
    this.count('tool calls', CALLS_MAX, path)
  }

  countResult(path: string): void {
    this.count('results of tool calls', CALLS_MAX, path)
  }

  countImage(path: string): void {
    this.count('images', IMAGES_MAX, path)
  }

  countCompaction(path: string): void {
    this.count('compaction items', COMPACTIONS_MAX, path)
  }

  /** Counts the values in the arguments of a call, which are JSON text. */
  addCallJson(json: string, path: string): void {
    const shape = new JsonShape(VALUES_MAX - this.values)
    shape.add(json)
    this.values += shape.values
    if (shape.problem === 'deep') throw invalid(path, `must not be nested more than ${DEPTH_MAX} levels deep`)
    if (shape.problem === 'full') {
      throw invalid(path, `the arguments of all tool calls together must not hold more than ${VALUES_MAX} values`)
    }
  }

  private count(what: string, most: number, path: string): void {
    this.counts ??= new Map()
    const count = (this.counts.get(what) ?? 0) + 1
    if (count > most) throw tooMany(path, most, what)
    this.counts.set(what, count)
  }
}

function tooMany(path: string, most: number, what: string): CallerError {
  return invalid(path, `a request must not hold more than ${most} ${what}`)
}
