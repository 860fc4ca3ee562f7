/**
 * The header of the PROXY protocol, version 2, with which a load balancer begins a connection to name its source
 * (HAProxy's document "The PROXY protocol", section 2.2).
 */

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
/** The signature, version and command, family, and the length of the rest. */
const FIXED_BYTES = 16
/** Addresses and what load balancers append to them take some hundred bytes. */
const HEADER_BYTES_MAX = 4096

/** The bytes do not begin with a header. */
export class ProxyHeaderError extends Error {
  override readonly name = 'ProxyHeaderError'
}

interface ProxyHeader {
  /** Where the connection comes from; undefined if the header does not say: a health check of the load balancer. */
  readonly address: string | undefined
  /** The number of bytes that the header takes. */
  readonly bytes: number
}

/** The header at the beginning of a connection; undefined if it is not complete. Throws `ProxyHeaderError`. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | undefined {
  const begun = Math.min(bytes.length, SIGNATURE.length)
  if (!bytes.subarray(0, begun).equals(SIGNATURE.subarray(0, begun)))
    throw new ProxyHeaderError('The connection does not begin with a header of the PROXY protocol, version 2.')
  if (bytes.length < FIXED_BYTES) return undefined
  const versionAndCommand = bytes.readUInt8(12)
  const [version, command] = [versionAndCommand >> 4, versionAndCommand & 15]
  if (version !== 2 || command > 1)
    throw new ProxyHeaderError(`The PROXY header has version ${version} and command ${command}.`)
  const length = FIXED_BYTES + bytes.readUInt16BE(14)
  if (length > HEADER_BYTES_MAX) throw new ProxyHeaderError(`The PROXY header has ${length} bytes.`)
  if (bytes.length < length) return undefined
  const isLocal = command === 0
  return { address: isLocal ? undefined : source(bytes.readUInt8(13) >> 4, bytes.subarray(16, length)), bytes: length }
}

/** The source address of a family: 1 is IPv4 and 2 is IPv6; others, such as Unix sockets, have none. */
function source(family: number, addresses: Buffer): string | undefined {
  if (family === 1 && addresses.length >= 12) return addresses.subarray(0, 4).join('.')
  if (family === 2 && addresses.length >= 36) return textOfIpv6(addresses.subarray(0, 16))
  if (family === 1 || family === 2) throw new ProxyHeaderError('The PROXY header is too short for its addresses.')
  return undefined
}

/** As the URL parser writes it: the longest run of zeros is `::`. */
function textOfIpv6(bytes: Buffer): string {
  const mapped = bytes.subarray(0, 12).equals(MAPPED) ? bytes.subarray(12).join('.') : undefined
  if (mapped !== undefined) return mapped
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16))
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

const MAPPED = Buffer.from('00000000000000000000ffff', 'hex')
