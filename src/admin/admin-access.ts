/**
 * Decides which requests the admin port answers, and knows who asks. With tokens the caller must present one. Without
 * any the port is for this machine alone: a web page that a browser of this machine shows could otherwise reach it
 * through a name of its own that resolves to 127.0.0.1 (DNS rebinding). Pages need no token, so they are answered under
 * known names alone: under a name of its own, a foreign page could read what is typed into them.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { AdminToken, Config } from '../config/config.ts'
import { isLoopback } from '../core/loopback.ts'
import type { Changer } from '../keys/admin-audit.ts'
import { AdminError } from './json-answers.ts'

/** Answered to everybody, for load balancers and service managers. */
const PROBES: readonly string[] = ['/healthz', '/readyz']

interface AdminAccessOptions {
  /** `admin` of the configuration in force. */
  readonly config: () => Config['admin']
  /** Whether a path has no figures of this weir: pages and their files, the reference. They need no token. */
  readonly isPublic: (path: string) => boolean
  /** Called with the address of a peer that presents a wrong token. */
  readonly onWrongToken: (remote: string) => void
}

export class AdminAccess {
  private readonly changers = new WeakMap<Request, Changer>()

  constructor(private readonly options: AdminAccessOptions) {}

  /** Throws `AdminError` 401 or 403 if the request must not be answered. */
  check(request: Request, path: string, remote: string): void {
    if (PROBES.includes(path) && (request.method === 'GET' || request.method === 'HEAD')) return
    const config = this.options.config()
    const isPublic = this.options.isPublic(path)
    if (config.tokens.length === 0) checkLocal(request)
    else if (isPublic) checkHost(request, config)
    else this.checkToken(request, config.tokens, remote)
    if (!isPublic) checkOrigin(request)
  }

  /** A user of this machine asks over the control socket, which only the owner of `data_dir` and root may open. */
  trust(request: Request, actor: string): void {
    this.changers.set(request, { source: 'cli', actor })
  }

  /** Who sent a request that was checked, for the admin audit: `token:NAME (ADDRESS)`. */
  changerOf(request: Request): Changer {
    return this.changers.get(request) ?? { source: 'api', actor: 'unknown' }
  }

  private checkToken(request: Request, tokens: readonly AdminToken[], remote: string): void {
    const given = request.headers.get('authorization')
    const presented = /^Bearer +(\S+) *$/i.exec(given ?? '')?.[1]
    const found = presented === undefined ? undefined : matching(presented, tokens)
    if (found === undefined) {
      if (given !== null) this.options.onWrongToken(remote)
      const problem = given === null ? 'This needs an admin token' : 'The admin token is wrong'
      throw new AdminError(401, 'unauthorized', `${problem}. Send Authorization: Bearer with admin.token.`, {
        'www-authenticate': 'Bearer realm="weir admin"',
      })
    }
    if (found.role === 'read' && request.method !== 'GET' && request.method !== 'HEAD') {
      const message = `Token '${found.name}' has the role read, which changes nothing. Use one with the role operate.`
      throw new AdminError(403, 'role_not_allowed', message)
    }
    this.changers.set(request, { source: 'api', actor: `token:${found.name} (${remote})` })
  }
}

/** Compares with every token, so that the time does not show which of them it is. */
function matching(presented: string, tokens: readonly AdminToken[]): AdminToken | undefined {
  const hashed = hash(presented)
  let found: AdminToken | undefined
  for (const each of tokens) if (timingSafeEqual(hashed, hash(each.token))) found = each
  return found
}

/** Hashes are compared, so that the time shows neither the length nor the first difference. */
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

/** Whether a `Host` header names this machine, with any port. */
function isLoopbackAuthority(host: string): boolean {
  const name = nameIn(host)
  return name !== undefined && isLoopback(name)
}

/** The name of a `Host` header; undefined if it has a comma (two headers), a user or a path. */
function nameIn(host: string): string | undefined {
  return /^(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?$/i.exec(host)?.[1]
}

/**
 * Throws `AdminError` 403 unless pages are answered under this name. An address that listens everywhere is reached by
 * every address of the machine, which no name of another can be.
 */
function checkHost(request: Request, { host, hosts }: Config['admin']): void {
  const name = nameIn(request.headers.get('host') ?? '')
  if (name !== undefined) {
    if (isLoopback(name) || [host, ...hosts].some((known) => bare(known) === bare(name))) return
    if (EVERYWHERE.includes(bare(host)) && ADDRESS.test(bare(name))) return
  }
  throw new AdminError(
    403,
    'host_not_allowed',
    'The pages of this port are not answered under this Host. Add its name to admin.hosts.',
  )
}

/** Of version 4 or 6; only the latter has colons. */
const ADDRESS = /^\d{1,3}(?:\.\d{1,3}){3}$|:/
const EVERYWHERE: readonly string[] = ['0.0.0.0', '::']

/** Without brackets, case and the dot at its end. */
function bare(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
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
