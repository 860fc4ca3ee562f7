/** Addresses of a host name, in the order in which they are tried. Requests for the same name share a look-up. */

import { isIP } from 'node:net'
import { dns } from 'bun'
import { codeOf } from '../core/system-error.ts'
import { TransportError } from './transport-error.ts'

/** How long addresses are used without another look-up: a provider that moves is found within seconds. */
const FRESH_MS = 5000
/** Names are those of the configuration; this bounds what reloads leave. */
const NAMES_MAX = 256

interface Known {
  readonly addresses: readonly string[]
  readonly untilMs: number
}

interface FoundAddress {
  readonly address: string
  readonly family: 4 | 6
}

type LookUp = (hostname: string) => Promise<readonly FoundAddress[]>

/** `getaddrinfo`, as `fetch` does: `/etc/hosts`, `nsswitch.conf`, search domains and `RES_OPTIONS` apply. */
const lookUpBySystem: LookUp = (hostname) => dns.lookup(hostname, { backend: 'libc' })

export class Addresses {
  private readonly known = new Map<string, Known>()
  private readonly asking = new Map<string, Promise<readonly string[]>>()

  constructor(
    private readonly lookUp: LookUp = lookUpBySystem,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** At least one address. Rejects with `TransportError` `unconnected` if the name has none. */
  async of(hostname: string): Promise<readonly string[]> {
    const known = this.known.get(hostname)
    if (known !== undefined && this.nowMs() < known.untilMs) return known.addresses
    if (isIP(hostname) !== 0) return [hostname]
    return await this.asking.getOrInsertComputed(hostname, () => this.ask(hostname))
  }

  /** The next connection looks the name up again: what is known led nowhere. */
  forget(hostname: string): void {
    this.known.delete(hostname)
  }

  private async ask(hostname: string): Promise<readonly string[]> {
    try {
      const addresses = interleave(await this.lookUp(hostname))
      if (addresses.length === 0) throw new TransportError('unconnected', 'the host name has no address', 'ENOTFOUND')
      if (this.known.size >= NAMES_MAX) this.known.clear()
      this.known.set(hostname, { addresses, untilMs: this.nowMs() + FRESH_MS })
      return addresses
    } catch (error) {
      if (error instanceof TransportError) throw error
      // Bun's codes are those of everybody else with `DNS_` before them.
      const code = codeOf(error).replace(/^DNS_/, '')
      throw new TransportError('unconnected', 'the host name cannot be looked up', code)
    } finally {
      this.asking.delete(hostname)
    }
  }
}

/**
 * IPv6 and IPv4 in turn, beginning with the first that was found (RFC 8305, 4): a family without a route costs one
 * delay.
 */
function interleave(found: readonly FoundAddress[]): readonly string[] {
  const first = found[0]?.family
  const preferred = found.filter(({ family }) => family === first)
  const others = found.filter(({ family }) => family !== first)
  const addresses: string[] = []
  for (let at = 0; at < Math.max(preferred.length, others.length); at++)
    for (const one of [preferred[at], others[at]]) if (one !== undefined) addresses.push(one.address)
  return [...new Set(addresses)]
}
