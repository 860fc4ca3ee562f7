/**
 * Which target a conversation was last served by, if that was not the first of its model: its turns stay there while
 * the provider's prompt cache is warm. It stores a hash, and nothing of what was written.
 */

import { createHash } from 'node:crypto'
import type { Candidate } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { type Entries, NO_MESSAGES } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { TargetRef } from '../core/model-config.ts'
import { NO_TOOLS } from '../core/tool-list.ts'
import type { Breaker } from './breaker.ts'

/** Providers drop a cached prefix that was not used for this long, unless they were asked to keep it longer. */
const WARM_MS = 300_000
/**
 * About 2 MB. Beyond it the conversation without a turn for the longest is dropped; it starts at the first target
 * again.
 */
const PLACES_MAX = 10_000
/** Characters of each text that are hashed: conversations differ at their beginning, and a body may have 10 MiB. */
const HASHED_CHARS = 16_384
/** Texts that are hashed: a system message may have 60,000. */
const HASHED_TEXTS_MAX = 4096

/** Where a conversation stays, as other workers receive it. Without a target: it follows the configured order again. */
export interface Place {
  readonly conversation: string
  readonly target: TargetRef | undefined
}

interface StoredPlace {
  readonly target: TargetRef
  readonly atMs: number
  /** When the other workers last received it: they drop it after the same time. */
  readonly sentMs: number
}

export class Affinity {
  /** In the order of their last turn. */
  private readonly places = new Map<string, StoredPlace>()

  constructor(
    /** Monotonic milliseconds. */
    private readonly now: () => number = () => performance.now(),
    /** Receives every change that other workers should know. */
    private readonly send: (place: Place) => void = () => {},
  ) {}

  /** How many conversations are stored. */
  get size(): number {
    return this.places.size
  }

  /**
   * The candidates, with the conversation's target before the other targets of its model, which are equal to it, or the
   * one that has thought (`hasThought`) for the last answer. Models keep their order. If the target is not healthy, the
   * conversation returns to the configured order for good.
   */
  order(
    candidates: readonly Candidate[],
    conversation: ConversationKey,
    breaker: Pick<Breaker, 'isHealthy'>,
    hasThought?: (candidate: Candidate) => boolean,
  ): readonly Candidate[] {
    if ((this.places.size === 0 && hasThought === undefined) || !conversation.continues) return candidates
    return this.ordered(candidates, conversation, breaker, hasThought)
  }

  private ordered(
    candidates: readonly Candidate[],
    conversation: ConversationKey,
    breaker: Pick<Breaker, 'isHealthy'>,
    hasThought: ((candidate: Candidate) => boolean) | undefined,
  ): readonly Candidate[] {
    const byModel = Map.groupBy(candidates, ({ model }) => model.name)
    return [...byModel.values()].flatMap((group) => {
      const [first] = group
      // With `spread: weighted` the conversation itself decides the order (`spread.ts`).
      if (first === undefined || group.length === 1 || first.model.weights !== undefined) return group
      const thinker = hasThought && group.find(hasThought)
      if (thinker !== undefined && breaker.isHealthy(thinker.target)) return withFirst(thinker, group)
      const key = conversation.of(first.model.name)
      const target = this.placeOf(key)
      const kept = group.find((candidate) => same(candidate.target, target))
      if (kept === undefined) return group
      if (breaker.isHealthy(kept.target)) return withFirst(kept, group)
      this.leave(key)
      return group
    })
  }

  /** A candidate answered. Stored only if the configured order does not lead there anyway. */
  served({ model, target }: Candidate, conversation: ConversationKey): void {
    if (model.weights !== undefined) return
    if (same(model.targets[0], target)) {
      if (this.places.size > 0 && model.targets.length > 1) this.leave(conversation.of(model.name))
      return
    }
    const key = conversation.of(model.name)
    const { target: before, sentMs } = this.places.get(key) ?? {}
    const isKnown = same(before, target) && sentMs !== undefined && this.now() - sentMs < WARM_MS / 5
    this.put(key, target, isKnown ? sentMs : this.now())
    if (!isKnown) this.send({ conversation: key, target })
  }

