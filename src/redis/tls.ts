/**
 * TLS toward Redis: what is wrong with it, in words for the operator. Owns no connection of the ledger's; where one does not come about and
 * says nothing of why, it knocks once itself, and sends no credential.
 */

import net from 'node:net'
import tls, { type ConnectionOptions } from 'node:tls'
import type { RedisTlsConfig } from '../core/redis-config.ts'

/** As Node's TLS has it. */
export function tlsOptions({
  ca,
  certificate,
  key,
}: RedisTlsConfig = {}): Pick<ConnectionOptions, 'ca' | 'cert' | 'key'> {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(certificate === undefined ? {} : { cert: certificate }),
    ...(key === undefined ? {} : { key }),
  }
}

const PLAIN = 'Redis answers without TLS at an address that begins with rediss://: use its TLS port, or redis://.'
const SECURE = 'Redis speaks TLS at an address that begins with redis://: write rediss://.'

/** What is wrong with the certificate or the handshake; undefined for an error that is neither. */
export function tlsProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  const { code, message } = error
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `The certificate of Redis has expired (${code}).`
    case 'CERT_NOT_YET_VALID':
      return `The certificate of Redis is not valid yet (${code}).`
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `The certificate of Redis is for another name than the address in the configuration (${code}: ${message}).`
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return `The certificate of Redis is from nobody that is trusted here (${code}): name its authority in ledger.tls.ca.`
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return PLAIN
  }
  if (/CERTIFICATE_REQUIRED$|ALERT_BAD_CERTIFICATE$|ALERT_UNKNOWN_CA$|ALERT_UNSUPPORTED_CERTIFICATE$/.test(code)) {
    return `Redis does not take the certificate that weir shows, or wants one: see ledger.tls.certificate (${code}).`
  }
  return /^(CERT_|CRL_|ERR_SSL_|ERR_TLS_|ERR_OSSL_|UNABLE_TO_|HOSTNAME_MISMATCH)/.test(code)
    ? `TLS with Redis fails (${code}: ${message}).`
    : undefined
}

interface Door {
  readonly host: string
  readonly port: number
  readonly isSecure: boolean
}

/**
 * Why no connection comes about: knocks with TLS and without. Resolves to undefined where it finds nothing that waiting could not help, or
 * not within so many milliseconds.
 */
export async function knock(
  { host, port, isSecure }: Door,
  own: RedisTlsConfig | undefined,
  ms: number,
): Promise<string | undefined> {
  const at = { host, port }
  const found = Promise.withResolvers<string | undefined>()
  const timer = setTimeout(found.resolve, ms)
  const sockets = isSecure
    ? [handshake({ ...at, ...tlsOptions(own) }, undefined, found.resolve), ping(at, found.resolve)]
    : [handshake({ ...at, rejectUnauthorized: false }, SECURE, found.resolve)]
  try {
    return await found.promise
  } finally {
    clearTimeout(timer)
    for (const socket of sockets) socket.destroy()
  }
}

/** Tells `problem` where TLS comes about, and what is wrong where it does not; of two words the first counts. */
function handshake(
  options: ConnectionOptions,
  problem: string | undefined,
  tell: (problem: string) => void,
): tls.TLSSocket {
  const socket = tls.connect({
    ...options,
    ...(net.isIP(options.host ?? '') === 0 ? { servername: options.host } : {}),
  })
  socket.on('secureConnect', () => {
    if (problem !== undefined) tell(problem)
  })
  socket.on('error', (error) => {
    const found = problem === undefined ? tlsProblem(error) : undefined
    if (found !== undefined) tell(found)
  })
  return socket
}

/** A Redis that wants a password says so to anybody. */
function ping(at: { readonly host: string; readonly port: number }, tell: (problem: string) => void): net.Socket {
  const socket = net.connect(at, () => socket.write('PING\r\n'))
  socket.on('error', () => undefined)
  socket.on('data', (data) => {
    if (/^(\+PONG|-NOAUTH|-DENIED|-ERR|-LOADING)/.test(data.toString('latin1'))) tell(PLAIN)
  })
  return socket
}
