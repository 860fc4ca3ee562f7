/** What an import from another gateway could not carry over, took for granted, or leaves to the operator. */

const kinds = ['lost', 'assumed', 'to do'] as const
type Kind = (typeof kinds)[number]

export class Notes {
  private readonly all = new Map<string, Kind>()

  /** Something that the new file does not have. */
  lost(place: string, line: string): void {
    this.add('lost', place, line)
  }

  /** Something that was read in a way that the operator may correct. */
  assumed(place: string, line: string): void {
    this.add('assumed', place, line)
  }

  /** Something that the operator has to do. */
  toDo(place: string, line: string): void {
    this.add('to do', place, line)
  }

  /** One line each: what is lost, then what is assumed, then what is to do. */
  get lines(): readonly string[] {
    return kinds.flatMap((kind) => [...this.all].filter(([, own]) => own === kind).map(([line]) => `${kind}: ${line}`))
  }

  private add(kind: Kind, place: string, line: string): void {
    this.all.set(`${place}: ${line}`.replaceAll(/\s+/g, ' '), kind)
  }
}
