/**
 * Keys that are created, rotated and revoked on all gateways while faults are injected, by commands and by the admin
 * API. What was reported as done must hold on every gateway from a second later on; what failed may or may not.
 */

import type { Random } from '../../test/support/random.ts'
import type { Injected } from './faults.ts'
import type { Gateway } from './gateway.ts'
import type { Report } from './report.ts'

/** When every gateway must have heard of a change that was reported as done. */
const KNOWN_MS = 1000
const PAUSE_MS = { first: 200, last: 2500 }
/** One key in so many is never revoked. */
const STAYS_ONE_IN = 4
/** Keys that change at the same time. */
const SIDE_BY_SIDE = 6
const PROBE_MS = 150
const PROBE_TIMEOUT_MS = 3000
/** Secrets in one round of probes: those of the last seconds, and some of the others. */
const RECENT_MS = 5000
const OTHERS_PROBED = 12
/** Rounds at the end in which every secret is tried. */
const LAST_ROUNDS = 3

type Change = 'create' | 'rotate' | 'revoke'

interface Secret {
  readonly id: string
  readonly text: string
  /** When it began or ended to be accepted, by the report of the command; in `performance.now` milliseconds. */
  sinceMs: number
  /** `changing`: a command about it runs or has failed. */
  state: 'accepted' | 'changing' | 'rejected'
  by: string
}

interface Probe {
  readonly secret: string
  readonly wanted: 'accepted' | 'rejected'
  readonly isAccepted: boolean
  readonly gateway: Gateway
  readonly fromMs: number
  readonly untilMs: number
  readonly what: string
}

export class KeyChanges {
  private readonly secrets: Secret[] = []
  private readonly probes: Probe[] = []
  /** How often each kind of change was reported as done, and failed with each message. */
  private readonly done = new Map<string, number>()
  private readonly failed = new Map<string, number>()
  /** Changes of keys that were reported as created and then did not exist. */
  private readonly gone: string[] = []
  private number = 0

  constructor(
    private readonly gateways: readonly Gateway[],
    private readonly organization: string,
    private readonly random: Random,
  ) {}

  /** Changes keys until `untilMs`, and tries all secrets until the last change is known everywhere. */
  async changeUntil(untilMs: number): Promise<void> {
    let isOver = false
    const changing = Promise.all(Array.from({ length: SIDE_BY_SIDE }, () => this.liveUntil(untilMs)))
    const probing = (async () => {
      while (!isOver) await Promise.all([this.probe(this.sample()), Bun.sleep(PROBE_MS)])
    })()
    await changing.finally(() => {
      isOver = true
    })
    await probing
    await Bun.sleep(KNOWN_MS)
    for (let i = 0; i < LAST_ROUNDS; i++) await this.probe(this.secrets)
  }

  /** The lives of keys, one after the other. */
  private async liveUntil(untilMs: number): Promise<void> {
    const { random } = this
    while (performance.now() < untilMs) {
      const id = `changed-${this.number++}`
      let secret = await this.create(id)
      for (let i = random.below(3); i > 0 && secret !== undefined && performance.now() < untilMs; i--) {
        await Bun.sleep(random.between(PAUSE_MS.first, PAUSE_MS.last))
        secret = await this.rotate(secret)
      }
      await Bun.sleep(random.between(PAUSE_MS.first, PAUSE_MS.last))
      if (random.below(STAYS_ONE_IN) === 0) continue
      // As an operator does who reads that a revocation may not be in force. A key without a revocation is not judged.
      while (!(await this.revoke(id)) && performance.now() < untilMs) await Bun.sleep(PAUSE_MS.first)
    }
  }

  private async create(id: string): Promise<Secret | undefined> {
    const text = await this.change('create', id)
    return text === undefined ? undefined : this.add(id, text, 'create')
  }

  private async rotate(old: Secret): Promise<Secret | undefined> {
    old.state = 'changing'
    const text = await this.change('rotate', old.id)
    if (text === undefined) return undefined
    this.end(old, 'rotate')
    return this.add(old.id, text, 'rotate')
  }

  private async revoke(id: string): Promise<boolean> {
    const own = this.secrets.filter((secret) => secret.id === id && secret.state !== 'rejected')
    for (const secret of own) secret.state = 'changing'
    if ((await this.change('revoke', id)) === undefined) return false
    for (const secret of own) this.end(secret, 'revoke')
    return true
  }

  private add(id: string, text: string, by: Change): Secret {
    const secret: Secret = { id, text, sinceMs: performance.now(), state: 'accepted', by }
    this.secrets.push(secret)
    return secret
  }

  private end(secret: Secret, by: Change): void {
    Object.assign(secret, { state: 'rejected', sinceMs: performance.now(), by })
  }

