/** HTTP/1.1 to providers over connections that are kept: one pool for each origin. */

import { type ForwardProxies, proxiesOfProcess } from '../core/forward-proxies.ts'
import { Addresses } from './addresses.ts'
import { Authorities } from './dial.ts'
import type { ExchangeOwner } from './exchange.ts'
import type { Origin } from './origin.ts'
import { Pool } from './pool.ts'
import { type ClientRequest, type OutgoingHead, RequestHeads } from './request-head.ts'

/** Pools beyond this are dropped if they are empty. Origins are those of the configuration and of its reloads. */
const POOLS_MAX = 256

interface ClientParts {
  readonly authorities?: Authorities
  readonly addresses?: Addresses
  readonly proxies?: ForwardProxies
}

export class HttpClient implements ExchangeOwner {
  private readonly pools = new Map<string, Pool>()
  private readonly heads: RequestHeads
  private readonly authorities: Authorities
  private readonly addresses: Addresses

  constructor({ authorities = new Authorities(), addresses = new Addresses(), proxies }: ClientParts = {}) {
    this.authorities = authorities
    this.addresses = addresses
    this.heads = new RequestHeads(() => proxies ?? proxiesOfProcess())
  }

  headOf(request: ClientRequest): OutgoingHead {
    return this.heads.of(request)
  }

  poolOf(origin: Origin): Pool {
    const known = this.pools.get(origin.key)
    if (known !== undefined) return known
    if (this.pools.size >= POOLS_MAX) for (const [key, pool] of this.pools) if (pool.isEmpty) this.pools.delete(key)
    const pool = new Pool(origin, this.addresses, this.authorities)
    this.pools.set(origin.key, pool)
    return pool
  }
}
