/**
 * The log: one JSON line per event on standard output. It never contains a key, a credential or what callers and
 * models wrote.
 */

import { hostname } from 'node:os'
import { isatty } from 'node:tty'
import { type Logger, pino, stdTimeFunctions } from 'pino'
import { descriptor, isRegularFile, LineSink } from './line-sink.ts'
import { LOG_EVENTS, logEvent } from './log-events.ts'
import { prettyLine } from './pretty-line.ts'

export type { Logger } from 'pino'

/** JSON, or words for people; `auto`: words on a terminal, JSON elsewhere. */
type LogFormat = 'json' | 'pretty' | 'auto'

/** `000` to `999`. */
const MILLISECONDS: readonly string[] = Array.from({ length: 1000 }, (_, ms) => String(ms).padStart(3, '0'))
/** How long a process that exits waits for the reader of its log. */
const FLUSH_MS = 1000

export interface Log {
  readonly logger: Logger
  /**
   * Writes the line of one request, exactly as pino would, from its fields as JSON without the braces around them.
   * Serialising them costs pino 12 µs in a busy worker, and there is one such line for every request. Returns the
   * line, with its line end.
   */
  request(fields: string, level?: 'info' | 'debug'): string
  /** The form of the lines from here on; `auto` before the first call. */
  format(format: LogFormat): void
  /** The name of the node in the lines from here on; that of the host before the first call. */
  node(name: string): void
  /** Declares whether this process is the only worker, so that larger writes are safe. */
  alone(isAlone: boolean): void
  /** Resolves when the lines so far have reached standard output, or after a second. */
  flush(): Promise<void>
}

/**
 * Opens the log on a file descriptor: `time` in ISO 8601, `level` as a word. It does not use pino's own destination,
 * which writes synchronously when the process exits and would block forever if the reader of the log has stopped.
 * `env`: `NO_COLOR` and `TERM` decide about colour on a terminal.
 */
export function openLog(fd = 1, env: Readonly<Record<string, string | undefined>> = {}): Log {
  const isTerminal = isatty(fd)
  const isColoured = isTerminal && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
  let isPretty = isTerminal
  let node = { node: hostname() }
  let nodeField = JSON.stringify(node).slice(1, -1)
  const sink: LineSink = new LineSink({
    write: descriptor(fd),
    isWhole: isRegularFile(fd),
    notice: (dropped) => {
      const [level, msg] = LOG_EVENTS['log.dropped']
      const time = new Date().toISOString()
      return `${JSON.stringify({ level, time, ...node, event: 'log.dropped', dropped, msg })}\n`
    },
  })
  const write = (text: string) => sink.write(isPretty ? prettyLine(text, isColoured) : text)
  const logger = pino(
    {
      base: null,
      // pino writes the fields of the line into what it gets.
      mixin: () => ({ ...node }),
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (text: string) => write(text) },
  )
  const time = new Timestamp()
  return {
    logger,
    request: (fields, level = 'info') => {
      const line = `{"level":"${level}","time":"${time.now()}",${nodeField},${fields},"msg":"request"}\n`
      write(line)
      return line
    },
    format: (wanted) => {
      isPretty = wanted === 'pretty' || (wanted === 'auto' && isTerminal)
    },
    node: (name) => {
      node = { node: name }
      nodeField = JSON.stringify(node).slice(1, -1)
    },
    alone: (isAlone) => sink.writeAlone(isAlone),
    flush: () => sink.flush(FLUSH_MS),
  }
}

/** The time as `Date.toISOString` writes it, which takes 0.2 µs: all but the milliseconds is the same for a second. */
class Timestamp {
  private second = Number.NaN
  private text = ''

  now(): string {
    const nowMs = Date.now()
    const second = Math.floor(nowMs / 1000)
    if (second !== this.second) {
      this.second = second
      this.text = new Date(nowMs).toISOString().slice(0, -'000Z'.length)
    }
    return `${this.text}${MILLISECONDS[nowMs - second * 1000]}Z`
  }
}

/**
 * The parts of an unexpected error that may be logged: its class and stack. Its message may quote a request or a
 * credential.
 */
export function errorFields(error: unknown): { readonly error: string; readonly at: readonly string[] } {
  if (!(error instanceof Error)) return { error: typeof error, at: [] }
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return { error: error.name, at: frames.slice(0, 10).map((line) => line.trim()) }
}

/**
 * Logs an uncaught error and ends the process with code 70, because its state can no longer be trusted; a new one
 * replaces it.
 */
export function dieOnUncaught(log: Log, fields: Readonly<Record<string, unknown>>): void {
  let dying = false
  const die = (error: unknown) => {
    if (dying) return
    dying = true
    logEvent(log.logger, 'process.crashed', { ...fields, ...errorFields(error) })
    void log.flush().finally(() => process.exit(70))
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
}
