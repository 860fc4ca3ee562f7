/** What the workers of this node and other nodes learn of targets from each other, and who may probe one. */

import type { PeerUpdate } from '../../assembly/inference-service.ts'
import type { Config } from '../../config/config.ts'
import type { TargetRef } from '../../core/model-config.ts'
import type { Breaker, Rest } from '../../gateway/breaker.ts'
import { ProbeLeases } from '../ipc/probe-lease.ts'
import { SharedRests } from './shared-rests.ts'

export class TargetNews {
  private readonly probes: ProbeLeases
  /** Present if there is a Redis, with which there may be other nodes. */
  private shared: SharedRests | undefined

  /** `received` takes what another node found out. */
  constructor(
    health: Breaker,
    private readonly received: (update: PeerUpdate) => void,
  ) {
    this.probes = new ProbeLeases(health)
  }

  use(config: Config): void {
    const { ledger } = config
    if (ledger.kind === 'redis') this.shared ??= new SharedRests(ledger.redis, { received: this.received })
    this.shared?.use(config)
  }

  /** A worker found something out: other nodes hear of it if it is for them. */
  send(update: PeerUpdate): void {
    if (update.about === 'rest' || update.about === 'room') this.shared?.send(update)
  }

  hear(rest: Rest): void {
    this.probes.hear(rest)
  }

  /** A worker is gone. */
  gone(holder: number): void {
    this.probes.gone(holder)
  }

  /** Resolves to whether a worker may probe a target: one at a time of all nodes. */
  async grantProbe(holder: number, target: TargetRef): Promise<boolean> {
    if (!this.probes.grant(holder, target)) return false
    const granted = (await this.shared?.claim(target)) ?? true
    if (!granted) this.probes.refuse(holder, target)
    return granted
  }

  close(): void {
    this.shared?.close()
  }
}
