/**
 * Which target a conversation was last served by, where that was not the first of its model: its turns stay there while the provider's
 * prompt cache is warm. It remembers nothing of what was said, only a hash.
 */

import { createHash } from 'node:crypto'
import type { Candidate } from '../catalog/resolve.ts'
import type { ChatRequest, UserPart } from '../core/chat-request.ts'
import type { TargetRef } from '../core/model-config.ts'

/** Providers drop a prefix that was not used for so long, unless they were asked for more. */
const WARM_MS = 300_000
/** About 2 MB. Beyond it the conversation that has been silent for the longest is forgotten; it starts at the first target again. */
const PLACES_MAX = 10_000
/** Of each text so much is hashed: what tells conversations apart stands at the beginning, and a body may be 10 MiB. */
const HASHED_CHARS = 16_384
/** And of so many texts: a system message may be of 60,000. */
const HASHED_TEXTS_MAX = 4096

/** Where a conversation stays, as it is told to other workers. Without a provider: nowhere in particular any more. */
export interface Place {
  readonly conversation: string
  readonly target: TargetRef | undefined
}

interface Remembered {
  readonly target: TargetRef
  readonly atMs: number
  /** When the other workers last heard of it: they forget it, too. */
  readonly toldMs: number
}

export class Affinity {
  /** In the order of their last turn. */
  private readonly places = new Map<string, Remembered>()

  constructor(
    /** Monotonic milliseconds. */
    private readonly now: () => number = () => performance.now(),
    /** Takes every change that other workers should know of. */
    private readonly tell: (place: Place) => void = () => {},
  ) {}

  /** How many conversations are remembered. */
  get size(): number {
    return this.places.size
  }

  /**
   * The candidates with the conversation's target before the other targets of its model, which are equal to it. Models keep their order.
   * A target that is not well has lost its place: the conversation is back to the configured order for good.
   */
  order(
    candidates: readonly Candidate[],
    conversation: Conversation,
    isWell: (target: TargetRef) => boolean,
  ): readonly Candidate[] {
    if (this.places.size === 0 || !conversation.goesOn) return candidates
    return grouped(candidates).flatMap((group) => {
      const [first] = group
      if (first === undefined || group.length === 1) return group
      const key = conversation.of(first.model.name)
      const target = this.placeOf(key)
      const kept = group.find((candidate) => same(candidate.target, target))
      if (kept === undefined) return group
      if (isWell(kept.target)) return [kept, ...group.filter((candidate) => candidate !== kept)]
      this.leave(key)
      return group
    })
  }

  /** A candidate answered. Remembered only where the configured order would not lead there anyway. */
  served({ model, target }: Candidate, conversation: Conversation): void {
    if (same(model.targets[0], target)) {
      if (this.places.size > 0 && model.targets.length > 1) this.leave(conversation.of(model.name))
      return
    }
    const key = conversation.of(model.name)
    const { target: before, toldMs } = this.places.get(key) ?? {}
    const known = same(before, target) && toldMs !== undefined && this.now() - toldMs < WARM_MS / 5
    this.put(key, target, known ? toldMs : this.now())
    if (!known) this.tell({ conversation: key, target })
  }

  /** Takes over what another worker did. */
  hear({ conversation, target }: Place): void {
    if (target === undefined) this.places.delete(conversation)
    else this.put(conversation, target, this.now())
  }

  private placeOf(key: string): TargetRef | undefined {
    const place = this.places.get(key)
    if (place === undefined || this.now() - place.atMs < WARM_MS) return place?.target
    this.places.delete(key)
    return undefined
  }

  private put(key: string, target: TargetRef, toldMs: number): void {
    this.places.delete(key)
    this.places.set(key, { target, atMs: this.now(), toldMs })
    if (this.places.size <= PLACES_MAX) return
    for (const oldest of this.places.keys()) {
      this.places.delete(oldest)
      return
    }
  }

  private leave(key: string): void {
    if (this.places.delete(key)) this.tell({ conversation: key, target: undefined })
  }
}

/** What tells one conversation from another; hashed at the first look, because most requests never need it. */
export class Conversation {
  private prefix: string | undefined

  constructor(
    private readonly organization: string,
    private readonly request: ChatRequest,
  ) {}

  /** True where something of it may be in a cache: the model has answered before, or the caller says what to find it by. */
  get goesOn(): boolean {
    const { hints, messages } = this.request
    return hints.promptCacheKey !== undefined || messages.some(({ role }) => role === 'assistant')
  }

  /** The conversation with one model: another model's cache is another. */
  of(model: string): string {
    this.prefix ??= prefixOf(this.organization, this.request)
    return `${this.prefix}/${model}`
  }
}

/** The caller's own `prompt_cache_key`, else what stays the same from turn to turn: system texts, tools, the first user message. */
function prefixOf(organization: string, request: ChatRequest): string {
  const hash = createHash('sha256')
  let texts = 0
  for (const text of beginningOf(organization, request)) {
    if (++texts > HASHED_TEXTS_MAX) break
    // With its length, so that no two lists of texts look alike.
    hash.update(`${text.length}:${text.slice(0, HASHED_CHARS)}`)
  }
  return hash.digest('base64url')
}

function* beginningOf(organization: string, { hints, messages, tools }: ChatRequest): Iterable<string> {
  yield organization
  if (hints.promptCacheKey !== undefined) {
    yield hints.promptCacheKey
    return
  }
  for (const tool of tools) yield `${tool.name}\n${tool.description ?? ''}`
  for (const message of messages) {
    if (message.role !== 'system' && message.role !== 'user') continue
    yield message.role
    for (const part of message.parts) yield textOf(part)
    if (message.role === 'user') return
  }
}

function textOf(part: UserPart): string {
  if (part.type === 'text') return part.text
  if (part.type === 'image') return part.source.type === 'url' ? part.source.url : part.source.data
  return part.type
}

/** Candidates of one model stand together. */
function grouped(candidates: readonly Candidate[]): readonly (readonly Candidate[])[] {
  const groups = new Map<string, Candidate[]>()
  for (const candidate of candidates) {
    const group = groups.get(candidate.model.name)
    if (group === undefined) groups.set(candidate.model.name, [candidate])
    else group.push(candidate)
  }
  return [...groups.values()]
}

function same(one: TargetRef | undefined, other: TargetRef | undefined): boolean {
  return one !== undefined && one.provider === other?.provider && one.model === other.model
}
