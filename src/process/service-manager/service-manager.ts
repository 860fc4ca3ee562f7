/**
 * Reports the state of the service to systemd, by the protocol of sd_notify(3): datagrams to the socket of
 * `NOTIFY_SOCKET`. Without a service manager it does nothing.
 */

import { messageOf } from '../../core/error-message.ts'
import { monotonicMicroseconds, sendDatagram } from '../system/libc.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Variables that are for the main process alone: its children must not speak for it. */
export const SERVICE_VARIABLES = [
  'NOTIFY_SOCKET',
  'WATCHDOG_USEC',
  'WATCHDOG_PID',
  'LISTEN_PID',
  'LISTEN_FDS',
  'LISTEN_FDNAMES',
] as const

export class ServiceManager {
  private readonly socket: string | undefined
  private watchdog: NodeJS.Timeout | undefined
  private hasFailed = false

  constructor(
    private readonly env: Environment,
    /** Called once, if the socket does not take a message. */
    private readonly onFailed: (problem: string) => void,
  ) {
    this.socket = env['NOTIFY_SOCKET'] || undefined
  }

  /** weir serves requests, or has finished a reload. */
  ready(status: string): void {
    this.send(() => `READY=1\nSTATUS=${status}`)
    this.watchdog ??= this.watch()
  }

  /** Call `ready` when the reload is over. */
  reloading(): void {
    this.send(() => `RELOADING=1\nMONOTONIC_USEC=${monotonicMicroseconds()}\nSTATUS=Reloading`)
  }

  stopping(): void {
    this.send(() => 'STOPPING=1\nSTATUS=Running requests may finish')
  }

  /** Ends the messages to the watchdog. */
  close(): void {
    clearInterval(this.watchdog)
  }

  /** Twice in the time that the watchdog waits, as sd_watchdog_enabled(3) recommends. */
  private watch(): NodeJS.Timeout | undefined {
    const microseconds = Number(this.env['WATCHDOG_USEC'])
    const pid = this.env['WATCHDOG_PID']
    const isMeant = pid === undefined || pid === String(process.pid)
    if (this.socket === undefined || !isMeant || !Number.isSafeInteger(microseconds) || microseconds <= 0)
      return undefined
    const beat = () => this.send(() => 'WATCHDOG=1')
    beat()
    return setInterval(beat, microseconds / 2000)
  }

  private send(text: () => string): void {
    if (this.socket === undefined) return
    try {
      sendDatagram(this.socket, text())
    } catch (error) {
      if (!this.hasFailed) this.onFailed(messageOf(error))
      this.hasFailed = true
    }
  }
}
