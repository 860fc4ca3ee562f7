/**
 * Warnings: what is valid, and probably not what the operator means. A warning states the value, why it is doubtful and
 * what to do. It never prevents a start.
 */

import { ForwardProxies } from '../core/forward-proxies.ts'
import { priceAgeDays } from '../core/money.ts'
import { mayMatch } from '../core/permission.ts'
import type { Check } from './check-context.ts'
import { decimal } from './found-values.ts'
import { didYouMean, type Path } from './problems.ts'
import { defaultBaseUrl, providerDialects } from './provider-dialects.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'
import { instant } from './timestamps.ts'

type Model = Loose<File['models'][number]>
type Provider = Loose<File['providers'][string]>

/** `revoked`: since when keys are revoked by command, in Unix milliseconds by id. */
export function checkDoubtful(check: Check, nowMs: number, revoked: ReadonlyMap<string, number>): void {
  checkListen(check)
  checkCompaction(check)
  for (const [name, problem] of new ForwardProxies(check.env).problems) check.problems.warn([name], problem)
  for (const [name, provider] of Object.entries(check.file.providers ?? {})) {
    if (provider === undefined) continue
    const path = ['providers', name]
    checkIsUsed(check, name, path)
    checkCredential(check, provider, path)
    checkBaseUrl(check, provider, [...path, 'base_url'])
  }
  check.file.models?.forEach((model, index) => {
    if (model === undefined) return
    checkPrices(check, model.price, ['models', index, 'price'])
    checkPriceAge(check, model.price?.as_of, ['models', index, 'price', 'as_of'], nowMs)
    checkLimits(check, model, ['models', index])
  })
  checkOwners(check, nowMs)
  if (revoked.size > 0) checkRevoked(check, revoked)
}

const ANY_ADDRESS: readonly string[] = ['0.0.0.0', '::', '[::]']

function checkListen({ file, problems }: Check): void {
  const host = file.listen?.host
  if (host === undefined || !ANY_ADDRESS.includes(host)) return
  problems.warn(
    ['listen', 'host'],
    `${host} accepts connections from every network, and weir does not encrypt them; put a proxy that ends TLS in ` +
      'front, or listen on 127.0.0.1',
  )
}

/** A key that is kept in Redis would be of no use: only a secret that all nodes have could protect it there. */
function checkCompaction({ file, problems }: Check): void {
  if (file.ledger === undefined || file.ledger === 'embedded' || file.compaction !== undefined) return
  problems.warn(
    ['compaction', 'keys'],
    'is missing, so each node encrypts compacted conversations with a key of its own in data_dir, and no other node ' +
      'that shares this Redis can go on with them; set the same keys on all nodes (openssl rand -base64 32)',
  )
}

function checkIsUsed({ file, problems }: Check, name: string, path: Path): void {
  const targets = file.models?.map((model) => model?.targets)
  // A target that is missing or has a mistake may be of this provider.
  const isClear = targets?.every(
    (list) =>
      list?.some(Boolean) && list.every((target) => Object.hasOwn(file.providers ?? {}, target?.provider ?? '')),
  )
  const isUsed = targets?.some((list) => list?.some((target) => target?.provider === name))
  if (isClear === true && isUsed === false)
    problems.warn(path, `no model uses provider "${name}"; add a target, or remove the provider`)
}

/** Headers that carry a credential. */
const CREDENTIAL_HEADERS: readonly string[] = ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key']

function checkCredential({ problems }: Check, provider: Provider, path: Path): void {
  const { dialect, headers } = provider
  if (dialect === undefined || providerDialects[dialect].credentials !== undefined) return
  const address = provider.base_url ?? defaultBaseUrl(dialect, {})
  const isGiven = Object.keys(headers ?? {}).some((name) => CREDENTIAL_HEADERS.includes(name.toLowerCase()))
  if (Object.hasOwn(provider, 'api_key') || Object.hasOwn(provider, 'credentials') || isGiven || !isHosted(address))
    return
  problems.warn(
    [...path, 'api_key'],
    `is missing, and ${new URL(address).hostname} is a hosted provider, which rejects requests without one; ` +
      `set api_key: "\${NAME}"`,
  )
}

