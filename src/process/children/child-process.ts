/**
 * A process that the supervisor started, with a channel for messages in both directions. The channel may close before
 * the end of the process is reported, or after it: a message that is sent then is dropped, because the next process
 * gets what it needs when it starts. A process that the system cannot start has ended at once: the program file may be
 * missing while it is replaced, and a machine without memory or descriptors may have some later.
 */

import type { Subprocess } from 'bun'
import { hasCode, isSystemError } from '../../core/system-error.ts'

interface ChildOptions {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** A descriptor that the process gets as its number 3. */
  readonly descriptor?: number | undefined
  readonly onMessage: (message: unknown) => void
  /** `how` is the exit code, the signal, or why it was not started, for the log. Not called by the constructor. */
  readonly onExit: (how: string) => void
}

export class ChildProcess<Message extends object> {
  private readonly process: Subprocess<'ignore', 'inherit', 'inherit'> | undefined

  /** Starts the process. Its output goes to that of this process. */
  constructor({ command, env, descriptor, onMessage, onExit }: ChildOptions) {
    try {
      this.process = Bun.spawn([...command], {
        env,
        stdio: ['ignore', 'inherit', 'inherit', descriptor ?? 'ignore'],
        ipc: onMessage,
        onExit: (_process, code, signal) => onExit(signal === null ? `exit code ${code}` : `signal ${signal}`),
      })
    } catch (error) {
      if (!isSystemError(error)) throw error
      queueMicrotask(() => onExit(`not started: ${error.message}`))
    }
  }

  /** Undefined if the process was not started. */
  get pid(): number | undefined {
    return this.process?.pid
  }

  /** Does nothing if the process cannot receive it. */
  send(message: Message): void {
    try {
      this.process?.send(message)
    } catch (error) {
      // Neither `onExit` nor `onDisconnect` comes before the first message that fails.
      if (!hasCode(error, 'ERR_IPC_CHANNEL_CLOSED')) throw error
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.process?.kill(signal)
  }
}
