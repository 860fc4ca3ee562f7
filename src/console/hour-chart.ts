/**
 * A chart of the last hour: one or two lines, the maximum as a grid line, and a cursor that all charts share. Screen
 * readers get its text instead.
 */

import uPlot from 'uplot'
import { element, setAttribute, setText } from './elements.ts'
import { clockMinutes } from './units.ts'

const HOUR_S = 3_600

/** Of a line; one that shows failures has theirs. */
type Colour = '--ink' | '--ink-faint' | '--bad'

export interface ChartSetup {
  /** The second line is dashed. */
  readonly lines: readonly Colour[]
  /** The value of a point as text: `34 /s`. */
  readonly format: (value: number) => string
  /** The least value of the upper edge, so that noise around zero stays small. */
  readonly least: number
}

/** Unix seconds, and for each line a value for each of them. */
type Points = readonly [times: readonly number[], ...lines: (readonly (number | null)[])[]]

export class HourChart {
  readonly node = element('div', { class: 'chart', role: 'img' })
  readonly ends = element('div', { class: 'ends', 'aria-hidden': 'true' })
  private readonly most = element('span', { class: 'most' })
  private readonly left = element('span', {}, '60 min ago')
  private readonly right = element('span', {}, 'now')
  private plot: uPlot | undefined
  private points: Points = [[]]
  private endS = 0

  constructor(private readonly setup: ChartSetup) {
    this.node.append(this.most)
    this.ends.append(this.left, this.right)
    new ResizeObserver(() => this.resize()).observe(this.node)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.plot?.redraw(false))
  }

  /** Draws the hour that ends at `endS`, in Unix seconds; `text` describes it. */
  show(points: Points, endS: number, text: string): void {
    this.points = points
    this.endS = endS
    setAttribute(this.node, 'aria-label', text)
    const upper = this.upper()
    // Without zeros after the point: `3 s`, not `3.00 s`.
    const most = this.setup.format(upper).replace(/\.0+(?=\D|$)/, '')
    setText(this.most, points[0].length === 0 ? '' : most)
    this.plot?.setData(mutable(points), true)
  }

  private upper(): number {
    const [, ...lines] = this.points
    return niceAbove(Math.max(this.setup.least, ...lines.flat().map((value) => value ?? 0)))
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.node
    if (width === 0 || height === 0) return
    if (this.plot === undefined) this.plot = this.make(width, height)
    else this.plot.setSize({ width, height })
  }

  private make(width: number, height: number): uPlot {
    const { lines } = this.setup
    return new uPlot(
      {
        width,
        height,
        padding: [1, 0, 1, 0],
        legend: { show: false },
        axes: [{ show: false }, { show: false }],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: false, y: false, setScale: false },
          sync: { key: 'hour', setSeries: false },
        },
        scales: {
          x: { time: true, range: () => [this.endS - HOUR_S, this.endS] },
          y: { range: () => [0, this.upper()] },
        },
        series: [{}, ...lines.map((colour, at) => this.series(colour, at === 0))],
        hooks: { drawClear: [(plot) => this.grid(plot)], setCursor: [(plot) => this.readOut(plot)] },
      },
      mutable(this.points),
      this.node,
    )
  }

  private series(colour: Colour, isFirst: boolean): uPlot.Series {
    return {
      stroke: () => this.colour(colour),
      ...(isFirst ? { fill: () => this.colour('--chart-fill') } : {}),
      width: 1.5,
      dash: isFirst ? [] : [3, 3],
      points: { show: false },
    }
  }

  /** Lines at zero and at the maximum. */
  private grid({ ctx, bbox }: uPlot): void {
    ctx.save()
    ctx.setLineDash([])
    ctx.strokeStyle = this.colour('--line')
    ctx.lineWidth = devicePixelRatio
    for (const y of [bbox.top + 0.5, bbox.top + bbox.height - 0.5]) {
      ctx.beginPath()
      ctx.moveTo(bbox.left, y)
      ctx.lineTo(bbox.left + bbox.width, y)
      ctx.stroke()
    }
    ctx.restore()
  }

  private readOut({ cursor, data }: uPlot): void {
    const isInside = (cursor.left ?? -1) >= 0
    const at = isInside ? (cursor.idx ?? -1) : -1
    const time = data[0][at]
    this.left.className = time === undefined ? '' : 'readout'
    this.right.hidden = time !== undefined
    if (time === undefined) return setText(this.left, '60 min ago')
    const [, ...lines] = this.points
    const values = lines.map((line) => (line[at] == null ? '–' : this.setup.format(line[at])))
    setText(this.left, `${clockMinutes(new Date(time * 1000))}  ${values.join(' · ')}`)
  }

  private colour(name: string): string {
    return getComputedStyle(this.node).getPropertyValue(name)
  }
}

/** uPlot's type of data is mutable, and it does not write to it. */
function mutable([times, ...lines]: Points): uPlot.AlignedData {
  return [[...times], ...lines.map((line) => [...line])]
}

/** The next of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten, so that the scale rarely changes. */
function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= value * 0.999)
  return (step ?? 10) * power
}
