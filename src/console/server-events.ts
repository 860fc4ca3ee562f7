/**
 * Server-sent events read through `fetch`, because `EventSource` cannot send the token. Reconnecting is the work of
 * `live-feed.ts`.
 */

import { ask } from './api-client.ts'

/** A longer event is not one of weir. */
const EVENT_CHARS_MAX = 4_000_000

/**
 * Calls `onEvent` with the name and the data of each event, until the stream ends (then it resolves) or breaks (then it
 * rejects).
 */
export async function readEvents(
  path: string,
  signal: AbortSignal,
  onEvent: (name: string, data: string) => void,
): Promise<void> {
  const { body } = await ask(path, signal)
  if (body === null) return
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const events = (rest + value).split(/\r?\n\r?\n/)
    rest = events.pop() ?? ''
    if (rest.length > EVENT_CHARS_MAX) throw new Error('an event of the admin API is too long')
    for (const event of events) deliver(event, onEvent)
  }
}

function deliver(event: string, onEvent: (name: string, data: string) => void): void {
  let name = 'message'
  const data: string[] = []
  for (const line of event.split(/\r?\n/)) {
    if (line.startsWith('event:')) name = line.slice('event:'.length).trim()
    else if (line.startsWith('data:')) data.push(line.slice('data:'.length).replace(/^ /, ''))
  }
  // A comment, which keeps the connection open, has none.
  if (data.length > 0) onEvent(name, data.join('\n'))
}
