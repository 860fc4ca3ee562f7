/** What adapters share that write a plain request as JSON text (`gateway/plain-request.ts`). */

import type { Message } from '../core/chat-request.ts'

/** The text of a message of one text without a mark; undefined for any other message. */
export function onlyText(message: Message): string | undefined {
  const { role, parts } = message
  if (role === 'tool' || parts.length !== 1) return undefined
  if (role === 'assistant' && (message.toolCalls.length > 0 || message.refusal !== undefined)) return undefined
  const part = parts[0]
  return part?.type === 'text' && part.cache === undefined ? part.text : undefined
}

/** True unless the text is blank, which most providers reject. */
export function isSolid(text: string): boolean {
  const first = text.charCodeAt(0)
  return (first > 0x20 && first < 0x7f) || text.trim() !== ''
}

/** A member after another one, as JSON text; '' if there is no value. `name` needs no escapes. */
export function member(name: string, value: string | number | boolean | undefined): string {
  return value === undefined ? '' : `,"${name}":${typeof value === 'string' ? JSON.stringify(value) : value}`
}
