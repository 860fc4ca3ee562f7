/** What processes take, by the files of Linux under /proc; nothing on other systems. */

import { readdirSync, readFileSync } from 'node:fs'
import type { ProcessUsage } from '../admin/system-series.ts'

/** Of the times in /proc/PID/stat: the same on every Linux. */
const TICKS_A_SECOND = 100
/** The places of fields in /proc/PID/stat after the name of the program, from 0. */
const FIELDS = { userTicks: 11, systemTicks: 12, startTicks: 19 } as const

/** A process and its role. */
export interface RunningProcess extends Pick<ProcessUsage, 'process' | 'worker'> {
  readonly pid: number
}

type Reading = Omit<ProcessUsage, 'process' | 'worker'>

/** Keeps the CPU time of processes that have ended, as of the last look at them: a counter must not fall. */
export class ProcessUsages {
  private readonly cpuOf = new Map<number, { readonly role: string; readonly seconds: number }>()
  private readonly ended = new Map<string, number>()

  /** One entry for each role. */
  read(running: readonly RunningProcess[]): readonly ProcessUsage[] {
    const roles = new Map<string, ProcessUsage>()
    for (const { process, worker, pid } of running) {
      const reading = readProcess(pid)
      if (reading === undefined) continue
      const role = `${process} ${worker}`
      this.cpuOf.set(pid, { role, seconds: reading.cpuSeconds })
      const before = roles.get(role)
      roles.set(role, before === undefined ? { process, worker, ...reading } : added(before, reading))
    }
    this.forget(new Set(running.map(({ pid }) => pid)))
    return [...roles].map(([role, usage]) => ({
      ...usage,
      cpuSeconds: usage.cpuSeconds + (this.ended.get(role) ?? 0),
    }))
  }

  private forget(running: ReadonlySet<number>): void {
    for (const [pid, { role, seconds }] of this.cpuOf) {
      if (running.has(pid)) continue
      this.cpuOf.delete(pid)
      this.ended.set(role, (this.ended.get(role) ?? 0) + seconds)
    }
  }
}

/** Of two processes of one role, while one replaces the other. */
function added(one: ProcessUsage, other: Reading): ProcessUsage {
  return {
    ...one,
    cpuSeconds: one.cpuSeconds + other.cpuSeconds,
    residentBytes: one.residentBytes + other.residentBytes,
    virtualBytes: one.virtualBytes + other.virtualBytes,
    openFiles: one.openFiles + other.openFiles,
    maxFiles: Math.min(one.maxFiles, other.maxFiles),
    startSeconds: Math.max(one.startSeconds, other.startSeconds),
  }
}

/** Undefined if the process has ended. */
function readProcess(pid: number): Reading | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const limits = readFileSync(`/proc/${pid}/limits`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = (field: keyof typeof FIELDS) => Number(fields[FIELDS[field]]) / TICKS_A_SECOND
    return {
      cpuSeconds: ticks('userTicks') + ticks('systemTicks'),
      residentBytes: kilobytes(status, 'VmRSS') * 1024,
      virtualBytes: kilobytes(status, 'VmSize') * 1024,
      openFiles: readdirSync(`/proc/${pid}/fd`).length,
      maxFiles: Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.NaN),
      startSeconds: bootSeconds() + ticks('startTicks'),
    }
  } catch {
    // It has ended, or this is not Linux.
    return undefined
  }
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
}

function bootSeconds(): number {
  return Number(/^btime (\d+)/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? 0)
}
