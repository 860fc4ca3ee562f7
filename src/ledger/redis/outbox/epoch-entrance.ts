/** Lets organisations enter their epochs in a node's outbox: many at once after Redis was emptied, so in batches. */

import type { GroupCommit } from '../../../sqlite/group-commit.ts'
import type { GivenRow } from '../protocol/counter-spend.ts'
import type { FoundOfNode, LackingListener } from '../protocol/node-log.ts'
import type { Settlement } from '../protocol/settlement.ts'
import type { EpochRows } from './epoch-rows.ts'
import type { OutboxGroups } from './outbox-groups.ts'

/** How long organisations enter epochs in one transaction, and in one turn of the event loop. */
const ENTERING_MS = 10

/** An organisation that enters an epoch. */
interface Entry {
  readonly organization: string
  readonly epoch: number
  readonly found: FoundOfNode
  readonly resent: readonly Settlement[]
  readonly lacking: LackingListener | undefined
}

interface Entering extends Entry {
  readonly resolve: (rows: readonly GivenRow[]) => void
  readonly reject: (error: unknown) => void
}

export class EpochEntrance {
  /** Those that wait for a transaction, in their order. */
  private entering: Entering[] = []

  /** `transaction` runs what may split groups. */
  constructor(
    private readonly epochs: EpochRows,
    private readonly groups: OutboxGroups,
    private readonly group: GroupCommit,
    private readonly transaction: (work: () => void) => void,
  ) {}

  enter(entry: Entry): Promise<readonly GivenRow[]> {
    return new Promise((resolve, reject) => {
      this.entering.push({ ...entry, resolve, reject })
      if (this.entering.length === 1) setImmediate(() => this.enterSome())
    })
  }

  /** Lets those that wait enter, in one transaction for as many as one turn of the event loop has time for. */
  private enterSome(): void {
    const { entering } = this
    // Marks of the epochs before must be in the file now, or be written after the new ones are entered.
    if (!this.group.commit()) {
      this.entering = []
      for (const one of entering) this.enterUnwritten(one)
      return
    }
    const count = this.enterUntil(performance.now() + ENTERING_MS) ?? this.enterUntil(0) ?? 1
    this.entering = this.entering.slice(count)
    if (this.entering.length > 0) setImmediate(() => this.enterSome())
  }

  /**
   * Lets the first enter, and more until a time. Returns how many did. If one of several fails, none has entered: then
   * it returns undefined, and the first must be tried alone.
   */
  private enterUntil(untilMs: number): number | undefined {
    const { entering } = this
    const given: (readonly GivenRow[])[] = []
    let tried = 0
    try {
      this.transaction(() => {
        for (const { organization, epoch, found, resent, lacking } of entering) {
          if (tried > 0 && performance.now() > untilMs) break
          tried += 1
          this.groups.splitOf(organization)
          given.push(this.epochs.enter(organization, epoch, found, resent, lacking))
        }
      })
    } catch (error) {
      // The commit may fail after all of them have entered, as on a full disk.
      if (tried > 1) return undefined
      entering[0]?.reject(error)
      return 1
    }
    for (const [i, rows] of given.entries()) entering[i]?.resolve(rows)
    return given.length
  }

  /** An organisation without usage has nothing to give back, so it is served even while the disk is full. */
  private enterUnwritten({ organization, resolve, reject }: Entering): void {
    try {
      const known = this.epochs.of(organization)
      const isBlank = known.epoch === 0 && known.legacyEpoch === 0 && this.epochs.places(organization).length === 0
      if (isBlank) return resolve([])
      throw new Error(`The outbox cannot be written: ${this.group.complaint}.`)
    } catch (error) {
      reject(error)
    }
  }
}
