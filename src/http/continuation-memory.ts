/**
 * Memory for the conversations that sockets keep, counted for each organization in this worker. Clients send everything
 * when theirs is gone, so what is kept may be forgotten at any time: the oldest first.
 */

import type { KeptInput } from './continued-body.ts'

/** A response that may be continued on its connection. */
export interface Continuable {
  readonly id: string
  readonly input: KeptInput
  /** Its output in JSON, items joined by commas. */
  readonly output: string
  /** Without what a provider was sent of it, which only saves time. */
  readonly bytes: number
  /** Takes it from its connection. */
  readonly forget: () => void
}

/** What a conversation takes besides its texts. */
const OVERHEAD_BYTES = 1024

export function continuableBytes({ bytes, read }: KeptInput, output: string): number {
  const entryBytes = read?.state.order.entries.byteLength ?? 0
  return bytes.size + entryBytes + Buffer.byteLength(output) + OVERHEAD_BYTES
}

interface Kept {
  /** In the order of their last use, and what a provider was sent of each. */
  readonly conversations: Map<Continuable, number>
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

  /**
   * Forgets older ones of the organization until there is room: first what providers were sent, then the conversations,
   * this one itself if it alone is too large.
   */
  keep(organization: string, conversation: Continuable): void {
    const kept = this.organizations.getOrInsertComputed(organization, () => ({ conversations: new Map(), bytes: 0 }))
    kept.conversations.set(conversation, 0)
    kept.bytes += conversation.bytes
    this.measure(organization, conversation)
    const bytesMax = this.bytesMax()
    for (const [oldest, sent] of kept.conversations) {
      if (kept.bytes <= bytesMax) return
      if (sent === 0) continue
      oldest.input.read?.sent?.drop()
      this.measure(organization, oldest)
    }
    for (const oldest of kept.conversations.keys()) {
      if (kept.bytes <= bytesMax) return
      oldest.forget()
      this.drop(organization, oldest)
    }
  }

  /** It was continued: now it is the newest. */
  used(organization: string, conversation: Continuable): void {
    const conversations = this.organizations.get(organization)?.conversations
    const sent = conversations?.get(conversation)
    if (sent === undefined) return
    conversations?.delete(conversation)
    conversations?.set(conversation, sent)
  }

  /** More of it may have been sent since: what all turns share that continue it is written by the first of them. */
  measure(organization: string, conversation: Continuable): void {
    const kept = this.organizations.get(organization)
    const before = kept?.conversations.get(conversation)
    if (kept === undefined || before === undefined) return
    const sent = conversation.input.read?.sent?.memoryBytes ?? 0
    kept.conversations.set(conversation, sent)
    kept.bytes += sent - before
  }

  /** Its connection no longer has it. */
  drop(organization: string, conversation: Continuable): void {
    const kept = this.organizations.get(organization)
    const sent = kept?.conversations.get(conversation)
    if (kept === undefined || sent === undefined) return
    kept.conversations.delete(conversation)
    kept.bytes -= conversation.bytes + sent
    if (kept.conversations.size === 0) this.organizations.delete(organization)
  }
}
