/**
 * The head of a request, written once for all requests with the same URL and headers: to write it for each would cost a
 * small request 4 µs, to compare its headers costs 0.1.
 */

import type { BytePieces } from '../core/byte-pieces.ts'
import { messageOf } from '../core/error-message.ts'
import type { ForwardProxies, ForwardProxy } from '../core/forward-proxies.ts'
import { type Origin, originOf } from './origin.ts'
import { TransportError } from './transport-error.ts'

type RequestHeaders = Readonly<Record<string, string>>

type RequestMethod = 'GET' | 'POST'

/** A request to send. The body is text, or pieces that are sent in order and not copied. */
export interface ClientRequest {
  /** `POST` unless it is set. */
  readonly method?: RequestMethod | undefined
  readonly url: string
  readonly headers: RequestHeaders
  readonly body: string | BytePieces
  /** True if it must never be sent a second time, whatever becomes of its connection. */
  readonly isSentOnce?: true | undefined
}

export interface OutgoingHead {
  readonly method: RequestMethod
  readonly headers: RequestHeaders
  readonly origin: Origin
  /** Request line and fields up to `content-length: `; the number and an empty line are to follow. */
  readonly text: string
  /** If not, its values are Latin-1, and a socket would write them as UTF-8. */
  readonly isAscii: boolean
}

/** Fields that this client sets itself; a caller's own would contradict them. */
const OWN_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
const FIELD_NAME = /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/
/** Latin-1 without control characters: a line end in a value would begin another field, or another request. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** URLs are those of the configured targets; this bounds what reloads leave. */
const HEADS_MAX = 4096

/** The last head for each URL. */
export class RequestHeads {
  private readonly known = new Map<string, OutgoingHead>()

  constructor(private readonly proxies: () => ForwardProxies) {}

  /** Throws `TransportError` for a URL that is not HTTP, a header that cannot be sent, and an unusable proxy. */
  of({ url, headers, method = 'POST' }: ClientRequest): OutgoingHead {
    const known = this.known.get(url)
    if (known !== undefined && known.method === method && areEqual(known.headers, headers)) return known
    const place = placeOf(url)
    const head = written(place, headers, method, originOf(place, proxyFor(place, this.proxies())))
    if (this.known.size >= HEADS_MAX) this.known.clear()
    this.known.set(url, head)
    return head
  }
}

function proxyFor(place: URL, proxies: ForwardProxies): ForwardProxy | undefined {
  try {
    return proxies.of(place)
  } catch (error) {
    throw new TransportError('unconnected', messageOf(error), 'proxy_invalid')
  }
}

function areEqual(some: RequestHeaders, others: RequestHeaders): boolean {
  let count = 0
  for (const name in others) {
    if (some[name] !== others[name]) return false
    count += 1
  }
  for (const _ in some) count -= 1
  return count === 0
}

function written(place: URL, headers: RequestHeaders, method: RequestMethod, origin: Origin): OutgoingHead {
  const { pathname, search, host } = place
  // A proxy that passes requests on gets the whole URL; one that only makes a tunnel never sees this head.
  const proxy = origin.isSecure ? undefined : origin.proxy
  const fields = new Map([
    ['host', host],
    // Only bytes that are not compressed can be counted and copied.
    ['accept-encoding', 'identity'],
    ['accept', '*/*'],
    // Some firewalls in front of providers reject requests without one.
    ['user-agent', 'weir'],
    ...(proxy?.authorization === undefined ? [] : [['proxy-authorization', proxy.authorization] as const]),
  ])
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    if (!FIELD_NAME.test(name) || OWN_FIELDS.has(lower))
      throw new TransportError('invalid', `header ${JSON.stringify(name)} cannot be sent`)
    if (!FIELD_VALUE.test(value)) throw new TransportError('invalid', `the value of header ${lower} cannot be sent`)
    fields.set(lower, value)
  }
  const lines = [...fields].map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const target = `${proxy === undefined ? '' : `http://${host}`}${pathname}${search}`
  const text = `${method} ${target} HTTP/1.1\r\n${lines}content-length: `
  return { method, headers: { ...headers }, origin, text, isAscii: /^[\x00-\x7f]*$/.test(text) }
}

function placeOf(url: string): URL {
  if (!URL.canParse(url)) throw new TransportError('invalid', 'the URL cannot be parsed')
  const place = new URL(url)
  if (place.protocol !== 'http:' && place.protocol !== 'https:')
    throw new TransportError('invalid', `the URL is ${place.protocol}, which is not HTTP`)
  return place
}
