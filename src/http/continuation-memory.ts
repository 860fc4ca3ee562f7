/**
 * Memory for the conversations that sockets keep, counted for each organization in this worker. Clients send everything
 * when theirs is gone, so what is kept may be forgotten at any time: the oldest first.
 */

import { memoryBytesOf } from '../dialects/responses/earlier-input.ts'
import type { KeptInput } from './continued-body.ts'

/** A response that may be continued on its connection. */
export interface Continuable {
  readonly id: string
  readonly input: KeptInput
  /** Its output in JSON, items joined by commas. */
  readonly output: string
  readonly bytes: number
  /** Takes it from its connection. */
  readonly forget: () => void
}

/** What a conversation takes besides its texts. */
const OVERHEAD_BYTES = 1024

export function continuableBytes({ bytes, read }: KeptInput, output: string): number {
  return bytes.size + memoryBytesOf(read) + Buffer.byteLength(output) + OVERHEAD_BYTES
}

interface Kept {
  /** In the order of their last use. */
  readonly conversations: Set<Continuable>
  bytes: number
}

export class ContinuationMemory {
  private readonly organizations = new Map<string, Kept>()

  /** `bytesMax`: for each organization, at the moment. */
  constructor(private readonly bytesMax: () => number) {}

  /** Bytes of all conversations. */
  get bytes(): number {
    let sum = 0
    for (const { bytes } of this.organizations.values()) sum += bytes
    return sum
  }

  /** Forgets older ones of the organization until there is room: this one itself if it alone is too large. */
  keep(organization: string, conversation: Continuable): void {
    let kept = this.organizations.get(organization)
    if (kept === undefined) {
      kept = { conversations: new Set(), bytes: 0 }
      this.organizations.set(organization, kept)
    }
    kept.conversations.add(conversation)
    kept.bytes += conversation.bytes
    const bytesMax = this.bytesMax()
    for (const oldest of kept.conversations) {
      if (kept.bytes <= bytesMax) return
      oldest.forget()
      this.drop(organization, oldest)
    }
  }

  /** It was continued: now it is the newest. */
  used(organization: string, conversation: Continuable): void {
    const conversations = this.organizations.get(organization)?.conversations
    if (conversations?.delete(conversation)) conversations.add(conversation)
  }

  /** Its connection no longer has it. */
  drop(organization: string, conversation: Continuable): void {
    const kept = this.organizations.get(organization)
    if (!kept?.conversations.delete(conversation)) return
    kept.bytes -= conversation.bytes
    if (kept.conversations.size === 0) this.organizations.delete(organization)
  }
}
