/**
 * Forward proxies of the environment, as `fetch` and curl read it: `HTTPS_PROXY` for `https:` addresses, `HTTP_PROXY`
 * for `http:` ones, `NO_PROXY` for those that are connected to directly. Names in lower case override the others.
 */

import { BlockList, isIP } from 'node:net'

export interface ForwardProxy {
  /** weir speaks TLS with the proxy itself. */
  readonly isSecure: boolean
  /** An IPv6 address without its brackets. */
  readonly hostname: string
  readonly port: number
  /** The value of `proxy-authorization`, if the address has a user: a credential. */
  readonly authorization: string | undefined
}

type Env = Readonly<Record<string, string | undefined>>

const VARIABLES = { 'https:': 'HTTPS_PROXY', 'http:': 'HTTP_PROXY' } as const

export class ForwardProxies {
  /** By the protocol of what is asked for; null for a value that is no address of an HTTP proxy. */
  private readonly byProtocol = new Map<string, ForwardProxy | null>()
  private readonly excluded: readonly Exclusion[]

  constructor(env: Env) {
    for (const [protocol, name] of Object.entries(VARIABLES)) {
      const text = variable(env, name)
      if (text !== '') this.byProtocol.set(protocol, proxyAt(text))
    }
    this.excluded = variable(env, 'NO_PROXY')
      .toLowerCase()
      .split(/[\s,]+/)
      .filter(Boolean)
      .map(exclusionOf)
  }

  /** What is wrong with the variables, by their names. A value is never quoted: it may have a password. */
  get problems(): readonly (readonly [name: string, problem: string])[] {
    return Object.entries(VARIABLES).flatMap(([protocol, name]) =>
      this.byProtocol.get(protocol) === null ? [[name, NOT_A_PROXY] as const] : [],
    )
  }

  /** The proxy for this URL; undefined if there is none. Throws an error for a proxy that cannot be used. */
  of({ protocol, hostname, port }: URL): ForwardProxy | undefined {
    const proxy = this.byProtocol.get(protocol)
    if (proxy === undefined) return undefined
    const place = { host: hostname.replace(/^\[|\]$/g, ''), port: port || (protocol === 'https:' ? '443' : '80') }
    if (this.excluded.some((excludes) => excludes(place))) return undefined
    if (proxy === null) throw new Error(`${protocol.slice(0, -1).toUpperCase()}_PROXY ${NOT_A_PROXY}`)
    return proxy
  }
}

const NOT_A_PROXY = 'is not the address of an HTTP proxy; write http://HOST:PORT or https://HOST:PORT'

function variable(env: Env, name: string): string {
  return (env[name.toLowerCase()] || env[name] || '').trim()
}

function proxyAt(text: string): ForwardProxy | null {
  const address = text.includes('://') ? text : `http://${text}`
  if (!URL.canParse(address)) return null
  const { protocol, hostname, port, username, password } = new URL(address)
  const isSecure = protocol === 'https:'
  if ((!isSecure && protocol !== 'http:') || hostname === '') return null
  const user = `${decoded(username)}:${decoded(password)}`
  return {
    isSecure,
    hostname: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || (isSecure ? 443 : 80)),
    authorization: user === ':' ? undefined : `Basic ${Buffer.from(user).toString('base64')}`,
  }
}

/** A password with a bare `%` is taken as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Whether an entry of `NO_PROXY` names a host and port. */
type Exclusion = (place: { readonly host: string; readonly port: string }) => boolean

/** `*`, a domain (with everything below it), an address or a network; all but the first may have a port. */
function exclusionOf(entry: string): Exclusion {
  if (entry === '*') return () => true
  const [, name = entry, ownPort] = isIP(entry) === 0 ? (/^(.+?)(?::(\d+))?$/.exec(entry) ?? []) : []
  const hosts = networkOf(name.replace(/^\[(.*)\]/, '$1')) ?? domainOf(name.replace(/^\*?\./, ''))
  return ({ host, port }) => (ownPort === undefined || ownPort === port) && hosts(host)
}

function domainOf(domain: string): (host: string) => boolean {
  return (host) => host === domain || host.endsWith(`.${domain}`)
}

/** Undefined for what is neither an address nor a network. */
function networkOf(text: string): ((host: string) => boolean) | undefined {
  const [address = '', bits] = text.split('/')
  const family = isIP(address)
  const prefix = bits === undefined ? (family === 4 ? 32 : 128) : Number(bits)
  if (family === 0 || !(prefix >= 0 && prefix <= (family === 4 ? 32 : 128))) return undefined
  const list = new BlockList()
  list.addSubnet(address, prefix, `ipv${family === 4 ? 4 : 6}`)
  return (host) => isIP(host) !== 0 && list.check(host, `ipv${isIP(host) === 4 ? 4 : 6}`)
}

/** Those of this process: none until they are set. */
let ofProcess = new ForwardProxies({})

export function proxiesOfProcess(): ForwardProxies {
  return ofProcess
}

/** One per process, before its first request. */
export function useProxiesOf(env: Env): void {
  ofProcess = new ForwardProxies(env)
}
