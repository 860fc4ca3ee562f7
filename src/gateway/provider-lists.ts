/**
 * Reads what providers list of their models, for `GET /v1/models`: a pattern stands for models that only its provider
 * knows. No request waits for this, and it costs nothing without patterns.
 */

import { isRest } from '../catalog/catalog.ts'
import { prefixOf } from '../core/model-config.ts'
import { ProviderError } from '../core/provider-error.ts'
import { slowTicker, type Ticking } from '../core/ticker.ts'
import type { ListRequest } from '../providers/provider.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import { type Gateway, type Upstream, upstreamOf } from './gateway.ts'
import { parseJson, sendForText } from './provider-call.ts'

/** A list is read again when it is so old. */
const AGE_MS = 10 * 60_000
/** After a failure that is soon over, perhaps. */
const RETRY_MS = 60_000
/** A list that cannot be read again counts for so long. */
const STALE_MS = 60 * 60_000
/** For all lists of a provider. */
const TIMEOUT_MS = 30_000
const BODY_BYTES_MAX = 1024 * 1024
/** Of one list; each provider has less. */
const PAGES_MAX = 10
const NAMES_MAX = 1000

/** A provider that has models of patterns. */
interface Source {
  readonly upstream: Upstream
  /** The texts before the `*` of its targets. */
  readonly prefixes: readonly string[]
}

interface List {
  readonly source: Source
  names: readonly string[]
  /** When they were asked for (`performance.now()`); undefined if there are none. */
  readMs: number | undefined
  dueMs: number
  isReading: boolean
  hasFailed: boolean
}

export class ProviderLists implements Ticking {
  place = -1
  version = 0
  private lists: ReadonlyMap<string, List> = new Map()

  /** `failed`: the list of a provider cannot be read; called once until it can be. */
  constructor(private readonly failed: (provider: string, error: ProviderError) => void) {}

  /** Reads the lists for these patterns from now on. What is known of a provider that stays the same is kept. */
  use(gateway: Pick<Gateway, 'catalog' | 'upstreams'>): void {
    const sources = [...sourcesOf(gateway)].map(([provider, source]): [string, List] => {
      const known = this.lists.get(provider)
      return [provider, known !== undefined && isSame(known.source, source) ? known : newList(source)]
    })
    this.lists = new Map(sources)
    this.version++
    if (this.lists.size === 0) this.stop()
    else slowTicker.add(this)
  }

  stop(): void {
    slowTicker.remove(this)
  }

  /** The names that the provider lists, sorted; empty if they are not known. */
  of(provider: string): readonly string[] {
    return this.lists.get(provider)?.names ?? []
  }

  /** Resolves when what it began to read has been read. */
  tick(nowMs: number): Promise<unknown> {
    const begun: Promise<void>[] = []
    for (const [provider, list] of this.lists) {
      if (list.readMs !== undefined && nowMs - list.readMs >= STALE_MS) this.take(list, [], undefined)
      if (!list.isReading && nowMs >= list.dueMs) begun.push(this.read(provider, list, nowMs))
    }
    return Promise.all(begun)
  }

  private async read(provider: string, list: List, nowMs: number): Promise<void> {
    list.isReading = true
    list.dueMs = nowMs + AGE_MS
    try {
      this.take(list, await namesOf(list.source), nowMs)
      list.hasFailed = false
    } catch (cause) {
      const error = cause instanceof ProviderError ? cause : new ProviderError('failed', 'weir failed', { cause })
      // A provider that rejects this will do so again.
      if (!REJECTIONS.has(error.detail.status ?? 0)) list.dueMs = nowMs + RETRY_MS
      if (!list.hasFailed && this.lists.get(provider) === list) this.failed(provider, error)
      list.hasFailed = true
    } finally {
      list.isReading = false
    }
  }

  private take(list: List, names: readonly string[], readMs: number | undefined): void {
    list.readMs = readMs
    if (Bun.deepEquals(list.names, names)) return
    list.names = names
    this.version++
  }
}

/** Statuses of a provider that has no list, or does not allow it to this credential. */
const REJECTIONS: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 410, 422, 501])

/** By provider; without those that have no list. */
function sourcesOf(gateway: Pick<Gateway, 'catalog' | 'upstreams'>): ReadonlyMap<string, Source> {
  const sources = new Map<string, Source & { readonly prefixes: string[] }>()
  for (const target of gateway.catalog.models.flatMap(({ targets }) => targets)) {
    const prefix = prefixOf(target.model)
    if (prefix === undefined) continue
    const upstream = upstreamOf(gateway, { target })
    if (upstream.provider.models === undefined) continue
    sources.getOrInsert(target.provider, { upstream, prefixes: [] }).prefixes.push(prefix)
  }
  return sources
}

function isSame(one: Source, other: Source): boolean {
  return Bun.deepEquals(one.upstream.endpoint, other.upstream.endpoint) && Bun.deepEquals(one.prefixes, other.prefixes)
}

function newList(source: Source): List {
  const dueMs = Number.NEGATIVE_INFINITY
  return { source, names: [], readMs: undefined, dueMs, isReading: false, hasFailed: false }
}

/** Throws `ProviderError` if the provider has no list, or one that cannot be read. */
async function namesOf({ upstream: { provider, endpoint }, prefixes }: Source): Promise<readonly string[]> {
  const { models } = provider
  if (models === undefined) return []
  const dueMs = performance.now() + TIMEOUT_MS
  const names: string[] = []
  for (const first of models.requests(endpoint, prefixes)) {
    let request: ListRequest | undefined = first
    for (let page = 0; page < PAGES_MAX && request !== undefined; page++) {
      const call = new UpstreamCall(request, endpoint, false, dueMs)
      const text = await sendForText(call, provider, () => {}, BODY_BYTES_MAX)
      const body = parseJson(text, call.status, undefined, JSON.parse)
      names.push(...models.names(body))
      request = request.next?.(body)
    }
  }
  const fits = (name: string) => (prefix: string) => name.startsWith(prefix) && isRest(name.slice(prefix.length))
  const wanted = names.filter((name) => prefixes.some(fits(name)))
  return [...new Set(wanted)].sort().slice(0, NAMES_MAX)
}