/** Whether an address is of a public host over HTTPS: servers of one's own often need no key. */
function isHosted(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, hostname } = new URL(address)
  if (protocol !== 'https:' || /^[\d.]+$/.test(hostname) || hostname.startsWith('[')) return false
  return /\.(?!localhost|local|internal|intranet|lan|home|corp|test|invalid|example)[a-z-]+$/.test(hostname)
}

/** The paths that weir appends to `base_url`, and the first part of them, which belongs there only once. */
const OWN_PATHS: Readonly<Record<string, RegExp>> = {
  anthropic: /\/v1$/,
  gemini: /\/v1(?:beta|alpha)?$/,
  vertex: /\/v1(?:beta1)?$/,
  azure: /\/openai$|\/openai\/deployments(?:\/.*)?$/,
}

const ENDPOINTS = /\/(?:chat\/completions|completions|responses|messages|images\/generations|models)$/

function checkBaseUrl({ problems, shown }: Check, { dialect, base_url }: Provider, path: Path): void {
  if (dialect === undefined || base_url === undefined || !URL.canParse(base_url)) return
  const { pathname, hostname } = new URL(base_url)
  const way = pathname.replace(/\/+$/, '')
  const value = shown(path, base_url)
  const twice = OWN_PATHS[dialect]
  if (ENDPOINTS.test(way)) {
    problems.warn(path, `${value} ends with the path of an endpoint, which weir appends; remove it`)
  } else if (/(\/v\d\w*)\1$/.test(way)) {
    problems.warn(path, `${value} has ${/(\/v\d\w*)\1$/.exec(way)?.[1]} twice; keep one`)
  } else if (twice?.test(way) === true) {
    problems.warn(path, `${value} ends with ${twice.exec(way)?.[0]}, which weir appends itself; remove it`)
  } else if (dialect === 'openai' && (way === '' || (hostname === 'api.openai.com' && way !== '/v1'))) {
    problems.warn(path, `${value} has no /v1, which the API of OpenAI and compatible servers begins with; append it`)
  }
}

/** In dollars per million tokens. The cheapest models cost 0.01, the dearest 600. */
const PRICE_MIN = 0.001
const PRICE_MAX = 1000
/** In dollars per image. */
const IMAGE_PRICE_MAX = 50

/** Fields of a price that are no amounts. */
const NO_AMOUNTS: readonly string[] = ['factor', 'input_tokens']

type Amounts = Readonly<Record<string, unknown>> & {
  readonly input?: number | undefined
  readonly cached_input?: number | undefined
}

/** Also of the tiers and lengths of a price. */
function checkPrices(check: Check, price: Amounts | undefined, path: Path): void {
  const { problems } = check
  for (const [part, value] of Object.entries(price ?? {})) {
    const at = [...path, part]
    if (part === 'above' && Array.isArray(value))
      for (const [i, row] of value.entries()) checkPrices(check, row, [...at, i])
    else if (part === 'tiers' && isTable(value))
      for (const [name, tier] of Object.entries(value)) if (isTable(tier)) checkPrices(check, tier, [...at, name])
    if (typeof value !== 'number' || value === 0 || NO_AMOUNTS.includes(part)) continue
    const text = decimal(value)
    if (part === 'image') {
      if (value > IMAGE_PRICE_MAX) problems.warn(at, `${text} dollars per image is far above any price; check it`)
    } else if (value < PRICE_MIN) {
      const million = decimal(Number((value * 1_000_000).toPrecision(12)))
      problems.warn(
        at,
        `${text} dollars per million tokens is far below any price; prices are per million (${million} if this one ` +
          'is per token)',
      )
    } else if (value > PRICE_MAX) {
      problems.warn(at, `${text} dollars per million tokens is far above any price; prices are dollars per million`)
    }
  }
  const { input, cached_input: cached } = price ?? {}
  if (input !== undefined && input >= PRICE_MIN && cached !== undefined && cached > input) {
    problems.warn([...path, 'cached_input'], `${decimal(cached)} is more than input (${decimal(input)}); swap them?`)
  }
}

