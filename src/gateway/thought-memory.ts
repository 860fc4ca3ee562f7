/** The thoughts of models between two requests: which targets have any, what is looked up, and what is kept. */

import { createHash } from 'node:crypto'
import type { Conversation } from '../core/conversation.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { ThoughtForm, ThoughtStore } from '../core/thoughts.ts'
import { type Issuer, nextStanding, RecalledThoughts, recordOf } from './recalled-thoughts.ts'
import { ThoughtKeeper } from './thought-keeper.ts'

/** How long a target counts as one that has thoughts after it was first asked for any. */
const UNKNOWN_MS = 60_000
/** How often one whose answers had no thoughts is asked for some again: others may have had some. */
const AGAIN_MS = 10_000

interface KnownTarget {
  readonly target: TargetRef
  readonly sinceMs: number
  /** Its answers, or histories of it, had thoughts. */
  thinks: boolean
  askedMs: number
}

/** Which targets have thoughts, as far as this worker knows. It outlives the configuration. */
export class ThinkingTargets {
  private readonly targets = new Map<string, KnownTarget>()

  /** `now`: monotonic milliseconds. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /**
   * Whether its thoughts should be looked up. A look-up leaves this process, so the conversations of models without
   * thoughts, such as most of Claude's, do without, but for one from time to time.
   */
  mayThink(target: TargetRef): boolean {
    const nowMs = this.now()
    const known = this.known(target, nowMs)
    if (known.thinks || nowMs - known.sinceMs < UNKNOWN_MS) return true
    if (nowMs - known.askedMs < AGAIN_MS) return false
    known.askedMs = nowMs
    return true
  }

  thinks(target: TargetRef): void {
    this.known(target, this.now()).thinks = true
  }

  /** Forgets the targets that a new configuration does not have. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.targets) if (!remains(target)) this.targets.delete(key)
  }

  private known(target: TargetRef, nowMs: number): KnownTarget {
    const key = targetKey(target)
    let known = this.targets.get(key)
    if (known === undefined) {
      const { provider, model } = target
      known = { target: { provider, model }, sinceMs: nowMs, thinks: false, askedMs: nowMs }
      this.targets.set(key, known)
    }
    return known
  }
}

/** One for each configuration. */
export class ThoughtMemory {
  private readonly credentials = new WeakMap<Endpoint, string>()

  constructor(
    private readonly store: ThoughtStore,
    private readonly targets: ThinkingTargets,
  ) {}

  mayThink(target: TargetRef): boolean {
    return this.targets.mayThink(target)
  }

  /** What was kept of the answers of a history; undefined if it has none. Never rejects. */
  recall(organization: string, conversation: Conversation) {
    return RecalledThoughts.find(this.store, organization, conversation)
  }

  /** What was found belongs to these targets. */
  found(target: TargetRef): void {
    this.targets.thinks(target)
  }

  issuer(endpoint: Endpoint, model: string, form: ThoughtForm): Issuer {
    return { id: `${endpoint.name}/${this.credential(endpoint)}/${model}`, form }
  }

  /** Keeps the thoughts of the next answer to a conversation. */
  keeper(organization: string, conversation: Conversation, target: TargetRef, issuer: Issuer): ThoughtKeeper {
    const standing = nextStanding(conversation)
    return new ThoughtKeeper(issuer.form, (kept) => {
      const { key, text } = recordOf(issuer, standing, kept)
      this.store.put(organization, key, text)
      this.targets.thinks(target)
    })
  }

  /** A digest of what the provider knows the operator by: with another credential it cannot read its own thoughts. */
  private credential(endpoint: Endpoint): string {
    let digest = this.credentials.get(endpoint)
    if (digest === undefined) {
      const { apiKey, aws, project, identity } = endpoint
      const known = JSON.stringify([apiKey, aws?.region, aws?.keys?.accessKeyId, project, identity])
      digest = createHash('sha256').update(known).digest('base64url').slice(0, DIGEST_CHARS)
      this.credentials.set(endpoint, digest)
    }
    return digest
  }
}

const DIGEST_CHARS = 16
