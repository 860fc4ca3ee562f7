/**
 * Which targets are resting, and until when: one circuit breaker a target. Pure: it has no timer and is told the time; it never asks a
 * provider anything.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'

/** decisions.md 2. */
const FAILURES_IN_A_ROW = 3
const LAST = 20
const REST_MS_MIN = 1000
const REST_MS_MAX = 30_000
/** However long a 429 asks for. */
const ASKED_MS_MAX = 60_000
/** Other workers leave a target alone for so long while one of them probes it: should that one die, they go on. */
const PROBE_MS = 5000

/** What a caller did wrong says nothing about the target. */
const CALLERS_MISTAKES: ReadonlySet<ProviderErrorKind> = new Set(['rejected', 'too_large'])

/** A target that is not well, as it is told to other processes: a duration, because their clocks differ. */
export interface Rest {
  readonly provider: string
  readonly model: string
  /** How much longer it rests. 0: the rest is over, and it has not succeeded since. */
  readonly restMs: number
  /** Rests without a success in between. 0: it is well again. */
  readonly rests: number
  /** True where the provider said itself how long: then it is not asked before, whatever happens. */
  readonly asked: boolean
  /** The last failure. */
  readonly reason: ProviderErrorKind
  /** One request is finding out whether it is well. */
  readonly probing: boolean
}

interface Health {
  readonly target: TargetRef
  /** Failures since the last success. */
  row: number
  /** The newest outcomes as bits, the newest lowest: 1 = failed. */
  recent: number
  /** How many of them there are, up to `LAST`. */
  seen: number
  rests: number
  untilMs: number
  asked: boolean
  reason: ProviderErrorKind
  probing: boolean
  /** Another worker was finding out when it was last heard of. */
  probedElsewhere: boolean
  /** This one is asking whether it may. */
  claiming: boolean
  /** Counts the rests: what was begun before one says nothing of what came after it. */
  generation: number
}

/** Leave to make one request to a target; whoever holds it says how the request ended, or lets go of it. */
export interface Permit {
  /** The target answers. A stream may still fail afterwards. */
  succeeded(): void
  /** The target failed; a caller's mistake only ends a probe. True where a rest begins with it. */
  failed(fault: ProviderError): boolean
  /** Nothing is known of the target: the caller left, or the time of the request was up. Without effect after the others. */
  release(): void
}

export class Breaker {
  private readonly healths = new Map<string, Health>()

  constructor(
    /** Monotonic milliseconds. */
    private readonly now: () => number = () => performance.now(),
    /** Takes every change that other workers should know of. */
    private readonly tell: (rest: Rest) => void = () => {},
    /** Where there are other workers: whether this one may find out about a target whose rest is over. One at a time may. */
    private readonly claim?: (target: TargetRef) => Promise<boolean>,
  ) {}

  /**
   * Leave to ask the target, or undefined where it rests or is being probed. The first that gets leave after a rest is the probe; where
   * there are other workers, `enterByClaim` is to be asked for that.
   */
  enter(target: TargetRef): Permit | undefined {
    const health = this.of(target)
    if (health.rests === 0) return this.permit(health, false)
    return this.claim === undefined && this.mayProbe(health) ? this.probe(health) : undefined
  }

  /** Leave to be the probe of a target that `enter` gave none for, if this worker is the one that may. */
  async enterByClaim(target: TargetRef): Promise<Permit | undefined> {
    const health = this.of(target)
    if (this.claim === undefined || !this.mayProbe(health)) return undefined
    health.claiming = true
    const granted = await this.claim(health.target)
    health.claiming = false
    // Another worker may have found out meanwhile.
    if (health.rests === 0) return this.permit(health, false)
    return granted && this.mayProbe(health) ? this.probe(health) : undefined
  }

  /** Leave in spite of a rest, where there is no other target to ask. */
  enterAnyway(target: TargetRef): Permit {
    return this.enter(target) ?? this.permit(this.of(target), false)
  }

  /** True where it neither rests nor has yet to prove itself. */
  isWell(target: TargetRef): boolean {
    const health = this.healths.get(targetKey(target))
    return health === undefined || health.rests === 0
  }

  /** The rest of a target that is not well. */
  restOf(target: TargetRef): Rest | undefined {
    const health = this.healths.get(targetKey(target))
    return health === undefined || health.rests === 0 ? undefined : this.restOfHealth(health)
  }

  /** Every target that is not well. */
  rests(): readonly Rest[] {
    return [...this.healths.values()].filter(({ rests }) => rests > 0).map((health) => this.restOfHealth(health))
  }

