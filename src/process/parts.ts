/** What a worker serves: the parts that follow from a configuration, and what lives on through all configurations. */

import { Catalog } from '../catalog/catalog.ts'
import { KeyRing } from '../catalog/keys.ts'
import type { Config, ProviderConfig, ProviderDialect } from '../config/config.ts'
import { chat } from '../dialects/chat/chat.ts'
import { messages } from '../dialects/messages/messages.ts'
import { acceptCount } from '../dialects/messages/request.ts'
import type { Upstream } from '../gateway/gateway.ts'
import { InFlight } from '../gateway/in-flight.ts'
import { type App, createApp } from '../http/app.ts'
import type { EdgeParts, EdgeState } from '../http/edge.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { UnlimitedLedger } from '../ledger/unlimited.ts'
import { azure, openai } from '../providers/openai/openai.ts'
import type { Provider } from '../providers/provider.ts'
import { errorFields, type Logger } from './log.ts'

/** A configuration that is well-formed and cannot be served all the same: a line for the operator. */
export class UnusableConfiguration extends Error {
  override readonly name = 'UnusableConfiguration'
}

const adapters: ReadonlyMap<ProviderDialect, Provider> = new Map([
  ['openai', openai],
  ['azure', azure],
])

/** The inference API of one worker. A reload swaps what it serves; running requests keep what they took. */
export class Service {
  readonly state: EdgeState
  readonly fetch: App['fetch']
  private prepared: { readonly config: Config; readonly parts: EdgeParts } | undefined

  /** Throws `UnusableConfiguration`. */
  constructor(
    private config: Config,
    private readonly logger: Logger,
    private readonly ledger: Ledger = new UnlimitedLedger(),
  ) {
    this.state = {
      current: buildParts(config, ledger, logger),
      inFlight: new InFlight(),
      log: (line) => logger.info(line, 'request'),
      draining: false,
      crowded: false,
    }
    this.fetch = createApp(this.state).fetch
  }

  get drainSeconds(): number {
    return this.config.drainSeconds
  }

  /** Builds everything that follows from the configuration and keeps it for `commit`. Throws `UnusableConfiguration`. */
  prepare(config: Config): void {
    this.prepared = { config, parts: buildParts(config, this.ledger, this.logger) }
  }

  commit(): void {
    if (this.prepared === undefined) return
    this.config = this.prepared.config
    this.state.current = this.prepared.parts
    this.prepared = undefined
  }

  abort(): void {
    this.prepared = undefined
  }

  /** Why it cannot serve; none where it can. A ledger in process always answers. */
  async reasons(): Promise<readonly string[]> {
    return this.state.crowded ? ['is nearly out of file descriptors'] : []
  }

  /** After the last request: what the ledger still holds back reaches its store. */
  async close(): Promise<void> {
    await this.ledger.close()
  }
}

function buildParts(config: Config, ledger: Ledger, logger: Logger): EdgeParts {
  const catalog = Catalog.from(config)
  return {
    catalog,
    keys: new KeyRing(catalog.credentials),
    dialects: { chat, messages: messages(config.compatibility) },
    acceptCount: (body) => acceptCount(body, config.compatibility),
    gateway: {
      catalog,
      upstreams: new Map(config.providers.map((provider) => [provider.name, upstreamOf(provider)])),
      ledger,
      routing: config.routing,
      resting: () => false,
      report: (error, requestId) => logger.error({ request_id: requestId, ...errorFields(error) }, 'internal error'),
      alarm: (message, fields) => logger.error(fields, message),
    },
  }
}

function upstreamOf(config: ProviderConfig): Upstream {
  const provider = adapters.get(config.dialect)
  if (provider === undefined) {
    const known = [...adapters.keys()].join(', ')
    throw new UnusableConfiguration(
      `providers.${config.name}.dialect: ${config.dialect} is not served yet (there are ${known})`,
    )
  }
  return { provider, endpoint: config }
}
