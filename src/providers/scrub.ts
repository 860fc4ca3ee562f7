/**
 * Removes secrets from a provider's error messages before a caller sees them: keys, addresses, the operator's accounts.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'

const CHARS_MAX = 500

/** What may follow a host: a port, and a path or query up to a space or quote. */
const REST = String.raw`(?::\d{1,5})?(?:[/?#][^\s"'<>\`\\]*)?`
/** As `REST`, with a port. */
const PORT_AND_REST = String.raw`:\d{2,5}(?:[/?#][^\s"'<>\`\\]*)?`
/** Punctuation at the end of an address belongs to the sentence. */
const END = String.raw`(?<![).,;:!?\]}])`

/** What is removed, and its replacement. The order matters: URLs before the hosts, paths and keys that they contain. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [new RegExp(String.raw`\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>\`\\]*${END}`, 'gi'), '[url]'],
  [/\b[a-z][a-z0-9+.-]*%3a%2f%2f[^\s"'<>`\\]*/gi, '[url]'],
  [/(?<![\w:/])\/\/[a-z0-9[][^\s"'<>`\\]*/gi, '[url]'],
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*/g, '[redacted]'],
  [new RegExp(String.raw`\blocalhost\b${REST}`, 'gi'), '[host]'],
  [
    /\b(deployment|account|project|organization|organisation|subscription|tenant|resource)(\s+(?:id\s+)?|[=:]\s*)['"`]?[\w.-]*[\d_-][\w.-]*['"`]?/gi,
    '$1$2[redacted]',
  ],
  [/\b(?:Bearer|Basic)(?:\s*[:=]\s*|\s+|%20)[^\s"',;]+/gi, '[credential]'],
  [/(?<![A-Za-z0-9])eyJ[\w-]{8,}(?:\.[\w-]+)*/g, '[credential]'],
  // Anything named a key that contains a digit. "unknown key: temperature" is useful and stays.
  [
    /\b((?:x-)?(?:api[-_\x20]?)?key|(?:access[-_\x20]?)?token|secret|password|credential)(\s*[=:]\s*|\s+)['"`]?(?=[\w./+=-]*\d)[\w./+=-]{8,}/gi,
    '$1$2[redacted]',
  ],
  [
    /\b(projects|subscriptions|resourceGroups|accounts|organizations|tenants|deployments|endpoints)\/[\w.-]+/g,
    '$1/[redacted]',
  ],
  [/(?<![\w.])\/(?:var|home|root|usr|opt|srv|mnt|etc|tmp|data|app|models?|workspace)\/[^\s'"`,;)]+/g, '[path]'],
  [
    /(?<![A-Za-z0-9])(?:sk|pk|rk|gwk|key|gsk|xai|ghp|gho|ghs|glpat|hf|org|proj|acct|req|sess)[-_][\w*.-]{6,}/g,
    '[redacted]',
  ],
  [/(?<![A-Za-z0-9])(?:AIza|AKIA|ASIA|ABIA|AROA)[\w*-]{8,}/g, '[redacted]'],
  [/\barn:[\w:/.-]+/gi, '[redacted]'],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '[redacted]'],
  [new RegExp(String.raw`\[[0-9a-f:.]*:[0-9a-f:.]*(?:%[\w.-]+)?\]${REST}`, 'gi'), '[address]'],
  [new RegExp(String.raw`(?<!\w)(?:::ffff:)?\d{1,3}(?:\.\d{1,3}){3}\b${REST}`, 'gi'), '[address]'],
  [/(?<!\w)(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?:%[\w.-]+)?/gi, '[address]'],
  [
    /(?<!\w)(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?(?![\w:])(?:%[\w.-]+)?/gi,
    '[address]',
  ],
  [
    new RegExp(
      String.raw`\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|net|org|io|ai|dev|cloud|tech|xyz|internal|local|lan|corp|home|svc|cluster|test|invalid|azure|app|co|eu|us|uk|de|fr|nl|ch|se|jp|ca|au|cn)\b${REST}`,
      'gi',
    ),
    '[host]',
  ],
  // A host name with a port. A single word may be a field with its value, so it must contain a digit or follow a word
  // that speaks of a connection.
  [new RegExp(String.raw`\b(?=[a-z0-9-]*[-.\d])[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*${PORT_AND_REST}`, 'gi'), '[host]'],
  [
    new RegExp(
      String.raw`\b(connect(?:ed|ing|ion)?(?:\x20to)?|dial(?:\x20tcp)?|host(?:name)?|upstream|backend|lookup|E(?:CONN|HOST|NET|TIMED|NOT|AI)[A-Z_]+)(\s+|\s*[=:]\s*)['"\`]?[a-z][\w.-]*${PORT_AND_REST}`,
      'gi',
    ),
    '$1$2[host]',
  ],
  [/\b(getaddrinfo(?:\s+E[A-Z_]+)?|ENOTFOUND|EAI_AGAIN|lookup)(\s+)['"`]?[a-z0-9][\w.-]*/gi, '$1$2[host]'],
  [/\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{32,}\b/g, '[redacted]'],
  [/\b(?=[\w/+]*\d)(?=[\w/+]*[A-Z])[\w/+]{40,}={0,2}/g, '[redacted]'],
  [/\b\d{12,}\b/g, '[redacted]'],
]

const NAMES = 'key|token|secret|password|passwd|passphrase|credential'
/**
 * What a secret may be called, what may stand between that and the secret, and the word that may be one: not another
 * such name, which the secret follows (`key provided: token hunter`).
 */
const NAMED_SECRET = new RegExp(
  String.raw`((?:\b(?:unknown|unexpected|unrecognized|unsupported|extra|missing|duplicate|additional|required)\s+)?)` +
    String.raw`((?<![A-Za-z0-9])(?:[a-z]{1,16}[-_\x20])?` +
    `(?:api)?(?:${NAMES})['"\`]?)` +
    String.raw`((?:\s+(?:is|was|of|provided|supplied|given|value|used)\b)*(?:\s*[:=]\s*|\s+)['"\`]?)` +
    String.raw`((?!(?:${NAMES})['"\`]?[\s:=])[^\s"'\`,;<>()[\]{}]+)`,
  'gi',
)
/** Words that follow those names in ordinary sentences. */
const SENTENCE_WORDS: ReadonlySet<string> = new Set(
  (
    'a about access after all allowed also an and any are argument arguments as at authentication ' +
    'authorization be because been before being bucket budget but by can cannot context cost could count ' +
    'counts daily denied did disabled does doesn’t empty endpoint error exceeded exceeds expired field file ' +
    'for format found from generation given goes had has have header headers id ids if in incorrect index ' +
    'input invalid is isn’t it its length limit limits management manager may memory might missing more must ' +
    'name named names needs neither no nor not null of on once only or output owner pair pairs parameter ' +
    'parameters pass passed path per permission permissions please position price prices property provided ' +
    'quota range rate rates refresh rejected required revoked rotation scope sequence shall should size so ' +
    'string supplied than that the their then there this to too type types unknown unless until usage use ' +
    'used using valid validation value values vault via was wasn’t were when where which while who will ' +
    'window with within without would wrong you your object number boolean undefined true false array list'
  ).split(' '),
)
/** A number of tokens, for example. */
const SMALL_NUMBER = /^\d{1,9}$/

/** `invalid_grant`, `access_denied`. */
function isErrorCode(word: string): boolean {
  const [first = '', ...rest] = word.split('_')
  return rest.length > 0 && SENTENCE_WORDS.has(first) && rest.every((each) => /^[a-z]{2,12}$/.test(each))
}

/** Also a secret without a digit, by what it is called: `password hunter`, `api-key is "hunter"`. */
function withoutNamedSecrets(text: string): string {
  return text.replace(NAMED_SECRET, (all: string, adjective: string, name: string, between: string, found: string) => {
    const word = found.replace(/[.:!?]+$/, '')
    const end = found.slice(word.length)
    // "Unknown key: temperature" names a field.
    const isField = adjective !== '' && /^['"`]?(?:\w+\s)?(?:key|token)['"`]?$/i.test(name) && !/\d/.test(word)
    if (isField || word.length < 3 || SMALL_NUMBER.test(word)) return all
    if (SENTENCE_WORDS.has(word.toLowerCase().replace("'", '’')) || isErrorCode(word)) return all
    return `${adjective}${name}${between}[redacted]${end}`
  })
}

/**
 * At most 500 characters of the text, on one line, with everything that looks like a secret replaced. `hide`: further
 * words to remove.
 */
export function scrub(text: string, hide: readonly string[] = []): string {
  let clean = text.slice(0, 4 * CHARS_MAX)
  for (const word of hide) if (word.length >= 4) clean = clean.replaceAll(word, '[redacted]')
  for (const [pattern, instead] of SECRETS) clean = clean.replace(pattern, instead)
  clean = withoutNamedSecrets(clean)
  clean = clean.replace(/\s+/g, ' ').trim()
  return clean.length > CHARS_MAX ? `${clean.slice(0, CHARS_MAX - 1)}…` : clean
}

/**
 * The error with a message that a caller may see, without the operator's secrets; likewise the provider's own code and
 * message. Returns the same object if nothing was removed.
 */
export function conceal(error: ProviderError, endpoint: Endpoint): ProviderError {
  const hide = ownWords(endpoint)
  const message = scrub(error.message, hide)
  const hidden = WORDS.flatMap((name) => {
    const word = error.detail[name]
    const shown = word === undefined ? undefined : scrub(word, hide)
    return shown === word ? [] : [[name, shown] as const]
  })
  if (message === error.message && hidden.length === 0) return error
  return new ProviderError(error.kind, message, { ...error.detail, ...Object.fromEntries(hidden) })
}

/** What a provider has written into its error beside the message. */
const WORDS = ['providerCode', 'providerMessage', 'ownType', 'ownCode', 'param'] as const

const LOGGED_CHARS_MAX = 300
/** A passage in quotation marks. An apostrophe within a word opens and closes none. */
const QUOTED = /(?<!\w)(["'`“])(.*?)(?:\1|”)(?!\w)/g
/** A name, a number or an address: not a sentence. */
const ONE_WORD = /^[\w.:/@-]{0,64}$/

/** A provider's scrubbed message for the log, at most 300 characters. Passages that quote the caller are left out. */
export function loggedMessage(message: string): string {
  const bare = message.replace(QUOTED, (all: string, open: string, text: string) =>
    ONE_WORD.test(text) ? all : `${open}…${open === '“' ? '”' : open}`,
  )
  return bare.length > LOGGED_CHARS_MAX ? `${bare.slice(0, LOGGED_CHARS_MAX - 1)}…` : bare
}

/** Credentials, account, project, host and path of a provider, and the values of its own headers. */
function ownWords({ apiKey, aws, identity, project, baseUrl, headers }: Endpoint): readonly string[] {
  const { host, hostname, pathname } = new URL(baseUrl)
  const { keys } = aws ?? {}
  const secrets = [apiKey, keys?.accessKeyId, keys?.secretAccessKey, keys?.sessionToken, ...Object.values(headers)]
  const account = identity?.cloud === 'google' ? identity.serviceAccount?.email : undefined
  return [...secrets, account, project, host, hostname, pathname].filter((word) => word !== undefined)
}
