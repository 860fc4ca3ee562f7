/**
 * `weir top`: the console's figures in the terminal, redrawn every second. The terminal is as it was before when the
 * command ends, however it ends.
 */

import type { BudgetRow, Status, TargetRow } from '../admin/api-shapes.ts'
import { environment } from '../config/load.ts'
import { isArray, isObject, type JsonObject } from '../core/json.ts'
import { exit, parseFlags } from './command.ts'
import { GatewayProblem } from './gateway-client.ts'
import { askRunning, locateDataDir, type Place } from './ledger-access.ts'
import { displayOf } from './text-table.ts'
import { type TopFigures, topFrame } from './top-frame.ts'

const REDRAW_MS = 1000
/** More do not fit any terminal. */
const REQUESTS = 50

/** The alternate screen without a cursor, and back. */
const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
/** A terminal that knows these shows the frame at once. */
const BEGIN = '\u001b[?2026h\u001b[H'
const END = '\u001b[J\u001b[?2026l'
const CTRL_C = '\u0003'

/** Returns the exit code. */
export async function top(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'top')
  const place = await locateDataDir(flags['config'])
  const read = () => figuresOf(place)
  const isLive = process.stdout.isTTY && flags['once'] !== true
  const first = await read()
  if (isLive) await new LiveScreen(read, first).run()
  else process.stdout.write(`${frameOf(first, Number.POSITIVE_INFINITY).join('\n')}\n`)
  return exit.done
}

/**
 * Throws `GatewayProblem`. The answers have the shapes of `api-shapes.ts`: the gateway is of this version, or one that
 * only adds to them.
 */
async function figuresOf(place: Place): Promise<TopFigures> {
  const read = (path: string) => askRunning(place, `GET /api/${path}`)
  const [status, targets, budgets, requests] = await Promise.all([
    read('status?history=true'),
    read('targets'),
    read('budgets').catch(withoutLedger),
    read(`requests?recent=${REQUESTS}`),
  ])
  return {
    status: status as unknown as Status,
    targets: rowsOf<TargetRow>(targets),
    budgets: rowsOf<BudgetRow>(budgets),
    requests: rowsOf<JsonObject>(requests),
  }
}

/** The status reports that the ledger is down, and the other figures are still worth a look. */
function withoutLedger(error: unknown): JsonObject {
  if (!(error instanceof GatewayProblem)) throw error
  return { rows: [] }
}

function rowsOf<Row>(answer: JsonObject): readonly Row[] {
  const { rows } = answer
  return isArray(rows) ? (rows.filter(isObject) as readonly unknown[] as readonly Row[]) : []
}

function frameOf(figures: TopFigures, height: number, problem?: string): readonly string[] {
  const { LC_ALL, LC_CTYPE, LANG } = environment()
  const hasBlocks = /utf-?8/i.test(LC_ALL || LC_CTYPE || LANG || '')
  return topFrame(figures, { ...displayOf(false), height, hasBlocks, problem })
}

class LiveScreen {
  private readonly ended = Promise.withResolvers<void>()
  private problem: string | undefined
  private isReading = false

  constructor(
    private readonly read: () => Promise<TopFigures>,
    private figures: TopFigures,
  ) {}

  /** Resolves when the operator quits, or a signal ends the command. */
  async run(): Promise<void> {
    const { stdin, stdout } = process
    const quit = () => this.ended.resolve()
    const draw = () => this.draw()
    const onKeys = (keys: string) => {
      if (/q/i.test(keys) || keys.includes(CTRL_C)) quit()
    }
    const isRaw = stdin.isTTY === true
    // Also after an unexpected error.
    const restore = () => {
      if (isRaw) stdin.setRawMode(false)
      stdout.write(LEAVE)
    }
    process.once('exit', restore)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, quit)
    stdout.on('resize', draw)
    stdout.on('error', quit)
    if (isRaw) {
      stdin.setRawMode(true)
      stdin.setEncoding('utf8')
      stdin.on('data', onKeys)
    }
    stdout.write(ENTER)
    draw()
    const timer = setInterval(() => void this.refresh(), REDRAW_MS)
    await this.ended.promise
    clearInterval(timer)
    stdout.off('resize', draw)
    if (isRaw) stdin.off('data', onKeys).pause()
    process.off('exit', restore)
    restore()
  }

  private async refresh(): Promise<void> {
    if (this.isReading) return
    this.isReading = true
    try {
      this.figures = await this.read()
      this.problem = undefined
    } catch (error) {
      if (!(error instanceof GatewayProblem)) throw error
      // The last figures stay, below the reason.
      this.problem = error.message
    } finally {
      this.isReading = false
    }
    this.draw()
  }

  private draw(): void {
    const lines = frameOf(this.figures, Math.max(1, process.stdout.rows || 24), this.problem)
    process.stdout.write(`${BEGIN}${lines.map((line) => `${line}\u001b[K`).join('\r\n')}${END}`)
  }
}
