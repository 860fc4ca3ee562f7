/** Where a request goes: the scheme, host and port of its URL. Each origin has its own connections. */

export interface Origin {
  /** `https://api.example.com:443`: the same for the same place. */
  readonly key: string
  readonly isSecure: boolean
  /** A name or an address; an IPv6 address without its brackets. */
  readonly hostname: string
  readonly port: number
}

/** The origin of an `http:` or `https:` URL. */
export function originOf({ protocol, hostname, port }: URL): Origin {
  const isSecure = protocol === 'https:'
  const number = port === '' ? (isSecure ? 443 : 80) : Number(port)
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return { key: `${protocol}//${hostname}:${number}`, isSecure, hostname: bare, port: number }
}