function isTable(value: unknown): value is Amounts {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function checkPriceAge({ file, problems }: Check, asOf: string | undefined, path: Path, nowMs: number): void {
  const most = file.prices?.warn_after_days
  const days = asOf === undefined ? undefined : priceAgeDays(asOf, nowMs)
  if (days === undefined) return
  if (Number.isNaN(days)) problems.add(path, 'is no day of the calendar')
  else if (most !== undefined && days > most)
    problems.warn(path, `the price is ${days} days old; compare it with the provider's`)
}

function checkLimits({ problems }: Check, { context_window: all, max_output_tokens: output }: Model, path: Path): void {
  if (all === undefined || output === undefined || output <= all) return
  problems.warn(
    [...path, 'max_output_tokens'],
    `${output} is more than context_window (${all}), which input and output share; lower it, or raise context_window`,
  )
}

/** Globs that match no model, and keys that have expired. */
function checkOwners(check: Check, nowMs: number): void {
  const names = check.file.models?.flatMap((model) => model?.name ?? []) ?? []
  // Thousands of keys share a few globs.
  const known = new Map<string, boolean>()
  const matchesNone = (glob: string) => {
    const isNone = known.get(glob) ?? !names.some((name) => mayMatch(glob, name))
    known.set(glob, isNone)
    return isNone
  }
  const checkGlobs = (globs: readonly (string | undefined)[] | undefined, path: Path) => {
    globs?.forEach((glob, index) => {
      if (glob === undefined || !matchesNone(glob)) return
      const at = [...path, index]
      const advice = didYouMean(glob, names) || '; correct it, or remove it'
      check.problems.warn(at, `${check.shown(at, glob)} matches no model${advice}`)
    })
  }
  const reserved = leastReserved(check.file.models)
  check.file.organizations?.forEach((organization, index) => {
    if (organization === undefined) return
    const path = ['organizations', index]
    checkTokens(check, organization.limits?.tokens_per_minute, reserved, [...path, 'limits', 'tokens_per_minute'])
    checkGlobs(organization.models, [...path, 'models'])
    organization.rules?.forEach((rule, at) => {
      checkGlobs(rule?.allow, [...path, 'rules', at, 'allow'])
      checkGlobs(rule?.deny, [...path, 'rules', at, 'deny'])
    })
    organization.keys?.forEach((key, at) => {
      if (key === undefined) return
      const inside = [...path, 'keys', at]
      checkTokens(check, key.limits?.tokens_per_minute, reserved, [...inside, 'limits', 'tokens_per_minute'])
      checkGlobs(key.models, [...inside, 'models'])
      checkExpiry(check, key.expires_at, [...inside, 'expires_at'], nowMs)
    })
  })
}

/** Of output, for a request without an output limit: as `SLICE_TOKENS` of the gateway. */
const RESERVED_TOKENS = 4096

/** What a request without an output limit reserves of output at least; 0 if a model takes requests without output. */
function leastReserved(models: Check['file']['models']): number {
  const amounts = models?.map((model) => {
    const isChat = !model?.supports?.some((each) => each === 'image_generation' || each === 'embeddings')
    return isChat ? (model?.max_output_tokens ?? RESERVED_TOKENS) : 0
  })
  return Math.min(RESERVED_TOKENS, ...(amounts ?? [0]))
}

/** A limit of 0 is meant to refuse all. */
function checkTokens({ problems }: Check, most: number | undefined, reserved: number, path: Path): void {
  if (most === undefined || most === 0 || most >= reserved) return
  problems.warn(
    path,
    `${most} refuses every request without an output limit, for which weir reserves ${reserved} tokens; raise it, or ` +
      'let callers send one (max_tokens)',
  )
}

function checkExpiry({ problems }: Check, text: string | undefined, path: Path, nowMs: number): void {
  const expiresAtMs = text === undefined ? undefined : instant(text)
  if (expiresAtMs === undefined || expiresAtMs > nowMs) return
  problems.warn(path, `the key expired at ${text}, and every request with it is rejected; extend it, or remove the key`)
}

function checkRevoked({ file, problems }: Check, revoked: ReadonlyMap<string, number>): void {
  file.organizations?.forEach((organization, index) => {
    organization?.keys?.forEach((key, at) => {
      const sinceMs = revoked.get(key?.id ?? '')
      if (sinceMs === undefined || key?.disabled === true) return
      problems.warn(
        ['organizations', index, 'keys', at],
        `key "${key?.id}" is revoked by command since ${new Date(sinceMs).toISOString()}, and every request with it ` +
          'is rejected; remove it here, or set disabled: true',
      )
    })
  })
}
