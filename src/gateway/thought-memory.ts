/** The thoughts of models between two requests: which targets have any, what is looked up, and what is kept. */

import type { Conversation } from '../core/conversation.ts'
import { type Later, laterOf } from '../core/later.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Issuer, MarksQuestion, ThoughtStore } from '../core/thoughts.ts'
import { nextStanding, RecalledThoughts, recordOf } from './recalled-thoughts.ts'
import { type KeptThoughts, ThoughtKeeper } from './thought-keeper.ts'

/** Pairs of organisation and target that have marks of their own; two with one mark are only looked up in vain. */
export const MARKS = 65_536
/** Organisations of a target whose places are kept. */
const PLACES_MAX = 4096

/**
 * Which targets have thought for which organisations: a byte each, which all workers of a machine share, so that each
 * knows at once what another has kept. It outlives the configuration.
 */
export class ThinkingTargets {
  /** The places of pairs that were asked for; hashing them for each request would cost more than all else here. */
  private readonly places = new WeakMap<TargetRef, Map<string, number>>()

  constructor(private readonly marks: Uint8Array = new Uint8Array(MARKS)) {}

  /**
   * Whether thoughts should be looked up. A look-up leaves this process, so the conversations of models that do not
   * think, such as most of Claude's, do without.
   */
  mayThink(organization: string, target: TargetRef): boolean {
    return this.marks[this.placeOf(organization, target)] !== 0
  }

  /** Returns its mark. */
  thinks(organization: string, target: TargetRef): number {
    const mark = this.placeOf(organization, target)
    this.add(mark)
    return mark
  }

  add(mark: number): void {
    this.marks[mark] = 1
  }

  private placeOf(organization: string, target: TargetRef): number {
    const places = this.places.getOrInsertComputed(target, noPlaces)
    const known = places.get(organization)
    if (known !== undefined) return known
    if (places.size >= PLACES_MAX) places.clear()
    const place = markOf(organization, target)
    places.set(organization, place)
    return place
  }
}

function noPlaces(): Map<string, number> {
  return new Map()
}

function markOf(organization: string, { provider, model }: TargetRef): number {
  return Number(Bun.hash.wyhash(`${organization}/${provider}/${model}`) % BigInt(MARKS))
}

/** One for each configuration. */
export class ThoughtMemory {
  constructor(
    private readonly store: ThoughtStore,
    private readonly targets: ThinkingTargets,
  ) {}

  /**
   * What one of these targets may have had of thoughts in the answers of a history; undefined if it has no answers, or
   * none of the targets is known to think. Never rejects.
   */
  recall(
    organization: string,
    targets: readonly TargetRef[],
    conversation: Conversation,
  ): RecalledThoughts | Later<RecalledThoughts | undefined> | undefined {
    if (targets.length === 0) return undefined
    const find = () => RecalledThoughts.find(this.store, organization, conversation)
    if (targets.some((target) => this.targets.mayThink(organization, target))) return find()
    const question = this.store.marks?.((mark) => this.targets.add(mark))
    return question && laterOf(findUnmarked(question, find))
  }

  /**
   * Keeps the thoughts of the next answer to a conversation, which it holds until `leaveRequest`. Where the answer will
   * stand takes 1 µs to find, and most answers have no thoughts: a stream that came whole never needs it.
   */
  keeper(organization: string, conversation: Conversation, target: TargetRef, issuer: Issuer): ThoughtKeeper {
    const place = new AnswerPlace(conversation)
    const keep = (kept: KeptThoughts) => {
      const { key, text } = recordOf(issuer, place.standing, kept)
      this.store.put(organization, key, text)
      const mark = this.targets.thinks(organization, target)
      this.store.mark?.(mark)
    }
    return new ThoughtKeeper(issuer.form, keep, this.targets.mayThink(organization, target), place)
  }
}

/**
 * No target has a mark, but another machine may have set one just now. A look-up that goes out with the question waits
 * for one reply, as with a mark.
 */
async function findUnmarked(
  { isFirst, areNew }: MarksQuestion,
  find: () => RecalledThoughts | Later<RecalledThoughts> | undefined,
): Promise<RecalledThoughts | undefined> {
  if (isFirst && !(await areNew)) return undefined
  const recalled = await find()
  return recalled?.isEmpty === true ? undefined : recalled
}

/** Where the answer to a conversation will stand. */
class AnswerPlace {
  private found: ReturnType<typeof nextStanding> | undefined
  private conversation: Conversation | undefined

  constructor(conversation: Conversation) {
    this.conversation = conversation
  }

  get standing(): ReturnType<typeof nextStanding> {
    if (this.found === undefined) {
      if (this.conversation === undefined) throw new Error('an answer to no conversation')
      this.found = nextStanding(this.conversation)
    }
    return this.found
  }

  /** The request is dropped: what the place depends on is read for the last time. */
  leaveRequest(): void {
    this.found = this.standing
    this.conversation = undefined
  }
}
