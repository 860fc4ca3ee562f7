/** CPU time and memory of processes, from /proc, and the description of this machine. */

import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** A clock tick of /proc in milliseconds; every Linux that Bun runs on has 100 a second. */
const TICK_MS = 10

function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )
}

/** The process and all of its descendants. */
export function treeOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(treeOf)]
}

/** CPU time of a process and its descendants, user and system, in milliseconds. */
export function cpuMs(pid: number): number {
  const ticks = treeOf(pid).map((one) => {
    // The name in the second field may contain spaces and brackets; the fields after its last bracket do not.
    const stat = readFileSync(`/proc/${one}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return Number(fields[11]) + Number(fields[12])
  })
  return ticks.reduce((sum, one) => sum + one, 0) * TICK_MS
}

/** Resident bytes of the largest process of the tree, which is the worker of a gateway. */
export function residentBytes(pid: number): number {
  const sizes = treeOf(pid).map((one) =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${one}/status`, 'utf8'))?.[1] ?? 0),
  )
  return Math.max(...sizes) * 1024
}

/**
 * What the collections of a log freed, in KB; the log is what Bun writes under BUN_JSC_logGC. Each collection has a
 * line with the size of the heap before it and after it: `START M 8859kb => EdenCollection, … => 171kb, p=0.45ms`.
 * Allocations during a concurrent collection would be missing, so those must be off (BUN_JSC_useConcurrentGC=0).
 */
export function garbageOf(log: string): { readonly kilobytes: number; readonly collections: number } {
  const freed = [...log.matchAll(/: START \w+ (\d+)kb => .*? => (\d+)kb, p=/g)].map(
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
