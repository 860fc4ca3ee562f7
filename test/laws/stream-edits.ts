/** Edits of a stream, after which its grammar must reject it. */

export type Edit = (text: string) => string

export const eventsOf = (text: string): string[] => text.split('\n\n').slice(0, -1)

export const replacing =
  (from: string | RegExp, to: string): Edit =>
  (text) =>
    text.replace(from, to)

export const joinedEvents = (events: readonly string[]): string => events.map((event) => `${event}\n\n`).join('')

/** Edits of the event with a number. `joined` makes a stream of events. */
export function eventEdits(joined = joinedEvents) {
  const edit =
    (change: (event: string, at: number, events: readonly string[]) => string | readonly string[]): Edit =>
    (text) =>
      joined(eventsOf(text).flatMap(change))
  return {
    without: (n: number) => edit((event, at) => (at === n ? [] : event)),
    twice: (n: number) => edit((event, at) => (at === n ? [event, event] : event)),
    /** It and the next one in the other order. */
    swapped: (n: number) =>
      edit((event, at, events) => (at === n ? events[n + 1] : at === n + 1 ? events[n] : event) ?? ''),
  }
}
