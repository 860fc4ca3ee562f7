/** The log: one JSON line an event on standard output, in process. Never a key, a credential or what was said. */

import { type Logger, pino, stdTimeFunctions } from 'pino'
import { descriptor, LineSink } from './line-sink.ts'

export type { Logger } from 'pino'

/** A program that ends waits this long for the reader of its log. */
const FLUSH_MS = 1000

export interface Log {
  readonly logger: Logger
  /**
   * The line of one request, as `logger.info(fields, 'request')` writes it. There is one for each request, and its twenty fields cost
   * pino 12 µs in a busy worker; one `JSON.stringify` does it in 4.
   */
  request(fields: object): void
  /** This process is the only worker. */
  alone(): void
  /** Lets the lines so far reach standard output, for a second at most. */
  flush(): Promise<void>
}

/**
 * `time` as ISO 8601, `level` as its word (operator.md 5). Not pino's own destination: that one writes synchronously when the program
 * ends, and would hang there for ever where the reader of the log stands still.
 */
export function openLog(fd = 1): Log {
  const sink: LineSink = new LineSink({
    write: descriptor(fd),
    notice: (dropped) =>
      `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), dropped, msg: 'log lines dropped' })}\n`,
  })
  const logger = pino(
    {
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    sink,
  )
  const request = (fields: object) => {
    const time = new Date().toISOString()
    sink.write(`{"level":"info","time":"${time}",${JSON.stringify(fields).slice(1, -1)},"msg":"request"}\n`)
  }
  return { logger, request, alone: () => sink.writeAlone(), flush: () => sink.flush(FLUSH_MS) }
}

/** What of an unexpected error may be logged: its class and where it was thrown. Its message may quote what was being handled. */
export function errorFields(error: unknown): { readonly error: string; readonly at: readonly string[] } {
  if (!(error instanceof Error)) return { error: typeof error, at: [] }
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return { error: error.name, at: frames.slice(0, 10).map((line) => line.trim()) }
}

/** Logs what nobody caught and ends the process, so that a fresh one takes its place: better dead than wrong. */
export function dieOnUncaught(log: Log, fields: Readonly<Record<string, unknown>>): void {
  let dying = false
  const die = (error: unknown) => {
    if (dying) return
    dying = true
    log.logger.fatal({ ...fields, ...errorFields(error) }, 'crashed')
    void log.flush().finally(() => process.exit(70))
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
}
