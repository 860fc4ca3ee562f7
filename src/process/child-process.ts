/**
 * A process that the supervisor started, with a channel for messages in both directions. The channel may close before
 * the end of the process is reported, or after it: a message that is sent then is dropped, because the next process
 * gets what it needs when it starts.
 */

import type { Subprocess } from 'bun'
import { hasCode } from '../core/system-error.ts'

interface ChildOptions {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** A descriptor that the process gets as its number 3. */
  readonly descriptor?: number | undefined
  readonly onMessage: (message: unknown) => void
  /** `how` is the exit code or the signal, for the log. */
  readonly onExit: (how: string) => void
}

export class ChildProcess<Message extends object> {
  private readonly process: Subprocess<'ignore', 'inherit', 'inherit'>

  /** Starts the process. Its output goes to that of this process. */
  constructor({ command, env, descriptor, onMessage, onExit }: ChildOptions) {
    this.process = Bun.spawn([...command], {
      env,
      stdio: ['ignore', 'inherit', 'inherit', descriptor ?? 'ignore'],
      ipc: onMessage,
      onExit: (_process, code, signal) => onExit(signal === null ? `exit code ${code}` : `signal ${signal}`),
    })
  }

  get pid(): number {
    return this.process.pid
  }

  /** Does nothing if the process cannot receive it. */
  send(message: Message): void {
    try {
      this.process.send(message)
    } catch (error) {
      // Neither `onExit` nor `onDisconnect` comes before the first message that fails.
      if (!hasCode(error, 'ERR_IPC_CHANNEL_CLOSED')) throw error
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.process.kill(signal)
  }
}
