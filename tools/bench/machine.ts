/** The description of this machine, and what a garbage collector's log shows. */

import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/**
 * What the collections of a log freed, in KB; the log is what Bun writes under BUN_JSC_logGC. Each collection has a
 * line with the size of the heap before it and after it: `START M 8859kb => EdenCollection, … => 171kb, p=0.45ms`.
 * Allocations during a concurrent collection would be missing, so those must be off (BUN_JSC_useConcurrentGC=0).
 */
export function garbageOf(log: string): { readonly kilobytes: number; readonly collections: number } {
  const freed = [...log.matchAll(/: START \w+ (\d+)kb => [\s\S]*? => (\d+)kb, p=/g)].map(
    ([, before, after]) => Number(before) - Number(after),
  )
  return { kilobytes: freed.reduce((sum, one) => sum + one, 0), collections: freed.length }
}

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly bun: string
  readonly date: string
}

export function machine(): Machine {
  const all = cpus()
  return { cpu: all[0]?.model ?? 'unknown', cores: all.length, bun: Bun.version, date: new Date().toISOString() }
}

/** Open files that a process may have. */
export function openFilesMax(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8')
  return Number(/Max open files\s+(\d+)/.exec(limits)?.[1] ?? 1024)
}
