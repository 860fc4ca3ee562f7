/**
 * Decides which requests the admin port answers. With `admin.token` the caller must present it. Without one the port
 * is for this machine alone: a web page that a browser of this machine shows could otherwise reach it through a name of
 * its own that resolves to 127.0.0.1 (DNS rebinding).
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import { isLoopback } from '../core/loopback.ts'
import { AdminError } from './json-answers.ts'

/** Answered to everybody, for load balancers and service managers. */
const PROBES: readonly string[] = ['/healthz', '/readyz']

interface AdminAccessOptions {
  /** `admin.token` of the configuration in force. */
  readonly token: () => string | undefined
  /** Whether a path has no figures of this weir: pages and their files, the reference. They need no token. */
  readonly isPublic: (path: string) => boolean
  /** Called with the address of a peer that presents a wrong token. */
  readonly onWrongToken: (remote: string) => void
}

export class AdminAccess {
  constructor(private readonly options: AdminAccessOptions) {}

  /** Throws `AdminError` 401 or 403 if the request must not be answered. */
  check(request: Request, path: string, remote: string): void {
    if (PROBES.includes(path) && (request.method === 'GET' || request.method === 'HEAD')) return
    const token = this.options.token()
    if (token === undefined) checkLocal(request)
    else if (!this.options.isPublic(path)) this.checkToken(request, token, remote)
    if (!this.options.isPublic(path)) checkOrigin(request)
  }

  private checkToken(request: Request, token: string, remote: string): void {
    const given = request.headers.get('authorization')
    const presented = /^Bearer +(\S+) *$/i.exec(given ?? '')?.[1]
    if (presented !== undefined && isSame(presented, token)) return
    if (given !== null) this.options.onWrongToken(remote)
    const problem = given === null ? 'This needs the admin token' : 'The admin token is wrong'
    throw new AdminError(401, 'unauthorized', `${problem}. Send Authorization: Bearer with admin.token.`, {
      'www-authenticate': 'Bearer realm="weir admin"',
    })
  }
}

/** Compares the hashes, so that the time shows neither the length nor the first difference. */
function isSame(presented: string, token: string): boolean {
  return timingSafeEqual(hash(presented), hash(token))
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function checkLocal(request: Request): void {
  const host = request.headers.get('host') ?? ''
  if (!isLoopbackAuthority(host)) {
    throw new AdminError(
      403,
      'host_not_allowed',
      'Without admin.token this port answers only requests whose Host is localhost or a loopback address.',
    )
  }
  if (request.method !== 'GET') {
    throw new AdminError(
      403,
      'token_required',
      'Without admin.token this port answers only GET. Set admin.token in the configuration to change anything here.',
    )
  }
}

/**
 * Whether a `Host` header names this machine, with any port. One with a comma (two headers), a user or a path does not.
 */
function isLoopbackAuthority(host: string): boolean {
  const name = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::\d{1,5})?$/i.exec(host)?.[1]
  return name !== undefined && isLoopback(name)
}

/**
 * A browser reports which page a request comes from. Pages of other sites get nothing; without this, one of them could
 * open event streams here, although it cannot read them. Programs send neither header.
 */
function checkOrigin(request: Request): void {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  const isForeignSite = site !== null && site !== 'same-origin' && site !== 'none'
  if (!isForeignSite && (origin === null || isOwnOrigin(origin, request.headers.get('host')))) return
  throw new AdminError(403, 'origin_not_allowed', 'Pages of other sites may not use the admin API.')
}

/** The scheme is not compared: a proxy in front of this port may add TLS. */
function isOwnOrigin(origin: string, host: string | null): boolean {
  return host !== null && origin.replace(/^https?:\/\//, '').toLowerCase() === host.toLowerCase()
}
