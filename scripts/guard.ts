/**
 * Runs a command and kills all of its descendants when it ends: `bun scripts/guard.ts COMMAND…`. On Linux the guard is
 * their subreaper: a process that loses its parent becomes a child of the guard, even in another session. The guard
 * kills them when the command ends, when it gets SIGTERM, SIGINT or SIGHUP, and when its own parent ends. Its exit code
 * is that of the command.
 */

import { dlopen } from 'bun:ffi'
import { existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'

/** The process id of the guard. A command whose parent has this id is guarded. */
export const GUARD_VARIABLE = 'WEIR_GUARD_PID'

const PR_SET_PDEATHSIG = 1
const PR_SET_CHILD_SUBREAPER = 36
const WNOHANG = 1
/** How often ended orphans are waited for: until then they are zombies, whose ids look alive. */
const REAP_MS = 10
const LIBRARIES = ['libc.so.6', `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`]
const NAMED_MAX = 10

const SYMBOLS = {
  prctl: { args: ['int', 'u64', 'u64', 'u64', 'u64'], returns: 'int' },
  waitpid: { args: ['int', 'ptr', 'int'], returns: 'int' },
} as const

/** Undefined if the C library cannot be loaded: prints a warning, and the command runs without a guard. */
function openLibrary() {
  const errors: unknown[] = []
  for (const name of LIBRARIES) {
    try {
      return dlopen(name, SYMBOLS).symbols
    } catch (error) {
      errors.push(error)
    }
  }
  console.error(`No guard, so processes may be left running: ${errors.map(String).join('; ')}`)
  return undefined
}

function childrenOf(pid: number): readonly number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
  } catch {
    // It has ended.
    return []
  }
}

function descendantsOf(pid: number): readonly number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)])
}

/** The command line of a process; undefined if the process has ended, even if it is still a zombie. */
function commandOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() || undefined
  } catch {
    return undefined
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

interface Guard {
  /** Starts waiting for orphans; the runtime waits for the command itself. */
  watch(command: number): void
  /** Kills all descendants, and resolves to those that were still running when none is left. */
  endAll(): Promise<readonly string[]>
}

/** Makes this process a guard. Without /proc (not Linux) it does nothing. */
function guard(): Guard {
  const library = existsSync('/proc/self/task') ? openLibrary() : undefined
  if (library === undefined) return { watch: () => undefined, endAll: async () => [] }
  const { prctl, waitpid } = library
  const parent = process.ppid
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
  prctl(PR_SET_PDEATHSIG, constants.signals.SIGTERM, 0, 0, 0)
  // The parent may have ended before the line above.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
  let own: number | undefined
  let timer: ReturnType<typeof setInterval> | undefined
  const reap = () => {
    for (const pid of childrenOf(process.pid)) if (pid !== own) waitpid(pid, null, WNOHANG)
  }
  const watch = (command: number) => {
    own = command
    timer = setInterval(reap, REAP_MS)
  }
  const endAll = async () => {
    const ended = new Set<string>()
    for (let left = descendantsOf(process.pid); left.length > 0; left = descendantsOf(process.pid)) {
      for (const pid of left) {
        const command = commandOf(pid)
        if (command !== undefined) ended.add(`${pid} ${command.slice(0, 200)}`)
        kill(pid)
      }
      await Bun.sleep(1)
      reap()
    }
    clearInterval(timer)
    return [...ended]
  }
  return { watch, endAll }
}

async function run(command: readonly string[]): Promise<number> {
  const { watch, endAll } = guard()
  const stopped = Promise.withResolvers<number>()
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => stopped.resolve(128 + constants.signals[name]))
  }
  const child = Bun.spawn([...command], {
    stdio: ['inherit', 'inherit', 'inherit'],
    env: { ...process.env, [GUARD_VARIABLE]: String(process.pid) },
  })
  watch(child.pid)
  const ended = child.exited.then((code) => ({ code, isOver: true }))
  const { code, isOver } = await Promise.race([ended, stopped.promise.then((code) => ({ code, isOver: false }))])
  const left = await endAll()
  if (isOver && left.length > 0) {
    console.error(`Ended ${left.length} processes that were left running:`)
    for (const one of left.slice(0, NAMED_MAX)) console.error(`  ${one}`)
  }
  return code
}

if (import.meta.main) {
  const command = process.argv.slice(2)
  if (command.length === 0) {
    console.error('Usage: bun scripts/guard.ts COMMAND…')
    process.exit(2)
  }
  process.exit(await run(command))
}
