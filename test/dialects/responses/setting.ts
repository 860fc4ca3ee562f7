/**
 * Shared setup for the tests of this dialect: the dialect with fixed keys, its answers, and text with ids and times
 * removed.
 */

import { CallerError } from '../../../src/core/caller-error.ts'
import type { StreamEvent } from '../../../src/core/event.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import type { Served } from '../../../src/dialects/dialect.ts'
import { responses } from '../../../src/dialects/responses/responses.ts'
import { LocalItemStore } from '../../../src/items/local-item-store.ts'
import { Sealer } from '../../../src/items/sealer.ts'
import { answerText } from '../../support/bytes.ts'
import { fold } from '../../support/decode.ts'
import { Encoding } from '../../support/encoding.ts'
import { storeIn } from '../../support/item-text.ts'
import { readAtOnce, readBody, type Seen } from '../../support/literal.ts'

export const SERVED: Served = { model: 'acme-large', createdAt: 1763650000 }
export const CALLER = { organization: 'acme' }
export const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
export const sealer = new Sealer([keyOf(1)])
export const dialect = responses({ sealer, itemStore: storeIn(new LocalItemStore({ ttlSeconds: 3600 })) })

/** An exchange that needed no asynchronous look-up. */
export function accept(body: JsonObject, organization = 'acme'): Seen {
  return readAtOnce(dialect, { model: 'acme-large', ...body }, { organization })
}

/** One whose input may refer to stored items. */
export async function acceptLater(body: JsonObject, organization = 'acme'): Promise<Seen> {
  return await readBody(dialect, { model: 'acme-large', ...body }, { organization })
}

/** The error that a function throws. */
export function failureOf(body: () => unknown): CallerError {
  try {
    body()
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

/** The error that a promise rejects with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<CallerError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return failureOf(() => {
    throw error
  })
}

/** A stream as one text. */
export function streamed(exchange: Seen, events: readonly StreamEvent[]): string {
  return Encoding.of(exchange, SERVED).addAll(events)
}

export function answered(exchange: Seen, events: readonly StreamEvent[]): JsonObject {
  return JSON.parse(answerText(exchange.answer(fold(events), SERVED)))
}

/** A short answer of text. */
export function saying(text: string): StreamEvent[] {
  return [
    { type: 'start' },
    { type: 'text', text },
    { type: 'finish', reason: 'stop' },
    { type: 'usage', usage: { input: 9, output: 3 } },
    { type: 'end' },
  ]
}

/** JSON text with ids by order of appearance, times as 0 and sealed content left out. */
export function plain(text: string): string {
  const seen = new Map<string, string>()
  return text
    .replace(/"(resp|msg|fc|ctc|rs|cmp)_[A-Za-z0-9_-]+"/g, (id, prefix) => {
      if (!seen.has(id)) seen.set(id, `"${prefix}#${seen.size}"`)
      return seen.get(id) ?? id
    })
    .replace(/"(created_at|completed_at)":\d+/g, '"$1":0')
    .replace(/"encrypted_content":"[^"]*"/g, '"encrypted_content":"…"')
}
