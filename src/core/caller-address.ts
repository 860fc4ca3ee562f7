/**
 * The address of a caller: the peer of the connection or, if that is a trusted proxy, the one that it reports in
 * `X-Forwarded-For` or `Forwarded` (RFC 7239).
 */

import { BlockList, isIP } from 'node:net'

/** Proxies that one request passes; entries before them are not read. */
const HOPS_MAX = 32

export class CallerAddress {
  /** Absent if no proxy is trusted. */
  private readonly trusted: BlockList | undefined

  /** `proxies`: addresses and networks in CIDR form, as the configuration check accepts them. */
  constructor(proxies: readonly string[]) {
    if (proxies.length > 0) this.trusted = networks(proxies)
  }

  /**
   * The nearest address that is not a trusted proxy. Each proxy appends the address that its connection came from, so
   * the list is read from its end: what stands before the first address that is not trusted may come from the caller.
   * An entry that is not an address (`unknown`, `_hidden`) ends it, too: the proxy that reported it counts then.
   * If a request has both headers, `X-Forwarded-For` counts, because most proxies pass on a `Forwarded` of the caller.
   */
  of(headers: Headers, peer: string): string {
    let address = withoutMapping(peer)
    if (this.trusted === undefined || !isIn(this.trusted, address)) return address
    const entries = forwardedFor(headers)
    for (let i = entries.length - 1; i >= 0; i--) {
      const reported = addressOf(entries[i] ?? '')
      if (reported === undefined) break
      address = reported
      if (!isIn(this.trusted, address)) break
    }
    return address
  }
}

/** The last entries, from the farthest to the nearest. */
function forwardedFor(headers: Headers): readonly string[] {
  const plain = headers.get('x-forwarded-for')
  if (plain !== null) return plain.split(',').slice(-HOPS_MAX)
  const standard = headers.get('forwarded')
  if (standard === null) return []
  return standard
    .split(',')
    .slice(-HOPS_MAX)
    .map((element) => /(?:^|;)\s*for\s*=\s*("[^"]*"|[^;]*)/i.exec(element)?.[1]?.replaceAll('"', '') ?? '')
}

/** `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:4711`; undefined if it is none. */
function addressOf(entry: string): string | undefined {
  const text = entry.trim()
  const bare = /^\[([^\]]*)\](?::\w+)?$/.exec(text)?.[1] ?? /^([\d.]+):\w+$/.exec(text)?.[1] ?? text
  // A zone names an interface of the proxy.
  const address = bare.replace(/%.*$/s, '')
  return isIP(address) === 0 ? undefined : withoutMapping(address)
}

/** IPv4 on a socket of both families is `::ffff:192.0.2.1`. */
function withoutMapping(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice('::ffff:'.length) : address
}

function networks(proxies: readonly string[]): BlockList {
  const list = new BlockList()
  for (const proxy of proxies) {
    const { address, prefix } = networkOf(proxy)
    list.addSubnet(address, prefix, familyOf(address))
  }
  return list
}

/** An address and the bits of it that name the network; all of them if the text has no prefix. */
function networkOf(text: string): { readonly address: string; readonly prefix: number } {
  const [address = '', prefix] = text.split('/')
  return { address, prefix: prefix === undefined ? (isIP(address) === 4 ? 32 : 128) : Number(prefix) }
}

function isIn(list: BlockList, address: string): boolean {
  return isIP(address) !== 0 && list.check(address, familyOf(address))
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6'
}
