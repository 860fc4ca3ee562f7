/** Usage that waits for its commit, added up by place: one row a model and day, however many requests there were. */

import { addUsage, noUsage, type UsageFigures, type UsagePlace } from './usage-log.ts'

export class UsageSums {
  private readonly sums = new Map<string, { readonly place: UsagePlace; figures: UsageFigures }>()

  add(place: UsagePlace, figures: UsageFigures): void {
    const name = `${place.day}\0${place.organization}\0${place.key}\0${place.model}`
    const known = this.sums.get(name)
    if (known === undefined) this.sums.set(name, { place, figures: addUsage(noUsage, figures) })
    else known.figures = addUsage(known.figures, figures)
  }

  each(call: (place: UsagePlace, figures: UsageFigures) => void): void {
    for (const { place, figures } of this.sums.values()) call(place, figures)
  }

  clear(): void {
    this.sums.clear()
  }
}
