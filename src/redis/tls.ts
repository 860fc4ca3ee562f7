/**
 * TLS to Redis: its options, and what is wrong with it in words for the operator. If a connection fails without naming
 * the cause, a probe here looks for it; the probe sends no credentials.
 */

import net from 'node:net'
import tls, { type ConnectionOptions } from 'node:tls'
import type { RedisTlsConfig } from '../core/redis-config.ts'

/** The options of `node:tls`. */
export function tlsOptions(own: RedisTlsConfig = {}): Pick<ConnectionOptions, 'ca' | 'cert' | 'key'> {
  const { ca, certificate: cert, key } = own
  return { ca, cert, key }
}

const NO_TLS = 'Redis does not speak TLS at an address that begins with rediss://. Use its TLS port, or write redis://.'
const NEEDS_TLS = 'Redis speaks TLS at an address that begins with redis://. Write rediss://.'

/** What is wrong with the certificate or the handshake; undefined for an error that is neither. */
export function tlsProblem(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  const { code, message } = error
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return `The Redis certificate has expired (${code}).`
    case 'CERT_NOT_YET_VALID':
      return `The Redis certificate is not valid yet (${code}).`
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `The Redis certificate is for another name than the address in the configuration (${code}: ${message}).`
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return `The Redis certificate is not signed by a trusted CA (${code}). Set \`ledger.tls.ca\`.`
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return NO_TLS
  }
  if (/CERTIFICATE_REQUIRED$|ALERT_BAD_CERTIFICATE$|ALERT_UNKNOWN_CA$|ALERT_UNSUPPORTED_CERTIFICATE$/.test(code)) {
    return (
      `Redis requires a client certificate, or rejected ours (${code}). ` +
      'Set `ledger.tls.certificate` and `ledger.tls.key`.'
    )
  }
  return /^(CERT_|CRL_|ERR_SSL_|ERR_TLS_|ERR_OSSL_|UNABLE_TO_|HOSTNAME_MISMATCH)/.test(code)
    ? `The TLS handshake with Redis failed (${code}: ${message}).`
    : undefined
}

/**
 * Connects with TLS and without. Resolves within `ms` to the problem that it finds, or to undefined if waiting may
 * help.
 */
export async function probeTls(
  { host, port, isSecure }: { readonly host: string; readonly port: number; readonly isSecure: boolean },
  own: RedisTlsConfig | undefined,
  ms: number,
): Promise<string | undefined> {
  const at = { host, port }
  const found = Promise.withResolvers<string | undefined>()
  const timer = setTimeout(found.resolve, ms)
  const sockets = isSecure
    ? [handshake({ ...at, ...tlsOptions(own) }, undefined, found.resolve), ping(at, found.resolve)]
    : [handshake({ ...at, rejectUnauthorized: false }, NEEDS_TLS, found.resolve)]
  try {
    return await found.promise
  } finally {
    clearTimeout(timer)
    for (const socket of sockets) socket.destroy()
  }
}

/** Reports `problem` if the handshake succeeds. Without a `problem` it reports why the handshake failed. */
function handshake(
  options: ConnectionOptions,
  problem: string | undefined,
  report: (problem: string) => void,
): tls.TLSSocket {
  const socket = tls.connect({
    ...options,
    ...(net.isIP(options.host ?? '') === 0 ? { servername: options.host } : {}),
  })
  socket.on('secureConnect', () => {
    if (problem !== undefined) report(problem)
  })
  socket.on('error', (error) => {
    const found = problem === undefined ? tlsProblem(error) : undefined
    if (found !== undefined) report(found)
  })
  return socket
}

/** Reports a server that answers without TLS: Redis answers a PING without a login, if only to require a password. */
function ping(at: { readonly host: string; readonly port: number }, report: (problem: string) => void): net.Socket {
  const socket = net.connect(at, () => socket.write('PING\r\n'))
  socket.on('error', () => undefined)
  socket.on('data', (data) => {
    if (/^(\+PONG|-NOAUTH|-DENIED|-ERR|-LOADING)/.test(data.toString('latin1'))) report(NO_TLS)
  })
  return socket
}
