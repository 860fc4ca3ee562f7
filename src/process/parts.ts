/** What a worker serves: the parts that follow from a configuration, and what lives on through all configurations. */

import { Catalog } from '../catalog/catalog.ts'
import { KeyRing } from '../catalog/keys.ts'
import type { Config, ProviderConfig, ProviderDialect } from '../config/config.ts'
import { chat } from '../dialects/chat/chat.ts'
import { messages } from '../dialects/messages/messages.ts'
import { acceptCount } from '../dialects/messages/request.ts'
import { Sealer } from '../dialects/responses/compaction.ts'
import { LocalItemMemory } from '../dialects/responses/memory.ts'
import { responses } from '../dialects/responses/responses.ts'
import type { Upstream } from '../gateway/gateway.ts'
import { InFlight } from '../gateway/in-flight.ts'
import { type App, createApp } from '../http/app.ts'
import type { EdgeParts, EdgeState } from '../http/edge.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { UnlimitedLedger } from '../ledger/unlimited.ts'
import { anthropic } from '../providers/anthropic/anthropic.ts'
import { bedrock } from '../providers/bedrock/bedrock.ts'
import { gemini } from '../providers/gemini/gemini.ts'
import { azure, openai } from '../providers/openai/openai.ts'
import type { Provider } from '../providers/provider.ts'
import { compactionKeys } from './compaction-keys.ts'
import { errorFields, type Logger } from './log.ts'

/** A configuration that is well-formed and cannot be served all the same: a line for the operator. */
export class UnusableConfiguration extends Error {
  override readonly name = 'UnusableConfiguration'
}

const adapters: ReadonlyMap<ProviderDialect, Provider> = new Map([
  ['openai', openai],
  ['azure', azure],
  ['anthropic', anthropic],
  ['gemini', gemini],
  ['bedrock', bedrock],
])

interface Prepared {
  readonly config: Config
  readonly memory: LocalItemMemory | undefined
  readonly parts: EdgeParts
}

/** What lives through all configurations of a worker. */
interface Lasting {
  readonly ledger: Ledger
  readonly logger: Logger
  readonly memory: LocalItemMemory | undefined
}

/** The inference API of one worker. A reload swaps what it serves; running requests keep what they took. */
export class Service {
  readonly state: EdgeState
  readonly fetch: App['fetch']
  private memory: LocalItemMemory | undefined
  private prepared: Prepared | undefined

  /** Throws `UnusableConfiguration`. */
  constructor(
    private config: Config,
    private readonly logger: Logger,
    private readonly ledger: Ledger = new UnlimitedLedger(),
  ) {
    this.memory = memoryOf(config)
    this.state = {
      current: buildParts(config, { ledger, logger, memory: this.memory }),
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
    const { ledger, logger } = this
    // What callers may refer back to outlives a reload, unless it is to be remembered for another time.
    const same = config.responses.rememberItemsSeconds === this.config.responses.rememberItemsSeconds
    const memory = same ? this.memory : memoryOf(config)
    this.prepared = { config, memory, parts: buildParts(config, { ledger, logger, memory }) }
  }

  commit(): void {
    if (this.prepared === undefined) return
    this.config = this.prepared.config
    this.memory = this.prepared.memory
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

function buildParts(config: Config, { ledger, logger, memory }: Lasting): EdgeParts {
  const catalog = Catalog.from(config)
  const sealer = new Sealer(compactionKeys(config))
  return {
    catalog,
    keys: new KeyRing(catalog.credentials),
    dialects: { chat, messages: messages(config.compatibility), responses: responses({ sealer, memory }) },
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

/** Sealed under a key of the process's own: nothing of it outlives the process. */
function memoryOf({ responses: { rememberItemsSeconds } }: Config): LocalItemMemory | undefined {
  if (rememberItemsSeconds === 0) return undefined
  const key = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')
  return new LocalItemMemory({ sealer: new Sealer([key]), ttlSeconds: rememberItemsSeconds })
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
