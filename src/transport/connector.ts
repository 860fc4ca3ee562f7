/**
 * Makes one connection to an origin, or to its proxy: the addresses one after the other, the next one after 250 ms or
 * as soon as one has failed (RFC 8305). The first that is connected wins, and the others are abandoned.
 */

import type { Addresses } from './addresses.ts'
import { checkDescriptors } from './descriptor-shortage.ts'
import { type Authorities, Dial, type RawSocket } from './dial.ts'
import type { Origin } from './origin.ts'
import { unreachableProxy } from './proxy-tunnel.ts'
import type { TransportError } from './transport-error.ts'

/** How long one address is waited for before the next one is tried as well (RFC 8305, 5). */
const NEXT_ADDRESS_MS = 250
/** Addresses of a name that are tried; a name with hundreds must not open hundreds of sockets. */
const ADDRESSES_MAX = 8

/** Takes the outcome, once; nothing after `abandon`. */
interface ConnectorOwner {
  connected(connector: Connector, socket: RawSocket): void
  failed(connector: Connector, error: TransportError): void
}

export class Connector {
  private readonly dials = new Set<Dial>()
  private addresses: readonly string[] = []
  private next = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private isOver = false

  constructor(
    private readonly origin: Origin,
    private readonly authorities: Authorities,
    private readonly owner: ConnectorOwner,
  ) {}

  /** The owner hears of the outcome after this returned. */
  start(addresses: Addresses): void {
    const { proxy } = this.origin
    addresses.of((proxy ?? this.origin).hostname).then(
      (list) => this.begin(list),
      (error: TransportError) => this.fail(proxy === undefined ? error : unreachableProxy(proxy, error.code)),
    )
  }

  abandon(): void {
    this.isOver = true
    clearTimeout(this.timer)
    for (const dial of this.dials) dial.abandon()
    this.dials.clear()
  }

  connected(dial: Dial, socket: RawSocket): void {
    this.dials.delete(dial)
    this.abandon()
    this.owner.connected(this, socket)
  }

  failed(dial: Dial, error: TransportError): void {
    this.dials.delete(dial)
    if (this.next < this.addresses.length) this.tryNext()
    else if (this.dials.size === 0) this.fail(error)
  }

  private begin(addresses: readonly string[]): void {
    if (this.isOver) return
    this.addresses = addresses.slice(0, ADDRESSES_MAX)
    this.tryNext()
  }

  private tryNext(): void {
    clearTimeout(this.timer)
    const address = this.addresses[this.next]
    if (address === undefined) return
    this.next += 1
    this.dials.add(new Dial(this.origin, address, this.authorities, this))
    if (this.next < this.addresses.length) this.timer = setTimeout(() => this.tryNext(), NEXT_ADDRESS_MS)
  }

  private fail(error: TransportError): void {
    if (this.isOver) return
    checkDescriptors()
    this.abandon()
    this.owner.failed(this, error)
  }
}
