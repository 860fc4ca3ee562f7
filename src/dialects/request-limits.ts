/** Limits on what is expensive to convert. Exceeding one is a 400 that names the field. */

import type { CallerError } from '../core/caller-error.ts'
import { CALLS_MAX } from '../core/completion.ts'
import { DEPTH_MAX, JsonShape, VALUES_MAX } from '../wire/json-shape.ts'
import { invalid } from './invalid-field.ts'

/** Far more than any agent offers. A tool whose name is not legal for a provider costs a hash. */
const TOOLS_MAX = 2048
const COUNTS_MAX = {
  'tool calls': CALLS_MAX,
  'results of tool calls': CALLS_MAX,
  /** Providers take 100 or fewer. */
  images: 1024,
  /** Each is read for its pages. Providers take 100 or fewer, or 1,000 pages. */
  documents: 1024,
  /** Each is decrypted. A conversation needs one. */
  'compaction items': 64,
} as const

/** What was counted of a request, for one that continues it. */
export interface LimitCounts {
  readonly counts: ReadonlyMap<string, number> | undefined
  readonly values: number
}

/**
 * One for each request. Every method throws `CallerError` if its limit is exceeded; `path` is the field that exceeds
 * it.
 */
export class RequestLimits {
  /** Absent while nothing was counted. */
  private counts: Map<string, number> | undefined
  /** Values within the arguments of tool calls: some providers get these as objects, so that they are parsed. */
  private values: number

  /** `before`: counts of earlier turns. */
  constructor(before?: LimitCounts) {
    this.values = before?.values ?? 0
    if (before?.counts !== undefined) this.counts = new Map(before.counts)
  }

  /** What was counted. */
  get counted(): LimitCounts {
    return { counts: this.counts, values: this.values }
  }

  /** `count` is the number of tools in `field`. */
  checkTools(count: number, field: string): void {
    if (count > TOOLS_MAX) throw tooMany(field, TOOLS_MAX, 'tools')
  }

  count(what: keyof typeof COUNTS_MAX, path: Path): void {
    const most = COUNTS_MAX[what]
    this.counts ??= new Map()
    const count = (this.counts.get(what) ?? 0) + 1
    if (count > most) throw tooMany(textOf(path), most, what)
    this.counts.set(what, count)
  }

  /** Counts the values in the arguments of a call, which are JSON text. */
  addCallJson(json: string, path: Path): void {
    const shape = new JsonShape(VALUES_MAX - this.values)
    shape.add(json)
    if (shape.problem === 'deep') throw invalid(textOf(path), `must not be nested more than ${DEPTH_MAX} levels deep`)
    this.addCallValues(shape.values, path)
  }

  /** The same for arguments whose values were counted. */
  addCallValues(values: number, path: Path): void {
    this.values += values
    if (this.values > VALUES_MAX) {
      const what = `the arguments of all tool calls together must not hold more than ${VALUES_MAX} values`
      throw invalid(textOf(path), what)
    }
  }
}

/** The path of a field; one that takes time to make is made if an error needs it. */
type Path = string | (() => string)

function textOf(path: Path): string {
  return typeof path === 'string' ? path : path()
}

function tooMany(path: string, most: number, what: string): CallerError {
  return invalid(path, `a request must not hold more than ${most} ${what}`)
}
