/** How long processes waited for a CPU: on a busy machine, a limit of the program may pass without its code running. */

import { readFileSync } from 'node:fs'
import { childrenOf } from './process-table.ts'

/** The waits of the main threads of these processes and their children, added up, in milliseconds since their start. */
export function cpuWaitMs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + waitOf(pid) + cpuWaitMs(childrenOf(pid)), 0)
}

/** The second figure of the file: nanoseconds that the thread could run and did not. */
function waitOf(pid: number): number {
  return Number(read(`/proc/${pid}/schedstat`).split(' ')[1] ?? 0) / 1e6
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The process has ended.
    return ''
  }
}
