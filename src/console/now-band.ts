/** The band "Now": six figures, each with a chart of its last hour. */

import type { FiguresNow, Status } from '../admin/api-shapes.ts'
import { count, dollars, duration, durationParts, percent, rate } from '../core/figure-text.ts'
import { element, type State, StateMark, setText } from './elements.ts'
import { type ChartSetup, HourChart } from './hour-chart.ts'

const HOUR_S = 3_600
/** Without a history of the server; the same as its own. */
const STEP_S_DEFAULT = 10
/** Points that are further apart than this many steps are not joined by a line. */
const GAP_STEPS = 3

interface Amount {
  readonly number: string
  readonly unit: string
  readonly state?: State | undefined
}

interface FigureSetup extends ChartSetup {
  readonly title: string
  /** The large figure and, if there is one, the smaller one beside it. */
  readonly amounts: (status: Status) => readonly Amount[]
  /** The values of a point, one for each line. */
  readonly values: (figures: FiguresNow) => readonly (number | null)[]
}

/** A share of failed requests from which on the figure is an alarm. */
const ERROR_SHARE_BAD = 0.05

const setups: readonly FigureSetup[] = [
  {
    title: 'Requests',
    lines: ['--ink'],
    format: (value) => `${rate(value)}/s`,
    least: 1,
    amounts: ({ now }) => [
      { number: rate(now.requests_per_second), unit: 'a second' },
      { number: count(now.in_flight), unit: 'running' },
    ],
    values: (figures) => [figures.requests_per_second],
  },
  {
    title: 'Open streams',
    lines: ['--ink'],
    format: count,
    least: 5,
    amounts: ({ now }) => [{ number: count(now.open_streams), unit: now.open_streams === 1 ? 'stream' : 'streams' }],
    values: (figures) => [figures.open_streams],
  },
  {
    title: 'Errors',
    lines: ['--bad', '--ink-faint'],
    format: percent,
    least: 0.01,
    amounts: ({ now }) => [
      {
        number: percent(now.error_share),
        unit: 'failed',
        state: (now.error_share ?? 0) < ERROR_SHARE_BAD ? undefined : 'bad',
      },
      { number: percent(now.limited_share), unit: 'limited' },
    ],
    values: (figures) => [figures.error_share, figures.limited_share],
  },
  {
    title: 'Time to first token',
    lines: ['--ink', '--ink-faint'],
    format: duration,
    least: 100,
    amounts: ({ now }) => [
      latency(now.time_to_first_token_p50_ms, 'p50'),
      latency(now.time_to_first_token_p95_ms, 'p95'),
    ],
    values: (figures) => [figures.time_to_first_token_p50_ms, figures.time_to_first_token_p95_ms],
  },
  {
    title: 'Tokens',
    lines: ['--ink'],
    format: (value) => `${rate(value)}/s`,
    least: 10,
    amounts: ({ now }) => [{ number: rate(now.tokens_per_second), unit: 'a second' }],
    values: (figures) => [figures.tokens_per_second],
  },
  {
    title: 'Spend',
    lines: ['--ink'],
    format: (value) => `${dollars(value)}/h`,
    least: 10_000,
    amounts: (status) => [
      {
        number: status.cost_today_micro_usd === null ? '–' : dollars(status.cost_today_micro_usd),
        // Others serve the same organisations.
        unit: status.nodes !== null && status.now !== status.nodes.now ? 'today, all nodes' : 'today',
      },
      { number: dollars(status.now.cost_micro_usd_per_second * HOUR_S), unit: 'an hour' },
    ],
    values: (figures) => [figures.cost_micro_usd_per_second * HOUR_S],
  },
]

function latency(ms: number | null, name: string): Amount {
  const [number, unit] = durationParts(ms)
  return { number, unit: `${unit} ${name}`.trim() }
}

/** One figure with its chart. */
class Figure {
  readonly node: HTMLElement
  private readonly amounts: readonly {
    readonly node: HTMLElement
    readonly mark: StateMark
    readonly unit: HTMLElement
  }[]
  private readonly chart: HourChart

  constructor(
    private readonly setup: FigureSetup,
    amounts: number,
  ) {
    this.chart = new HourChart(setup)
    this.amounts = Array.from({ length: amounts }, (_, at) => {
      const [mark, unit] = [new StateMark('number'), element('span', { class: 'unit' })]
      mark.show(undefined, '–')
      const node = element('span', { class: at === 0 ? 'amount' : 'amount second' }, mark.node, ' ', unit)
      const kind = setup.lines[at] === '--bad' ? 'key failures' : 'key'
      const key = element('span', { class: kind, 'aria-hidden': 'true' })
      if (setup.lines.length > 1) node.append(key)
      return { node, mark, unit }
    })
    this.node = element(
      'article',
      { class: 'figure' },
      element('h3', {}, setup.title),
      element('p', { class: 'amounts' }, ...this.amounts.map(({ node }) => node)),
      this.chart.node,
      this.chart.ends,
    )
  }

