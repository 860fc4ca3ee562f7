/**
 * How many nodes share the Redis, kept in `data_dir`: a node that starts while Redis is away takes its part of the
 * limits of providers by it, instead of the whole.
 */

import { join } from 'node:path'
import { DAY_MS, HOUR_MS } from '../../core/durations.ts'
import { numberOf } from '../../core/json.ts'
import { readSmallFile, writeSmallFile } from '../../sqlite/private-files.ts'

const FILE = 'fleet.json'

interface Seen {
  readonly nodes: number
  readonly atMs: number
}

export class FleetSize {
  private readonly file: string
  private seen: Seen | undefined
  private savedMs = Number.NEGATIVE_INFINITY

  constructor(
    dataDir: string,
    private readonly now: () => number = Date.now,
  ) {
    this.file = join(dataDir, FILE)
    this.seen = seenOf(this.file, now())
  }

  /** Undefined if this node has not seen Redis for a day: the fleet may be another one. */
  get nodes(): number | undefined {
    return this.seen?.nodes
  }

  /**
   * So many have reported. The most within an hour count: nodes may lose Redis one after another, and the last one is
   * not alone.
   */
  saw(nodes: number): void {
    const nowMs = this.now()
    const { seen } = this
    const isFewer = seen !== undefined && nodes < seen.nodes
    if (isFewer && nowMs - seen.atMs < HOUR_MS) return
    this.seen = { nodes, atMs: nowMs }
    if (seen?.nodes === nodes && nowMs - this.savedMs < HOUR_MS) return
    this.savedMs = nowMs
    writeSmallFile(this.file, JSON.stringify({ nodes, at_ms: nowMs }))
  }
}

function seenOf(file: string, nowMs: number): Seen | undefined {
  const found = readSmallFile(file)
  const [nodes, atMs] = [numberOf(found['nodes']), numberOf(found['at_ms'])]
  if (nodes === undefined || nodes < 1 || atMs === undefined) return undefined
  return Math.abs(nowMs - atMs) < DAY_MS ? { nodes, atMs } : undefined
}
