/**
 * A key whose secret is replaced again and again while faults are injected: in the grace both secrets work, and a
 * second after it the old one does not.
 */

import type { Random } from '../../test/support/random.ts'
import type { Injected } from './faults.ts'
import type { Gateway } from './gateway.ts'
import type { Report } from './report.ts'

const ID = 'rotated'
const GRACE_MS = 5000
/** Every gateway rejects an old secret so long after the grace. */
const STOPS_MS = 1000
/** How long the old secret is tried after that. */
const AFTER_MS = 1000
const PAUSE_MS = { first: 1000, last: 6000 }
const PROBE_MS = 250
const PROBE_TIMEOUT_MS = 3000
/** How long gateways take to give a rotation back to a Redis that has lost it. */
const GIVEN_BACK_MS = 3000

interface Rotation {
  /** When the command began and ended, in `performance.now` milliseconds. */
  readonly fromMs: number
  readonly untilMs: number
  /** The one that made the secret that this one replaced; undefined: the key was created with it. */
  readonly before: Rotation | undefined
}

interface Probe {
  readonly rotation: Rotation
  readonly secret: 'old' | 'new'
  readonly port: number
  readonly fromMs: number
  readonly untilMs: number
  readonly isAccepted: boolean
}

export class RotatedKey {
  private readonly probes: Probe[] = []
  private rotations = 0
  /** That of `secret`. */
  private last: Rotation | undefined

  private constructor(
    private readonly gateways: readonly Gateway[],
    /** Undefined after a command that failed: it may have replaced the secret. */
    private secret: string | undefined,
    private readonly random: Random,
  ) {}

  /** Creates the key. */
  static async create(gateways: readonly Gateway[], organization: string, random: Random): Promise<RotatedKey> {
    const secret = await gateways[0]?.run('keys', 'create', '--org', organization, '--id', ID)
    return new RotatedKey(gateways, secret, random)
  }

  /** Replaces the secret until `untilMs`. */
  async changeUntil(untilMs: number): Promise<void> {
    while (performance.now() < untilMs) {
      await Bun.sleep(this.random.between(PAUSE_MS.first, PAUSE_MS.last))
      await this.rotate()
    }
  }

  private async rotate(): Promise<void> {
    const old = this.secret
    const fromMs = performance.now()
    try {
      this.secret = await this.gateways[0]?.run('keys', 'rotate', '--id', ID, '--grace', `${GRACE_MS / 1000}s`)
    } catch {
      // Redis is down, or has not got back what it lost.
      this.secret = undefined
      return
    }
    const rotation: Rotation = { fromMs, untilMs: performance.now(), before: this.last }
    this.last = rotation
    this.rotations++
    const endMs = rotation.untilMs + GRACE_MS + STOPS_MS + AFTER_MS
    while (performance.now() < endMs) {
      const asked = this.gateways.flatMap(({ port }) => [
        this.probe(rotation, port, 'new', this.secret),
        this.probe(rotation, port, 'old', old),
      ])
      await Promise.all([...asked, Bun.sleep(PROBE_MS)])
    }
  }

  /** Nothing is recorded if there is no answer: the gateway is down. */
  private async probe(rotation: Rotation, port: number, secret: Probe['secret'], text?: string): Promise<void> {
    if (text === undefined) return
    const fromMs = performance.now()
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/v1/models`, {
        headers: { authorization: `Bearer ${text}` },
        signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
      })
      await answer.body?.cancel()
      const isAccepted = answer.status === 200
      if (!isAccepted && answer.status !== 401) return
      this.probes.push({ rotation, secret, port, fromMs, untilMs: performance.now(), isAccepted })
    } catch {
      // The connection failed.
    }
  }

  /** `faults`: all that were injected. */
  check(report: Report, faults: readonly Injected[]): void {
    const judged = this.probes.filter((probe) => !mayBeLost(probe, faults))
    const isPaused = ({ rotation, untilMs }: Probe) => overlapping(faults, rotation.fromMs, untilMs).length > 0
    // A gateway that does not run, or is frozen, when the command ends hears of the rotation a moment later.
    const fresh = judged.filter((probe) => probe.secret === 'new' && (probe.isAccepted || !isPaused(probe)))
    const old = judged.filter(({ secret }) => secret === 'old')
    // The grace begins during the command.
    const within = old.filter(({ rotation, untilMs }) => untilMs <= rotation.fromMs + GRACE_MS)
    const after = old.filter(({ rotation, fromMs }) => fromMs >= rotation.untilMs + GRACE_MS + STOPS_MS)
    const wrong = {
      new: fresh.filter(({ isAccepted }) => !isAccepted),
      within: within.filter(({ isAccepted }) => !isAccepted),
      after: after.filter(({ isAccepted }) => isAccepted),
    }
    const all = [...wrong.new, ...wrong.within, ...wrong.after]
    report.check(
      [
        `${this.rotations} rotations of a key: new secret ${fresh.length} times, rejected ${wrong.new.length}`,
        `old one in the grace ${within.length} times, rejected ${wrong.within.length}`,
        `a second after it ${after.length} times, accepted ${wrong.after.length}`,
        `${this.probes.length - judged.length} more after Redis lost writes`,
      ].join('; '),
      this.rotations > 0 && all.length === 0,
      all.map((probe) => shown(probe, faults)),
    )
  }
}

/** A probe, with the faults since the rotation before its own, in seconds after its own began. */
function shown({ rotation, secret, port, fromMs, untilMs, isAccepted }: Probe, faults: readonly Injected[]): string {
  const at = (ms: number) => ((ms - rotation.fromMs) / 1000).toFixed(1)
  const names = overlapping(faults, (rotation.before ?? rotation).fromMs, untilMs).map(
    (fault) => `${fault.name} ${at(fault.fromMs)} to ${at(fault.untilMs)}`,
  )
  const what = `${secret} secret ${isAccepted ? 'accepted' : 'rejected'} at port ${port}`
  return `${what}, ${at(fromMs)} to ${at(untilMs)}; rotated 0.0 to ${at(rotation.untilMs)}; ${names.join(', ')}`
}

function overlapping(faults: readonly Injected[], fromMs: number, untilMs: number): readonly Injected[] {
  return faults.filter((fault) => fault.fromMs <= untilMs && fault.untilMs >= fromMs)
}

/**
 * Whether Redis may have no record of the rotation at the time of a probe, or had none of the one before it when this
 * one began: then it replaced the secret before that, and the old one is unknown.
 */
function mayBeLost({ rotation, secret, untilMs }: Probe, faults: readonly Injected[]): boolean {
  const { before } = rotation
  if (isLost(rotation, untilMs, faults)) return true
  return secret === 'old' && before !== undefined && isLost(before, rotation.untilMs, faults)
}

/** Redis has lost it by then, and a gateway that knows it has not given it back yet, or there is none. */
function isLost(rotation: Rotation, untilMs: number, faults: readonly Injected[]): boolean {
  return overlapping(faults, rotation.fromMs - GIVEN_BACK_MS, untilMs).some((setback) => {
    if (!setback.isSetback) return false
    const givenBackMs = setback.untilMs + GIVEN_BACK_MS
    const killed = overlapping(faults, setback.fromMs, givenBackMs).some(({ name }) => name.endsWith('killed'))
    return killed || setback.fromMs <= rotation.untilMs + STOPS_MS || untilMs <= givenBackMs
  })
}
