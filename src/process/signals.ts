/** Signals that must not end the program, though the system ends one for each that is not handled. */

/** SIGQUIT comes with Ctrl-\ to a whole terminal; SIGUSR1 and SIGUSR2 by habit from other servers. */
const IGNORED = ['SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

/** For the supervisor and for each worker, before anything else is loaded: a handler is not inherited. */
export function ignoreSignals(): void {
  for (const signal of IGNORED) process.on(signal, () => {})
}
