/** Kills all processes that the chaos run has started, however the run itself ends. */

const running = new Set<number>()

process.on('exit', () => {
  for (const id of running) {
    try {
      process.kill(id, 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

/** Registers a process, or with a negative id a process group. Call the returned function when it has ended. */
export function killAtExit(id: number): () => void {
  running.add(id)
  return () => running.delete(id)
}
