/** Ends what the chaos run has started, however the run itself ends. */

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

/** Notes a process, or with a negative id a process group. What is returned takes the note back: the process has ended. */
export function noted(id: number): () => void {
  running.add(id)
  return () => running.delete(id)
}
