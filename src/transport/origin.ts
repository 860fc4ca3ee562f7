/** Where a request goes: the scheme, host and port of its URL. Each origin has its own connections. */

import type { ForwardProxy } from '../core/forward-proxies.ts'

/** What a connection is made to. */
export interface Peer {
  readonly isSecure: boolean
  /** A name or an address; an IPv6 address without its brackets. */
  readonly hostname: string
  readonly port: number
}

export interface Origin extends Peer {
  /** `https://api.example.com:443`: the same for the same place. */
  readonly key: string
  /** Takes the connections instead. With TLS to the origin, it passes on bytes that it cannot read. */
  readonly proxy: ForwardProxy | undefined
}

/** The origin of an `http:` or `https:` URL. */
export function originOf({ protocol, hostname, port }: URL, proxy: ForwardProxy | undefined): Origin {
  const isSecure = protocol === 'https:'
  const number = port === '' ? (isSecure ? 443 : 80) : Number(port)
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return { key: `${protocol}//${hostname}:${number}`, isSecure, hostname: bare, port: number, proxy }
}

/** A host and port as they are written, with brackets around an IPv6 address. */
export function authorityOf({ hostname, port }: Peer): string {
  return `${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`
}