  /** Resolves to the new secret if there is one; undefined if no success was reported. */
  private async change(kind: Change, id: string): Promise<string | undefined> {
    const gateway = this.gateways[this.random.below(this.gateways.length)]
    if (gateway === undefined) return undefined
    const isCommand = this.random.chance(0.5)
    const name = `${kind} by ${isCommand ? 'command' : 'API'}`
    try {
      const secret = await (isCommand
        ? command(gateway, kind, id, this.organization)
        : call(gateway, kind, id, this.organization))
      count(this.done, name)
      return secret
    } catch (error) {
      count(this.failed, `${name}: ${reasonOf(String(error))}`)
      if (!String(error).includes('no key has the id')) return undefined
      if (this.secrets.some((secret) => secret.id === id)) this.gone.push(`${name} of ${id}: ${error}`)
      // Its creation failed, and there is nothing to revoke.
      return kind === 'revoke' ? '' : undefined
    }
  }

  private sample(): readonly Secret[] {
    const afterMs = performance.now() - RECENT_MS
    const recent = this.secrets.filter(({ sinceMs }) => sinceMs >= afterMs)
    const others = this.secrets.filter(({ sinceMs }) => sinceMs < afterMs)
    const some = Array.from({ length: OTHERS_PROBED }, () => others[this.random.below(Math.max(1, others.length))])
    return [...recent, ...some.filter((secret) => secret !== undefined)]
  }

  private async probe(secrets: readonly Secret[]): Promise<void> {
    await Promise.all(this.gateways.flatMap((gateway) => secrets.map((secret) => this.probeOne(gateway, secret))))
  }

  /** Nothing is recorded if there is no answer, or if a command changed the secret meanwhile. */
  private async probeOne(gateway: Gateway, secret: Secret): Promise<void> {
    const { state, sinceMs, by } = secret
    const fromMs = performance.now()
    if (state === 'changing' || fromMs < sinceMs + KNOWN_MS) return
    const status = await statusOf(gateway.port, secret.text)
    if (secret.state !== state || (status !== 200 && status !== 401)) return
    const untilMs = performance.now()
    const what =
      `${secret.id} ${status} on port ${gateway.port} at ${Math.round(fromMs)}-${Math.round(untilMs)} ms, ` +
      `${state} by ${by} since ${Math.round(sinceMs)} ms`
    this.probes.push({ secret: secret.text, wanted: state, isAccepted: status === 200, gateway, fromMs, untilMs, what })
  }

  /** `faults`: all that were injected. */
  check(report: Report, faults: readonly Injected[]): void {
    const listed = (counts: ReadonlyMap<string, number>) =>
      [...counts]
        .sort()
        .map(([name, times]) => `${times} ${name}`)
        .join(' · ')
    console.log(`     changes of keys done: ${listed(this.done)}`)
    console.log(`     failed: ${listed(this.failed)}`)
    // A gateway that was stopped at the time reads the request before it hears of the change.
    const frozen = faults.filter(({ name }) => name === 'gateway frozen')
    const isPaused = ({ fromMs, untilMs }: Probe) =>
      frozen.some((fault) => fault.fromMs <= untilMs && fault.untilMs >= fromMs - KNOWN_MS)
    const judged = this.probes.filter((probe) => !isPaused(probe))
    for (const wanted of ['rejected', 'accepted'] as const) {
      const of = judged.filter((probe) => probe.wanted === wanted)
      const wrong = of.filter(({ isAccepted }) => isAccepted !== (wanted === 'accepted'))
      const secrets = new Set(of.map(({ secret }) => secret)).size
      report.check(
        `${secrets} secrets that must be ${wanted} by every gateway from a second after the report on: tried ` +
          `${of.length} times, wrong ${wrong.length}`,
        secrets > 0 && wrong.length === 0,
        wrong.map(({ what }) => what),
      )
    }
    report.check(`created keys that did not exist later: ${this.gone.length}`, this.gone.length === 0, this.gone)
    console.log(`     ${this.probes.length - judged.length} more tries of secrets around the freezing of a gateway`)
  }
}

async function command(gateway: Gateway, kind: Change, id: string, organization: string): Promise<string> {
  return await gateway.run('keys', kind, ...(kind === 'create' ? ['--org', organization] : []), '--id', id)
}

async function call(gateway: Gateway, kind: Change, id: string, organization: string): Promise<string> {
  const path = `/api/keys/${id}`
  switch (kind) {
    case 'create':
      return String((await gateway.administer('POST', '/api/keys', { organization, id }))['secret'])
    case 'rotate':
      return String((await gateway.administer('POST', `${path}/rotate`))['secret'])
    case 'revoke':
      await gateway.administer('DELETE', path)
      return ''
  }
}

async function statusOf(port: number, secret: string): Promise<number> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/models`, {
      headers: { authorization: `Bearer ${secret}` },
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    })
    await answer.body?.cancel()
    return answer.status
  } catch {
    // The connection failed.
    return 0
  }
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

/** Without ids, addresses and durations, so that equal reasons are counted together. */
function reasonOf(text: string): string {
  return text
    .replace(/\d+(\.\d+)*/g, 'N')
    .replace(/\s+/g, ' ')
    .slice(-110)
}
