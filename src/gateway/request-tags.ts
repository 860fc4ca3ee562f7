/**
 * The tags of a request on their way to the ledger. Callers choose the values, so an organisation gets sums for at most
 * 1,000 combinations of tags in a UTC day and worker, and all of them together at most 200,000; requests with any other
 * count under `(other)`.
 */

import { DAY_MS } from '../core/durations.ts'
import { uncountedTags } from '../core/tags.ts'

const COMBINATIONS_MAX = 1000
/** About 30 MB. */
const ALL_COMBINATIONS_MAX = 200_000

interface TagCountsOptions {
  /** Called for the first request of an organisation in a day that counts under `(other)`. */
  readonly limited: (organization: string, limit: number) => void
  readonly now?: () => number
}

interface Counted {
  readonly combinations: Set<string>
  isLimited: boolean
}

/** The combinations of tags that requests of this process were charged under today. It outlives the configuration. */
export class TagCounts {
  private readonly counted = new Map<string, Counted>()
  private day = 0
  /** Combinations of all organisations. */
  private size = 0

  constructor(private readonly options: TagCountsOptions) {}

  /** Whether a combination has a sum, or could still get one. */
  hasRoom(organization: string, tags: string): boolean {
    const { combinations } = this.of(organization)
    return combinations.has(tags) || (combinations.size < COMBINATIONS_MAX && this.size < ALL_COMBINATIONS_MAX)
  }

  /** The same for a request that is charged now. */
  count(organization: string, tags: string): boolean {
    const counted = this.of(organization)
    const fits = this.hasRoom(organization, tags)
    const before = counted.combinations.size
    if (fits) this.size += counted.combinations.add(tags).size - before
    else if (!counted.isLimited) {
      counted.isLimited = true
      this.options.limited(organization, before)
    }
    return fits
  }

  private of(organization: string): Counted {
    const day = Math.floor((this.options.now ?? Date.now)() / DAY_MS)
    if (day !== this.day) {
      this.counted.clear()
      this.size = 0
    }
    this.day = day
    return this.counted.getOrInsertComputed(organization, () => ({ combinations: new Set(), isLimited: false }))
  }
}

/** The tags of one request, which has some. Texts are as in `core/tags.ts`. */
export class RequestTags {
  constructor(
    /** Not empty. */
    readonly all: string,
    /** Those that reports sum up by. */
    readonly text: string,
    private readonly organization: string,
    private readonly counts: TagCounts,
  ) {}

  /** For a reservation: the tags that count if it is never settled. */
  get held(): string {
    return this.text === '' ? '' : this.marked(this.counts.hasRoom(this.organization, this.text))
  }

  /** For the charge. */
  charged(): string {
    return this.text === '' ? '' : this.marked(this.counts.count(this.organization, this.text))
  }

  private marked(isCounted: boolean): string {
    return isCounted ? this.text : uncountedTags(this.text)
  }
}