  show(status: Status): void {
    this.setup.amounts(status).forEach(({ number, unit, state }, at) => {
      const shown = this.amounts[at]
      if (shown === undefined) return
      shown.mark.show(state, number)
      setText(shown.unit, unit)
    })
  }

  draw(times: readonly number[], history: readonly (FiguresNow | undefined)[], endS: number): void {
    const values = history.map((figures) => (figures === undefined ? [] : this.setup.values(figures)))
    const lines = this.setup.lines.map((_, line) => values.map((each) => each[line] ?? null))
    this.chart.show([times, ...lines], endS, this.text(lines[0] ?? []))
  }

  private text(values: readonly (number | null)[]): string {
    const known = values.filter((value) => value !== null)
    const { title, format } = this.setup
    const newest = known.at(-1)
    if (newest === undefined) return `${title} of the last hour: no figures yet.`
    const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))]
    return `${title} of the last hour: lowest ${format(low)}, highest ${format(high)}, now ${format(newest)}.`
  }
}

/** The points of the last hour, of this node or of all of them. */
class History {
  private times: number[] = []
  private points: FiguresNow[] = []

  constructor(private readonly stepS: () => number) {}

  reset(points: readonly (FiguresNow & { readonly at: string })[]): void {
    this.times = points.map(({ at }) => Date.parse(at) / 1000)
    this.points = [...points]
  }

  /** True if a step has passed since the last point. */
  add(nowS: number, now: FiguresNow): boolean {
    const last = this.times.at(-1)
    if (last !== undefined && nowS - last < this.stepS()) return false
    this.times.push(nowS)
    this.points.push(now)
    const old = this.times.findIndex((at) => at >= nowS - HOUR_S)
    this.times.splice(0, old)
    this.points.splice(0, old)
    return true
  }

  draw(figures: readonly Figure[], endS: number): void {
    const times: number[] = []
    const history: (FiguresNow | undefined)[] = []
    this.times.forEach((at, index) => {
      // A pause of weir is a gap in the line.
      const before = this.times[index - 1]
      if (before !== undefined && at - before > GAP_STEPS * this.stepS()) {
        times.push(before + this.stepS())
        history.push(undefined)
      }
      times.push(at)
      history.push(this.points[index])
    })
    for (const figure of figures) figure.draw(times, history, endS)
  }
}

export class NowBand {
  private readonly figures: readonly Figure[]
  private stepS = STEP_S_DEFAULT
  private readonly own = new History(() => this.stepS)
  private readonly all = new History(() => this.stepS)
  /** Whether the figures are those of this node, though there are others. */
  private isOwnAlone = false
  private status: Status | undefined
  private readonly scope = element('button', { class: 'only', type: 'button', 'aria-pressed': 'false' })
  private readonly about = element('p', { class: 'count' }, 'and the last hour')

  constructor(section: HTMLElement) {
    this.figures = setups.map((setup) => new Figure(setup, amountsOf(setup)))
    const head = element('div', { class: 'band-head' }, element('h2', { id: 'now-title' }, 'Now'))
    this.scope.textContent = 'This node alone'
    this.scope.hidden = true
    this.scope.addEventListener('click', () => this.turn())
    head.append(this.about, this.scope)
    section.append(head, element('div', { class: 'panel figures' }, ...this.figures.map(({ node }) => node)))
  }

  show(status: Status): void {
    this.status = status
    const isNew = this.addPoints(status)
    this.render(status)
    if (isNew) this.draw(status)
  }

  private render(status: Status): void {
    this.scope.hidden = status.nodes === null
    setText(this.about, this.words(status))
    // The spend of the day is that of all nodes either way.
    const shown = this.isAll && status.nodes !== null ? { ...status, now: status.nodes.now } : status
    for (const figure of this.figures) figure.show(shown)
  }

  private draw({ time }: Status): void {
    const history = this.isAll ? this.all : this.own
    history.draw(this.figures, Date.parse(time) / 1000)
  }

  private get isAll(): boolean {
    return !this.isOwnAlone && this.status !== undefined && this.status.nodes !== null
  }

  private words(status: Status): string {
    if (status.nodes !== null && this.isAll) return `of all ${status.nodes.count} nodes, and the last hour`
    return status.nodes !== null ? 'of this node, and the last hour' : 'and the last hour'
  }

  private turn(): void {
    const { status } = this
    this.isOwnAlone = !this.isOwnAlone
    this.scope.setAttribute('aria-pressed', String(this.isOwnAlone))
    if (status === undefined) return
    this.render(status)
    this.draw(status)
  }

  /** True if the charts change: when a whole history arrived, and after each step. */
  private addPoints({ history, now, nodes, time }: Status): boolean {
    const nowS = Date.parse(time) / 1000
    if (history !== undefined) {
      this.stepS = history.step_seconds
      this.own.reset(history.points)
      this.all.reset(history.nodes ?? [])
      return true
    }
    const isNew = this.own.add(nowS, now)
    return nodes === null ? isNew : this.all.add(nowS, nodes.now) || isNew
  }
}

function amountsOf({ title }: FigureSetup): number {
  return title === 'Open streams' || title === 'Tokens' ? 1 : 2
}
