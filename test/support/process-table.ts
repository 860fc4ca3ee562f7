/** Processes as /proc shows them: their children, CPU time and memory. */

import { readdirSync, readFileSync } from 'node:fs'
import { codeOf } from '../../src/core/system-error.ts'

/** A clock tick of /proc in milliseconds; every Linux that Bun runs on has 100 a second. */
const TICK_MS = 10

/** The processes that it started and that have not ended; none if it has ended itself. */
export function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    )
  } catch (error) {
    if (hasEnded(error)) return []
    throw error
  }
}

/** The children of a weir that it started for this role. */
export function childrenWithRole(pid: number, role: 'worker' | 'ledger-owner'): number[] {
  return childrenOf(pid).filter((child) => commandLineOf(child).endsWith(`${role}\0`))
}

/** Empty if the process has ended. */
function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch (error) {
    if (hasEnded(error)) return ''
    throw error
  }
}

/** The files of a process that has ended are gone; reading one that was opened before fails. */
function hasEnded(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOENT' || code === 'ESRCH'
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

/** Resident bytes of one process. */
export function ownResidentBytes(pid: number): number {
  return residentBytesOf(readFileSync(`/proc/${pid}/status`, 'utf8'))
}

/** Resident bytes of the largest process of the tree, which is the worker of a gateway. */
export function residentBytes(pid: number): number {
  return Math.max(...treeOf(pid).map(ownResidentBytes))
}

/** Resident bytes of all processes of the tree; pages that they share count for each. */
export function residentBytesOfTree(pid: number): number {
  return treeOf(pid).reduce((sum, one) => sum + ownResidentBytes(one), 0)
}
