/** Checks of the process settings beyond the schema: ports, workers, Redis and TLS, compaction keys. */

import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import { isLoopback } from '../core/loopback.ts'
import type { Check } from './check-context.ts'

export function checkProcess(check: Check): void {
  checkHost(check, 'listen')
  checkHost(check, 'admin')
  checkProxies(check)
  checkPorts(check)
  checkAdmin(check)
  checkRedis(check)
  if (/^~(?:\/|$)/.test(check.file.data_dir ?? ''))
    check.problems.add(['data_dir'], '~ is not replaced by a home directory; write the whole path')
  check.file.compaction?.keys?.forEach((key, index) => {
    if (key !== undefined && !isKeyOf32Bytes(key)) {
      check.problems.add(['compaction', 'keys', index], 'must be 32 bytes in base64 (openssl rand -base64 32)')
    }
  })
}

/** Mistakes that would otherwise be a name that cannot be resolved, when weir starts. */
function checkHost({ file, problems }: Check, group: 'listen' | 'admin'): void {
  const host = file[group]?.host
  if (host === undefined || isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0) return
  if (/^[^:]*:\d+$/.test(host)) problems.add([group, 'host'], `must not contain a port; set ${group}.port`)
  else if (/^[\d.]+$/.test(host)) problems.add([group, 'host'], 'must be an address or a host name')
  else if (/[:[\]]/.test(host)) problems.add([group, 'host'], 'must be an address or a host name')
}

function checkProxies({ file, problems }: Check): void {
  file.listen?.trusted_proxies?.forEach((proxy, index) => {
    if (proxy !== undefined && !isNetwork(proxy))
      problems.add(
        ['listen', 'trusted_proxies', index],
        'must be an address or a network, such as 192.0.2.1, 10.0.0.0/8 or fd00::/8',
      )
  })
}

function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || address.includes('%') || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128))
}

function checkPorts({ completed: file, problems }: Check): void {
  const port = file.listen?.port
  if (port === undefined || port === 0 || port !== file.admin?.port) return
  const hosts = [file.listen?.host, file.admin?.host]
  if (hosts[0] === hosts[1] || hosts.some((host) => host === '0.0.0.0' || host === '::')) {
    problems.add(['admin', 'port'], `is also the port of the inference API (${port}); choose another`)
  }
}

function checkAdmin({ completed: { admin }, problems }: Check): void {
  const tokens = admin?.tokens ?? []
  const names = new Set(admin?.token === undefined ? [] : ['admin'])
  const known = new Set(admin?.token === undefined ? [] : [admin.token])
  for (const [i, each] of tokens.entries()) {
    if (each?.name !== undefined && names.has(each.name)) {
      const own = each.name === 'admin' && admin?.token !== undefined
      problems.add(['admin', 'tokens', i, 'name'], own ? 'is the name of admin.token; choose another' : 'is not unique')
    }
    if (each?.token !== undefined && known.has(each.token))
      problems.add(
        ['admin', 'tokens', i, 'token'],
        'is that of another entry; each needs its own (openssl rand -hex 32)',
      )
    if (each?.name !== undefined) names.add(each.name)
    if (each?.token !== undefined) known.add(each.token)
  }
  if (admin?.host === undefined || admin.token !== undefined || tokens.length > 0 || isLoopback(admin.host)) return
  const advice = 'set admin.token (openssl rand -hex 32), or admin.host to 127.0.0.1'
  problems.add(['admin', 'host'], `is not a loopback address, so that the admin port needs a token: ${advice}`)
}

function checkRedis(check: Check): void {
  const { ledger, responses } = check.file
  if (ledger !== undefined && ledger !== 'embedded') checkPlace(check, 'ledger', ledger)
  if (responses?.tls !== undefined && responses.redis === undefined) {
    check.problems.add(['responses', 'tls'], 'needs responses.redis')
  } else if (responses?.redis !== undefined) checkPlace(check, 'responses', responses)
}

type Place = Pick<Exclude<NonNullable<Check['file']['ledger']>, 'embedded'>, 'redis' | 'tls'>

/** If only some addresses used TLS, the traffic to the others would be readable: all of them use it, or none. */
function checkPlace({ problems }: Check, group: 'ledger' | 'responses', { redis, tls }: Place): void {
  const addresses = addressesOf(redis)
  const kind =
    typeof redis === 'string' ? undefined : redis !== undefined && 'cluster' in redis ? 'cluster' : 'sentinels'
  for (const [index, address] of addresses.entries()) {
    const problem = address === undefined ? undefined : addressProblem(address, kind)
    if (problem !== undefined) problems.add([group, 'redis', ...(kind === undefined ? [] : [kind, index])], problem)
  }
  const secure = addresses.filter((address) => address?.startsWith('rediss://'))
  if (secure.length > 0 && secure.length < addresses.length) {
    problems.add([group, 'redis'], 'either all addresses must begin with rediss://, or none')
  }
  if (tls === undefined) return
  if (addresses.length > 0 && secure.length === 0) {
    problems.add([group, 'tls'], 'is only for addresses that begin with rediss://')
  }
  const { ca, certificate, key } = tls
  if ((certificate === undefined) !== (key === undefined)) {
    const [given, missing] = certificate === undefined ? ['key', 'certificate'] : ['certificate', 'key']
    problems.add([group, 'tls', given], `needs ${group}.tls.${missing}`)
  }
  if (ca !== undefined && !isUsable({ ca })) problems.add([group, 'tls', 'ca'], 'is not a valid certificate')
  if (certificate !== undefined && key !== undefined && !isUsable({ cert: certificate, key })) {
    problems.add([group, 'tls', 'key'], `is not the key of ${group}.tls.certificate`)
  }
}

/** What the schema cannot see of the address of a server, or of one of several. */
function addressProblem(address: string, kind: 'cluster' | 'sentinels' | undefined): string | undefined {
  // What is no address at all is reported by the schema.
  if (!/^rediss?:\/\//.test(address)) return undefined
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || url.hostname === '' || url.hash !== '' || !isDecodable(url))
    return (
      'is not a valid address: it must be redis://USER:PASSWORD@HOST:PORT/DATABASE, with a port up to 65535 and with ' +
      '"/", "#", "?", "@" and "%" in the password as %2F, %23, %3F, %40 and %25'
    )
  if (!/^(?:\/\d*)?$/.test(url.pathname)) return 'must end with the number of a database, such as /0, or with nothing'
  if (kind === undefined || /^\/?0*$/.test(url.pathname)) return undefined
  return `must not name a database: ${kind === 'cluster' ? 'a cluster has one alone' : 'with Sentinels, weir uses 0'}`
}

function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

function addressesOf(redis: Place['redis']) {
  if (redis === undefined) return []
  if (typeof redis === 'string') return [redis]
  return ('cluster' in redis ? redis.cluster : 'sentinels' in redis ? redis.sentinels : undefined) ?? []
}

/** Whether TLS accepts these. The messages of its errors are not usable for operators. */
function isUsable(parts: Parameters<typeof createSecureContext>[0]): boolean {
  try {
    createSecureContext(parts)
    return true
  } catch {
    return false
  }
}

function isKeyOf32Bytes(key: string): boolean {
  return /^[A-Za-z0-9+/]{43}=?$/.test(key) && Buffer.from(key, 'base64').length === 32
}
