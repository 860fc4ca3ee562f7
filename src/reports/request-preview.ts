/**
 * What a request would get now: it takes the way of every request, through the same code, up to the call of a provider.
 * The ledger is asked what it would reply, and reserves nothing.
 */

import type { Needs } from '../catalog/capability.ts'
import type { Catalog, Key, ModelKind } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { Config } from '../config/config.ts'
import { BytePieces } from '../core/byte-pieces.ts'
import { CallerError } from '../core/caller-error.ts'
import { type ChatRequest, NO_HINTS, NO_TEXTS } from '../core/chat-request.ts'
import { NO_MESSAGES } from '../core/conversation.ts'
import { type Later, laterOf } from '../core/later.ts'
import { NO_TOOLS } from '../core/tool-list.ts'
import type { Exchange } from '../dialects/dialect.ts'
import { RequestLog } from '../gateway/access-log.ts'
import { Affinity } from '../gateway/affinity.ts'
import type { Attempt } from '../gateway/attempt.ts'
import { Breaker, type Rest } from '../gateway/breaker.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { EmbeddingWork } from '../gateway/embedding-work.ts'
import { Flow } from '../gateway/flow.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { ImageWork } from '../gateway/image-work.ts'
import { InFlight } from '../gateway/in-flight.ts'
import type { LimitOverrides } from '../gateway/request-budgets.ts'
import type { Capacity } from '../gateway/request-room.ts'
import { RequestTags, TagCounts } from '../gateway/request-tags.ts'
import { TargetUsage } from '../gateway/target-usage.ts'
import type { Work } from '../gateway/work.ts'
import type { Account, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger/ledger.ts'
import { reservationOf } from '../ledger/refusal.ts'
import type { AccountUsageReader } from '../ledger/remaining.ts'
import { Waits } from './room-preview.ts'

interface PreviewedRequest {
  readonly key: Key
  /** The model as the caller would name it. */
  readonly name: string
  readonly kind: ModelKind
  readonly needs: Needs
  /** Its `prompt_cache_key`. */
  readonly conversation: string | undefined
  /** Its `service_tier`. */
  readonly tier: string | undefined
  /** As in `core/tags.ts`. */
  readonly tags: string
}

/** What decides about it: limits are not checked without a reader, and nothing rests without rests. */
interface PreviewedGateway {
  readonly catalog: Catalog
  readonly routing: Config['routing']
  readonly rests: readonly Rest[]
  readonly reader: Pick<AccountUsageReader, 'preview'> | undefined
  readonly overrides: LimitOverrides | undefined
  /** Undefined if no provider has limits, or if it is not known what is left of them. */
  readonly capacity: Capacity | undefined
  /** What every request gets that needs the ledger, because it is away. */
  readonly away?: CallerError | undefined
}

/** The candidate that would be called first, the error that the caller would get, or that it waits for room. */
export type Preview = Candidate | CallerError | 'waits'

export function previewOf(of: PreviewedGateway, request: PreviewedRequest): Promise<Preview> {
  const gateway = gatewayOf(of)
  const log = new RequestLog('preview', { write() {} })
  const { tags, key } = request
  if (tags !== '') log.tags = new RequestTags(tags, tags, key.organization.id, new TagCounts({ limited() {} }))
  const work = workOf(gateway, request, log)
  const { promise, resolve, reject } = Promise.withResolvers<Preview>()
  const failed = (error: unknown) => {
    if (error instanceof Called) resolve(error.candidate)
    else if (error instanceof CallerError) resolve(error)
    else if (error instanceof Waits) resolve('waits')
    else reject(error)
  }
  const unexpected = () => reject(new Error('The preview of a request was answered.'))
  const listener = { failed, answered: unexpected, ended: unexpected }
  try {
    new PreviewFlow(gateway, request.key, work, new InFlight().add(), log, listener).run()
  } catch (error) {
    failed(error)
  }
  return promise
}

/** A provider would be called now. */
class Called extends Error {
  constructor(readonly candidate: Candidate) {
    super('A provider would be called.')
  }
}

class PreviewFlow extends Flow {
  protected override call({ candidate }: Attempt): void {
    throw new Called(candidate)
  }
}

function gatewayOf({ catalog, routing, rests, reader, away, overrides, capacity }: PreviewedGateway): Gateway {
  // Time stands still: a rest does not end between two looks.
  const breaker = new Breaker(() => 0)
  for (const rest of rests) breaker.receive(rest)
  return {
    node: '',
    ...{ catalog, routing, breaker, affinity: new Affinity(), targetUsage: new TargetUsage() },
    upstreams: new Map(),
    ledger: new PreviewLedger(reader, away),
    overrides,
    capacity,
    random: () => 0,
    sealer: { seal: () => Buffer.alloc(0), open: () => undefined },
    explainRoute: false,
    isRevoked: () => false,
    report: (error) => {
      throw error
    },
    logEvent: () => {},
  }
}

/** Its needs are those that were stated. */
function workOf(
  gateway: Gateway,
  { key, name, kind, needs, conversation, tier }: PreviewedRequest,
  log: RequestLog,
): Work {
  const none = () => ''
  const body = () => BytePieces.of([])
  switch (kind) {
    case 'chat': {
      const exchange = exchangeOf(name, needs, { promptCacheKey: conversation, serviceTier: tier })
      return new (class extends ChatWork {
        override estimate(): void {
          this.needs = needs
        }
      })(gateway, key, exchange, log)
    }
    case 'image': {
      const content = () => ({ contentType: 'application/json', content: body() })
      const order = { kind: 'generations', prompt: '', images: 1, inputs: 0, size: undefined } as const
      const image = { ...order, model: name, quality: undefined, stream: false, body: content }
      return new (class extends ImageWork {
        /** Of an image of the default size, unless they were stated. */
        override estimate(): void {
          super.estimate()
          const { inputTokens, maxOutputTokens } = needs
          this.tokens = { input: inputTokens || this.tokens.input, output: maxOutputTokens ?? this.tokens.output }
        }
      })(image, none, log)
    }
    case 'embedding':
      return new (class extends EmbeddingWork {
        override estimate(): void {
          this.tokens = needs.inputTokens
        }
      })({ model: name, inputs: [], body }, none, log)
  }
}

function exchangeOf(model: string, needs: Needs, hints: ChatRequest['hints']): Exchange {
  const request: ChatRequest = {
    ...{ model, stream: false, conversation: NO_MESSAGES, tools: NO_TOOLS, stop: NO_TEXTS, sampling: {} },
    hints: { ...NO_HINTS, ...hints },
    maxOutputTokens: needs.maxOutputTokens,
    limitsOutput: needs.limitsOutput,
    cacheStrict: needs.cache,
  }
  const unused = (): never => {
    throw new Error('The preview of a request has no answer.')
  }
  return { request, isCompaction: false, ignored: [], answer: unused, encoder: unused }
}

/** Replies as the ledger would; grants everything if that is not known, and nothing while it is away. */
class PreviewLedger implements Ledger {
  constructor(
    private readonly reader: PreviewedGateway['reader'],
    private readonly away: CallerError | undefined,
  ) {}

  reserve(account: Account, hold: Hold): Later<Reservation> {
    return laterOf(
      (async () => {
        if (this.away !== undefined) throw this.away
        const reply = await this.reader?.preview(account, hold)
        const nowMs = Date.now()
        if (reply === undefined) return { id: hold.id, account, held: hold.estimate, admittedMs: nowMs }
        return reservationOf(account, hold, reply, nowMs)
      })(),
    )
  }

  /** For a later candidate that may cost more: nothing is held yet, so what it needs is needed as a whole. */
  extend({ account, held, id }: Reservation, _soFar: Estimate, wanted: Estimate): Later<boolean> {
    return laterOf(
      (async () => {
        const estimate = {
          inputTokens: Math.max(held.inputTokens + held.outputTokens, wanted.inputTokens + wanted.outputTokens),
          outputTokens: 0,
          costMicroUsd: Math.max(held.costMicroUsd, wanted.costMicroUsd),
        }
        const reply = await this.reader?.preview(account, { id, estimate, floorMicroUsd: 0 })
        return reply === undefined || reply.outcome === 'granted'
      })(),
    )
  }

  settle(): Later<'settled'> {
    return laterOf(Promise.resolve<'settled'>('settled'))
  }

  health(): LedgerHealth {
    return { ready: true, up: true, pending: 0 }
  }

  async askHealth(): Promise<LedgerHealth> {
    return this.health()
  }

  async close(): Promise<void> {}
}
