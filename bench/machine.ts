/** CPU time and memory of processes, from /proc, and the description of this machine. */

import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** A clock tick of /proc in milliseconds; every Linux that Bun runs on has 100 a second. */
const TICK_MS = 10

export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )
}

/** The process and all of its descendants. */
export function treeOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(treeOf)]
}

/** CPU time in a line of `/proc/PID/stat`, user and system, in milliseconds. */
export function cpuMsOf(stat: string): number {
  // The name in the second field may contain spaces and brackets; the fields after its last bracket do not.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

/** CPU time of one process, in milliseconds. */
export function ownCpuMs(pid: number): number {
  return cpuMsOf(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

/** CPU time of a process and its descendants, in milliseconds. */
export function cpuMs(pid: number): number {
  return treeOf(pid).reduce((sum, one) => sum + ownCpuMs(one), 0)
}

/** Resident bytes in the text of `/proc/PID/status`; 0 for a process that has ended. */
export function residentBytesOf(status: string): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
}

function residentSizes(pid: number): number[] {
  return treeOf(pid).map((one) => residentBytesOf(readFileSync(`/proc/${one}/status`, 'utf8')))
}

/** Resident bytes of the largest process of the tree, which is the worker of a gateway. */
export function residentBytes(pid: number): number {
  return Math.max(...residentSizes(pid))
}

/** Resident bytes of all processes of the tree; pages that they share count for each. */
export function residentBytesOfTree(pid: number): number {
  return residentSizes(pid).reduce((sum, one) => sum + one, 0)
}

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
