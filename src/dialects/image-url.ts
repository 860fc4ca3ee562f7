/**
 * Which URLs a caller may let a provider fetch. weir fetches none itself, but a provider within the operator's own
 * network (vLLM, Ollama) could fetch anything that this network lets it reach.
 */

import { invalid } from './invalid-field.ts'

/** `public`: https and public hosts only. `any`: http and private hosts too. */
export type ImageUrls = 'public' | 'any'

/** Throws `CallerError` if the URL is not allowed. `path` is the path of the field. */
export function checkImageUrl(url: string, path: string, allowed: ImageUrls): void {
  if (allowed === 'any') {
    if (!/^https?:\/\//i.test(url)) throw invalid(path, 'must be an http or https URL, or a base64 data URL')
  } else if (!isPublicHttps(url)) {
    throw invalid(path, 'must be an https URL of a public host, without credentials, or a base64 data URL')
  }
}

/** True for a URL rather than data. Base64 has no colon. The text may be long, so only its beginning is read. */
export function isAddress(text: string): boolean {
  return /^\s*(?!data:)[a-z][a-z0-9+.-]{0,31}:/i.test(text.slice(0, 64))
}

/**
 * The authority as written: no user, and no character that URL parsers disagree about, such as a backslash, a blank or
 * a line break. `URL` then decodes the host (numbers, percent signs, full-width digits) as a browser does. The length
 * is limited because that takes quadratic time.
 */
const WRITTEN = /^https:\/\/[^\s\\/?#@]{1,1024}(?:[/?#]|$)/i
/** The longest name in the DNS. */
const HOST_MAX = 253

function isPublicHttps(url: string): boolean {
  if (!WRITTEN.test(url) || !URL.canParse(url)) return false
  const { protocol, hostname, username, password } = new URL(url)
  if (protocol !== 'https:' || username !== '' || password !== '') return false
  const host = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
  if (host.length > HOST_MAX) return false
  if (host.startsWith('[')) return isPublicV6(host.slice(1, -1))
  return /^\d+(?:\.\d+){3}$/.test(host) ? isPublicV4(host.split('.').map(Number)) : isPublicName(host)
}

/**
 * Top-level names outside the public DNS (RFC 6761, RFC 6762, RFC 8375, RFC 9476, ICANN's `internal`), and names that
 * private networks commonly use.
 */
const PRIVATE_ENDINGS = new Set(
  'localhost local internal intranet private lan home corp localdomain test invalid example alt onion arpa'.split(' '),
)

function isPublicName(host: string): boolean {
  const labels = host.split('.')
  return labels.length > 1 && labels.every((label) => label !== '') && !PRIVATE_ENDINGS.has(labels.at(-1) ?? '')
}

/** Ranges that are not globally reachable (IANA special-purpose registry), multicast and reserved. */
const PRIVATE_V4: readonly (readonly [first: number, prefix: number])[] = (
  [
    ['0.0.0.0', 8],
    ['10.0.0.0', 8],
    ['100.64.0.0', 10],
    ['127.0.0.0', 8],
    ['169.254.0.0', 16],
    ['172.16.0.0', 12],
    ['192.0.0.0', 24],
    ['192.0.2.0', 24],
    ['192.88.99.0', 24],
    ['192.168.0.0', 16],
    ['198.18.0.0', 15],
    ['198.51.100.0', 24],
    ['203.0.113.0', 24],
    ['224.0.0.0', 3],
  ] as const
).map(([address, prefix]) => [numberOf(address.split('.').map(Number)), prefix])

function numberOf(bytes: readonly number[]): number {
  return bytes.reduce((sum, byte) => sum * 256 + byte, 0)
}

function isPublicV4(bytes: readonly number[]): boolean {
  const address = numberOf(bytes)
  return !PRIVATE_V4.some(([first, prefix]) => Math.floor((address - first) / 2 ** (32 - prefix)) === 0)
}

/**
 * True for global unicast (2000::/3) except for reserved ranges and those that embed an IPv4 address: 2001::/23
 * (protocols, Teredo), 2001:db8::/32 and 3fff::/20 (documentation), 2002::/16 (6to4). Mapped, translated, local and
 * link-local addresses are outside 2000::/3.
 */
function isPublicV6(host: string): boolean {
  const [first = 0, second = 0] = groupsOf(host)
  if (first < 0x2000 || first > 0x3fff || first === 0x2002) return false
  if (first === 0x2001) return second >= 0x0200 && second !== 0x0db8
  return first !== 0x3fff || second >= 0x1000
}

/** The groups before `::`, in the form in which `URL` writes an address. */
function groupsOf(host: string): readonly number[] {
  const [head = ''] = host.split('::')
  return head === '' ? [] : head.split(':').map((group) => Number.parseInt(group, 16))
}