  /** Forgets the targets that do not remain in a new configuration. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.healths) if (!remains(target)) this.healths.delete(key)
  }

  /** Takes over what another worker found out. The newest word counts. */
  hear(rest: Rest): void {
    if (rest.rests === 0 && this.isWell(rest)) return
    const health = this.of(rest)
    if (rest.rests === 0) return this.recover(health)
    // Two workers probe at the same time: each minds its own.
    if (rest.probing && health.probing) return
    health.rests = rest.rests
    health.untilMs = this.now() + rest.restMs
    health.asked = rest.asked
    health.reason = rest.reason
    health.probedElsewhere = rest.probing
    if (rest.probing || rest.restMs === 0) return
    health.probing = false
    health.generation++
  }

  private mayProbe({ probing, claiming, untilMs }: Health): boolean {
    return !probing && !claiming && this.now() >= untilMs
  }

  private probe(health: Health): Permit {
    health.probing = true
    this.tell(this.restOfHealth(health, PROBE_MS))
    return this.permit(health, true)
  }

  private permit(health: Health, probe: boolean): Permit {
    const { generation } = health
    let open = true
    const release = () => {
      if (!open) return
      open = false
      if (!probe || health.generation !== generation || !health.probing) return
      health.probing = false
      this.tell(this.restOfHealth(health))
    }
    return {
      succeeded: () => {
        open = false
        if (health.generation === generation) this.succeed(health)
      },
      failed: (fault) => {
        if (CALLERS_MISTAKES.has(fault.kind)) {
          release()
          return false
        }
        open = false
        const current = health.generation === generation
        if (probe && current) health.probing = false
        return this.fail(health, fault, current)
      },
      release,
    }
  }

  private succeed(health: Health): void {
    health.row = 0
    if (health.rests === 0) return record(health, 0)
    this.recover(health)
    this.tell(this.restOfHealth(health))
  }

  private recover(health: Health): void {
    health.rests = 0
    health.untilMs = 0
    health.asked = false
    health.probing = false
    health.probedElsewhere = false
    forget(health)
  }

  /** `current`: it was begun since the last rest. What failed of older requests is what the rest is for already. */
  private fail(health: Health, { kind, detail }: ProviderError, current: boolean): boolean {
    const askedMs = kind === 'rate_limited' ? Math.min(detail.retryAfterMs ?? 0, ASKED_MS_MAX) : 0
    const restMs = Math.max(askedMs, current ? this.earnedMs(health, kind) : 0)
    if (restMs === 0 || restMs <= health.untilMs - this.now()) return false
    health.reason = kind
    health.asked = askedMs > 0
    health.untilMs = this.now() + restMs
    health.rests++
    health.probing = false
    health.probedElsewhere = false
    health.generation++
    forget(health)
    this.tell(this.restOfHealth(health))
    return true
  }

  /** How long a target rests for one more failure; 0 where it need not. */
  private earnedMs(health: Health, kind: ProviderErrorKind): number {
    const growing = Math.min(REST_MS_MIN * 2 ** health.rests, REST_MS_MAX)
    // Asked in spite of its rest, because there was no other: that it failed is no news.
    if (this.now() < health.untilMs) return 0
    record(health, 1)
    health.row++
    // Nobody but the operator can mend this.
    if (kind === 'credential') return REST_MS_MAX
    const half = health.seen === LAST && 2 * failures(health) >= LAST
    return health.rests > 0 || health.row >= FAILURES_IN_A_ROW || half ? growing : 0
  }

  private of({ provider, model }: TargetRef): Health {
    const key = targetKey({ provider, model })
    let health = this.healths.get(key)
    if (health === undefined) {
      health = { ...FRESH, target: { provider, model } }
      this.healths.set(key, health)
    }
    return health
  }

  private restOfHealth(health: Health, restMs = Math.max(0, health.untilMs - this.now())): Rest {
    const { target, rests, asked, reason } = health
    const probing = health.probing || (health.probedElsewhere && restMs > 0)
    return { provider: target.provider, model: target.model, restMs: Math.ceil(restMs), rests, asked, reason, probing }
  }
}

const FRESH = {
  row: 0,
  recent: 0,
  seen: 0,
  rests: 0,
  untilMs: 0,
  asked: false,
  reason: 'failed',
  probing: false,
  probedElsewhere: false,
  claiming: false,
  generation: 0,
} as const satisfies Omit<Health, 'target'>

function record(health: Health, failed: 0 | 1): void {
  health.recent = ((health.recent << 1) | failed) & ((1 << LAST) - 1)
  health.seen = Math.min(health.seen + 1, LAST)
}

function forget(health: Health): void {
  health.row = 0
  health.recent = 0
  health.seen = 0
}

function failures({ recent }: Health): number {
  let count = 0
  for (let bits = recent; bits !== 0; bits &= bits - 1) count++
  return count
}