  /** Takes over a change from another worker. */
  receive({ conversation, target }: Place): void {
    if (target === undefined) this.places.delete(conversation)
    else this.put(conversation, target, this.now())
  }

  private placeOf(key: string): TargetRef | undefined {
    const place = this.places.get(key)
    if (place === undefined || this.now() - place.atMs < WARM_MS) return place?.target
    this.places.delete(key)
    return undefined
  }

  private put(key: string, target: TargetRef, sentMs: number): void {
    this.places.delete(key)
    this.places.set(key, { target, atMs: this.now(), sentMs })
    if (this.places.size <= PLACES_MAX) return
    for (const oldest of this.places.keys()) {
      this.places.delete(oldest)
      return
    }
  }

  private leave(key: string): void {
    if (this.places.delete(key)) this.send({ conversation: key, target: undefined })
  }
}

/** What of a request may distinguish its conversation from others. */
type Beginning = Pick<ChatRequest, 'hints' | 'conversation' | 'tools'>

/** What distinguishes one conversation from another. Hashed when first needed, because most requests never need it. */
export class ConversationKey {
  private prefix: string | undefined

  constructor(
    private readonly organization: string,
    private readonly request: Beginning,
  ) {}

  /** The one whose requests have this `prompt_cache_key`. */
  static withCacheKey(organization: string, promptCacheKey: string): ConversationKey {
    return new ConversationKey(organization, {
      hints: { promptCacheKey },
      conversation: NO_MESSAGES,
      tools: NO_TOOLS,
    })
  }

  /**
   * True if part of it may be in a provider's cache: the model has answered before, or the caller sends a cache key.
   */
  get continues(): boolean {
    return this.request.hints.promptCacheKey !== undefined || this.request.conversation.has(Kind.ASSISTANT)
  }

  /** The key of the conversation with one model: each model has a cache of its own. */
  of(model: string): string {
    this.prefix ??= prefixOf(this.organization, this.request)
    return `${this.prefix}/${model}`
  }
}

/**
 * The caller's own `prompt_cache_key`, else what stays the same from turn to turn: system texts, tools, the first user
 * message.
 */
function prefixOf(organization: string, { hints, ...request }: Beginning): string {
  const hash = createHash('sha256')
  // With its length, so that two different lists of texts never hash the same.
  const add = (text: string) => hash.update(`${text.length}:${text.slice(0, HASHED_CHARS)}`)
  add(organization)
  if (hints.promptCacheKey !== undefined) add(hints.promptCacheKey)
  else addBeginning(request, add)
  return hash.digest('base64url')
}

/** Names and descriptions of tools, and the messages of the system up to the first one of the user. */
function addBeginning(request: Omit<Beginning, 'hints'>, add: (text: string) => void): void {
  let texts = 0
  const addSpan = (list: Entries, entry: number) => {
    const from = list.fromAt(entry)
    const to = list.toAt(entry)
    add(`${to - from}:${list.arena.writtenAt(from, Math.min(to, from + HASHED_CHARS))}`)
    return ++texts < HASHED_TEXTS_MAX
  }
  const tools = request.tools
  for (let entry = 0; entry < tools.end; entry = tools.next(entry))
    if (tools.kindAt(entry) <= Kind.NAME && !addSpan(tools, entry)) return
  const conversation = request.conversation
  let role = Kind.SYSTEM
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    const kind = conversation.kindAt(entry)
    if (kind <= Kind.TOOL) {
      if (role === Kind.USER) return
      role = kind
      add(`${kind}`)
    } else if ((role === Kind.SYSTEM || role === Kind.USER) && !addSpan(conversation, entry)) return
  }
}

function withFirst(first: Candidate, group: readonly Candidate[]): readonly Candidate[] {
  return [first, ...group.filter((candidate) => candidate !== first)]
}

function same(one: TargetRef | undefined, other: TargetRef | undefined): boolean {
  return one !== undefined && one.provider === other?.provider && one.model === other.model
}
