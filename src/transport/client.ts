/** HTTP/1.1 to providers over connections that are kept: one pool for each origin. */

import { Addresses } from './addresses.ts'
import { Authorities } from './dial.ts'
import type { Exchange, ExchangeOwner } from './exchange.ts'
import type { Origin } from './origin.ts'
import { Pool } from './pool.ts'

/** Pools beyond this are dropped if they are empty. Origins are those of the configuration and of its reloads. */
const POOLS_MAX = 256

export class HttpClient implements ExchangeOwner {
  private readonly pools = new Map<string, Pool>()

  constructor(
    private readonly authorities: Authorities = new Authorities(),
    private readonly addresses: Addresses = new Addresses(),
  ) {}

  connect(exchange: Exchange): void {
    this.poolOf(exchange.origin).connect(exchange)
  }

  withdraw(exchange: Exchange): void {
    this.poolOf(exchange.origin).withdraw(exchange)
  }

  closeIdle(origin: Origin): void {
    this.poolOf(origin).closeIdle()
  }

  /** Closes all connections; exchanges that run on them are not called again. */
  close(): void {
    for (const pool of this.pools.values()) pool.close()
    this.pools.clear()
  }

  /** Open connections, idle ones included. */
  get connections(): number {
    let count = 0
    for (const pool of this.pools.values()) count += pool.size
    return count
  }

  private poolOf(origin: Origin): Pool {
    const known = this.pools.get(origin.key)
    if (known !== undefined) return known
    if (this.pools.size >= POOLS_MAX) for (const [key, pool] of this.pools) if (pool.isEmpty) this.pools.delete(key)
    const pool = new Pool(origin, this.addresses, this.authorities)
    this.pools.set(origin.key, pool)
    return pool
  }
}
