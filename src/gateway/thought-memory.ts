/** The thoughts of models between two requests: which targets have any, what is looked up, and what is kept. */

import { createHash } from 'node:crypto'
import type { Conversation } from '../core/conversation.ts'
import type { Endpoint } from '../core/endpoint.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Issuer, ThoughtForm, ThoughtStore } from '../core/thoughts.ts'
import { nextStanding, RecalledThoughts, recordOf } from './recalled-thoughts.ts'
import { ThoughtKeeper } from './thought-keeper.ts'

/** Look-ups for an organisation at a target that may find nothing before most are left out. */
const MISSES_MAX = 16
/** How often one is made all the same: an answer of another worker may have had thoughts. */
const AGAIN_MS = 10_000
/** Pairs of organisation and target that are known at a time. */
const KNOWN_MAX = 10_000

interface Known {
  readonly target: TargetRef
  /** Answers, or histories, had thoughts. */
  thinks: boolean
  misses: number
  askedMs: number
}

/** Which targets think for which organisations, as far as this worker knows. It outlives the configuration. */
export class ThinkingTargets {
  private readonly pairs = new Map<string, Known>()

  /** `now`: monotonic milliseconds. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /**
   * Whether thoughts should be looked up. A look-up leaves this process, so the conversations of models that do not
   * think, such as most of Claude's, do without, but for one from time to time.
   */
  mayThink(organization: string, target: TargetRef): boolean {
    const known = this.known(organization, target)
    const nowMs = this.now()
    if (!known.thinks && known.misses >= MISSES_MAX && nowMs - known.askedMs < AGAIN_MS) return false
    known.misses++
    known.askedMs = nowMs
    return true
  }

  thinks(organization: string, target: TargetRef): void {
    this.known(organization, target).thinks = true
  }

  /** Forgets the targets that a new configuration does not have. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.pairs) if (!remains(target)) this.pairs.delete(key)
  }

  private known(organization: string, { provider, model }: TargetRef): Known {
    const key = `${organization}/${provider}/${model}`
    let known = this.pairs.get(key)
    if (known !== undefined) return known
    // One that is forgotten is looked up again, as a new one is.
    if (this.pairs.size >= KNOWN_MAX) this.pairs.clear()
    known = { target: { provider, model }, thinks: false, misses: 0, askedMs: 0 }
    this.pairs.set(key, known)
    return known
  }
}

const credentials = new WeakMap<Endpoint, string>()

/** Who issues the thoughts of a model. */
export function issuerOf(endpoint: Endpoint, model: string, form: ThoughtForm): Issuer {
  return { id: `${endpoint.name}/${credentialOf(endpoint)}/${model}`, form }
}

/** A digest of what the provider knows the operator by: with another credential it cannot read its own thoughts. */
function credentialOf(endpoint: Endpoint): string {
  let digest = credentials.get(endpoint)
  if (digest === undefined) {
    const { apiKey, aws, project, identity } = endpoint
    const known = JSON.stringify([apiKey, aws?.region, aws?.keys?.accessKeyId, project, identity])
    digest = createHash('sha256').update(known).digest('base64url').slice(0, DIGEST_CHARS)
    credentials.set(endpoint, digest)
  }
  return digest
}

/** One for each configuration. */
export class ThoughtMemory {
  constructor(
    private readonly store: ThoughtStore,
    private readonly targets: ThinkingTargets,
  ) {}

  mayThink(organization: string, target: TargetRef): boolean {
    return this.targets.mayThink(organization, target)
  }

  /** What was kept of the answers of a history; undefined if it has none. Never rejects. */
  recall(organization: string, conversation: Conversation) {
    return RecalledThoughts.find(this.store, organization, conversation)
  }

  /** What was found belongs to these targets. */
  found(organization: string, target: TargetRef): void {
    this.targets.thinks(organization, target)
  }

  /** Keeps the thoughts of the next answer to a conversation. */
  keeper(organization: string, conversation: Conversation, target: TargetRef, issuer: Issuer): ThoughtKeeper {
    const standing = nextStanding(conversation)
    return new ThoughtKeeper(issuer.form, (kept) => {
      const { key, text } = recordOf(issuer, standing, kept)
      this.store.put(organization, key, text)
      this.targets.thinks(organization, target)
    })
  }
}

const DIGEST_CHARS = 16
