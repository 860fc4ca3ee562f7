/** What processes take, by the files of Linux under /proc; nothing on other systems. */

import { readdirSync, readFileSync } from 'node:fs'
import type { ProcessReading, ProcessUsage } from '../../admin/supervision.ts'

/** The unit of the times in /proc/PID/stat, which is the same on every Linux. */
const TICKS_A_SECOND = 100
/** The places of fields in /proc/PID/stat after the name of the program, from 0. */
const FIELDS = { userTicks: 11, systemTicks: 12, startTicks: 19 } as const

/** A process and its role. */
export interface RunningProcess extends Pick<ProcessUsage, 'process' | 'worker'> {
  readonly pid: number
}

type Role = Pick<ProcessUsage, 'process' | 'worker'>

interface CpuReading extends ProcessReading {
  readonly cpuSeconds: number
}

/** CPU seconds of a role. */
interface RoleTime extends Role {
  readonly seconds: number
}

/**
 * Keeps the CPU time of processes that have ended, as of the last look at them: a counter must neither fall nor vanish,
 * also while a worker that died is not started again yet.
 */
export class ProcessUsages {
  private readonly cpuOf = new Map<number, RoleTime>()
  private readonly ended = new Map<string, RoleTime>()

  /** One entry for each role that has or had a process. */
  read(running: readonly RunningProcess[]): readonly ProcessUsage[] {
    const readings = new Map<string, ProcessReading>()
    for (const { process, worker, pid } of running) {
      const reading = readProcess(pid)
      if (reading === undefined) continue
      const { cpuSeconds, ...taken } = reading
      this.cpuOf.set(pid, { process, worker, seconds: cpuSeconds })
      const before = readings.get(nameOf({ process, worker }))
      readings.set(nameOf({ process, worker }), before === undefined ? taken : added(before, taken))
    }
    this.forget(new Set(running.map(({ pid }) => pid)))
    const times = new Map(this.ended)
    for (const time of this.cpuOf.values()) addTime(times, time)
    return [...times].map(([name, { process, worker, seconds }]) => {
      return { process, worker, cpuSeconds: seconds, running: readings.get(name) }
    })
  }

  private forget(running: ReadonlySet<number>): void {
    for (const [pid, time] of this.cpuOf) {
      if (running.has(pid)) continue
      this.cpuOf.delete(pid)
      addTime(this.ended, time)
    }
  }
}

function nameOf({ process, worker }: Role): string {
  return `${process} ${worker}`
}

function addTime(times: Map<string, RoleTime>, { process, worker, seconds }: RoleTime): void {
  const before = times.get(nameOf({ process, worker }))?.seconds ?? 0
  times.set(nameOf({ process, worker }), { process, worker, seconds: before + seconds })
}

/** The sum of two processes of one role, while one replaces the other. */
function added(one: ProcessReading, other: ProcessReading): ProcessReading {
  return {
    residentBytes: one.residentBytes + other.residentBytes,
    virtualBytes: one.virtualBytes + other.virtualBytes,
    openFiles: one.openFiles + other.openFiles,
    maxFiles: Math.min(one.maxFiles, other.maxFiles),
    startSeconds: Math.max(one.startSeconds, other.startSeconds),
  }
}

/** Undefined if the process has ended. */
function readProcess(pid: number): CpuReading | undefined {
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
