/** The processes of a bench: provider, gateways, load generator and Redis. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { Redis } from 'ioredis'
import type { FromLoad, ToLoad } from './load.ts'
import type { Counts } from './load-counter.ts'
import type { SocketUse } from './socket-load.ts'
import { KINDS, modelOf, NATIVE, PROVIDERS, type Traffic } from './traffic.ts'

const MAIN = join(import.meta.dir, '../../src/main.ts')
/** LiteLLM wants a key that begins with `sk-`. */
export const KEY = 'sk-bench-4f1c9e7a2b6d8035f1e2'
/** Raises Bun's limit of outgoing requests, as `weir serve` does for its workers. */
const NO_REQUEST_LIMIT = { BUN_CONFIG_MAX_HTTP_REQUESTS: '65336' }

/** A server process. */
export interface Server extends AsyncDisposable {
  readonly name: string
  readonly port: number
  readonly pid: number
  /** Lines of further headers that its requests need. */
  readonly headers?: string
  /** True if its code is not compiled while it runs: a fiftieth of the warm-up is enough, and takes long as it is. */
  readonly interpreted?: boolean
  /** How many times the plan's requests it is warmed up with; absent = once. */
  readonly warmUps?: number
  /** Requests are turns on WebSockets; absent: `POST`s. */
  readonly sockets?: SocketUse
  /** True if it speaks the dialect of its caller; others pass the provider's bytes on. */
  readonly converts: boolean
}

export interface ProviderProcess extends Server {
  /** Completes all paced streams. */
  finish(): void
}

async function end(child: Subprocess): Promise<void> {
  child.kill('SIGTERM')
  await child.exited
}

/** A process that a signal has ended has no exit code. */
const hasEnded = (child: Subprocess): boolean => child.exitCode !== null || child.signalCode !== null
const endOf = (child: Subprocess): string => String(child.exitCode ?? child.signalCode)

/** Starts a script that reports its port over IPC. */
async function startScript(name: string, args: readonly string[], onMessage: (message: unknown) => void = () => {}) {
  const ready = Promise.withResolvers<number>()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, name), ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...NO_REQUEST_LIMIT },
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: (message: unknown) => {
      if (typeof message === 'object' && message !== null && 'port' in message) ready.resolve(Number(message.port))
      else onMessage(message)
    },
    onExit: (ended) => ready.reject(new Error(`${name} ended with ${endOf(ended)}`)),
  })
  return { child, port: await ready.promise }
}

export async function startProvider(): Promise<ProviderProcess> {
  const { child, port } = await startScript('provider.ts', [])
  return {
    name: 'provider',
    port,
    pid: child.pid,
    converts: false,
    finish: () => void child.send('finish'),
    [Symbol.asyncDispose]: () => end(child),
  }
}

export async function startPassThrough(provider: Server): Promise<Server> {
  const { child, port } = await startScript('pass-through.ts', [`http://127.0.0.1:${provider.port}`])
  return { name: 'pass-through', port, pid: child.pid, converts: false, [Symbol.asyncDispose]: () => end(child) }
}

/** A weir whose ledger can be asked what it has counted. */
export interface ServerWeir extends Server {
  /** The number of charged answers, after the last one was committed. */
  charged(): Promise<number>
  /** The address of the admin port. */
  readonly admin: string
  /** What it has written to its standard error. */
  errors(): Promise<string>
}

interface WeirOptions {
  /** Without any limit; by default with every limit there is, none of which is ever reached. */
  readonly free?: boolean
  /** The address of a Redis; absent = the embedded ledger. */
  readonly redis?: string | undefined
  readonly workers?: number
  /** Further parts of the configuration. */
  readonly config?: object
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * With Redis a good part of the code runs once for ten requests, or once for a commit: after 50,000 requests the
 * compiler still took 10 µs a request, after 200,000 it took 3.
 */
const REDIS_WARM_UPS = 4

/** `weir serve`, its log in a file as an operator would have it. Its standard error goes into a file, too. */
export async function startWeir(provider: Server, options: WeirOptions = {}): Promise<ServerWeir> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-bench-'))
  const config = join(folder, 'weir.yaml')
  const log = join(folder, 'log')
  const errors = join(folder, 'errors')
  await Bun.write(config, JSON.stringify(configuration(provider, folder, options)))
  await Bun.write(log, '')
  await Bun.write(errors, '')
  const child = Bun.spawn([process.execPath, MAIN, 'serve', '--config', config], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...options.env },
    stdio: ['ignore', Bun.file(log), Bun.file(errors)],
  })
  const dispose = async () => {
    child.kill('SIGTERM')
    child.kill('SIGTERM')
    await child.exited
    await rm(folder, { recursive: true, force: true })
  }
  for (;;) {
    const line = await Bun.file(log).text()
    const address = /"address":"http:\/\/[^"]*:(\d+)"/.exec(line)?.[1]
    const admin = /"admin":"([^"]*)"/.exec(line)?.[1]
    if (address !== undefined && admin !== undefined) {
      return {
        name: 'weir',
        port: Number(address),
        pid: child.pid,
        ...(options.redis === undefined ? {} : { warmUps: REDIS_WARM_UPS }),
        converts: true,
        admin,
        errors: () => Bun.file(errors).text(),
        charged: () => usageOf(config),
        [Symbol.asyncDispose]: dispose,
      }
    }
    if (hasEnded(child)) throw new Error(`weir ended with ${endOf(child)}: ${await Bun.file(errors).text()}`)
    await Bun.sleep(10)
  }
}

/** The words that run the checkout as a program. */
export const CHECKOUT: readonly string[] = [process.execPath, MAIN]

/** The executable that `scripts/build` makes. */
export async function buildExecutable(): Promise<AsyncDisposable & { readonly path: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-bench-'))
  const path = join(folder, 'weir')
  const child = Bun.spawn([join(import.meta.dir, '../../scripts/build'), path], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if ((await child.exited) !== 0) throw new Error('scripts/build failed')
  return { path, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
}

/** Milliseconds from the start of a program, `weir` as its words, to the first 200 of `/readyz`. */
export async function timeStart(weir: readonly string[], provider: Server): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-bench-'))
  const config = join(folder, 'weir.yaml')
  const admin = { host: '127.0.0.1', port: freePort() }
  await Bun.write(config, JSON.stringify({ ...configuration(provider, folder, {}), admin }))
  const startedMs = performance.now()
  const child = Bun.spawn([...weir, 'serve', '--config', config], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  try {
    for (;;) {
      const answer = await fetch(`http://127.0.0.1:${admin.port}/readyz`).catch(() => undefined)
      if (answer?.status === 200) return performance.now() - startedMs
      if (hasEnded(child)) throw new Error(`weir ended with ${endOf(child)}`)
      await Bun.sleep(2)
    }
  } finally {
    await end(child)
    await rm(folder, { recursive: true, force: true })
  }
}

/** A port that is free now. */
export function freePort(): number {
  const taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = taken
  taken.stop(true)
  return port
}

async function usageOf(config: string): Promise<number> {
  // Settlements are committed every 20 ms, and then sent to Redis.
  await Bun.sleep(1000)
  const words = [process.execPath, MAIN, 'usage', '--json', '--config', config]
  const { stdout, exitCode } = Bun.spawnSync(words, { env: { PATH: process.env['PATH'] ?? '' } })
  if (exitCode !== 0) throw new Error(`weir usage ended with ${exitCode}`)
  return Number(JSON.parse(stdout.toString()).total.requests)
}

export interface RedisProcess extends AsyncDisposable {
  readonly url: string
}

/** Redis with its default settings, without persistence. */
export async function startRedis(): Promise<RedisProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-bench-redis-'))
  const port = freePort()
  const child = Bun.spawn(
    ['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const probe = new Redis(port, '127.0.0.1', { retryStrategy: () => 20, maxRetriesPerRequest: null })
  probe.on('error', () => undefined)
  await probe.ping()
  probe.disconnect()
  const dispose = async () => {
    await end(child)
    await rm(folder, { recursive: true, force: true })
  }
  return { url: `redis://127.0.0.1:${port}`, [Symbol.asyncDispose]: dispose }
}

/** Every limit, none of which the load can reach. */
export const LIMITS = {
  requests_per_minute: 1_000_000_000,
  sockets: 1_000_000,
  tokens_per_minute: 1_000_000_000,
  concurrent_requests: 1_000_000,
  spend: { day: 1_000_000, month: 1_000_000, total: 1_000_000 },
} as const

function configuration(provider: Server, folder: string, { free, redis, workers, config }: WeirOptions): object {
  const limits = free ? {} : { limits: LIMITS }
  const origin = `http://127.0.0.1:${provider.port}`
  const api_key = 'key-of-the-provider'
  return {
    ledger: redis === undefined ? 'embedded' : { redis },
    workers: workers ?? 1,
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    data_dir: join(folder, 'data'),
    drain_seconds: 1,
    providers: {
      openai: { dialect: 'openai', base_url: `${origin}/v1`, api_key },
      obfuscated: { dialect: 'openai', base_url: `${origin}/v1`, api_key },
      responses: { dialect: 'openai', api: 'responses', base_url: `${origin}/v1`, api_key },
      anthropic: { dialect: 'anthropic', base_url: origin, api_key },
      gemini: { dialect: 'gemini', base_url: origin, api_key },
      bedrock: { dialect: 'bedrock', region: 'us-east-1', base_url: origin, api_key },
    },
    models: PROVIDERS.flatMap((name) =>
      KINDS.map((kind) => ({
        name: modelOf(kind, name),
        targets: [{ provider: name, model: modelOf(kind, name) }],
        price: { input: 0.25, cached_input: 0.025, output: 2 },
        // A conversation of 2 MB has more tokens than any model accepts.
        context_window: 2_000_000,
        max_output_tokens: 16_000,
        supports: ['tools'],
      })),
    ),
    organizations: [{ id: 'bench', ...limits, keys: [{ id: 'bench-key', key: KEY, ...limits }] }],
    ...config,
  }
}

const SPEND = { day: 1e6, month: 1e7 }

/** An organisation four of whose budgets count each request, none of which is ever reached. */
export const FOUR_BUDGETS: object = {
  tags: ['person', 'team'],
  organizations: [
    {
      id: 'bench',
      limits: LIMITS,
      timezone: 'Europe/Berlin',
      budgets: [
        { name: 'person', per: 'tag:person', limits: { spend: { ...SPEND, week: 1e6 }, requests_per_minute: 1e9 } },
        { name: 'team', per: 'tag:team', limits: { spend: SPEND } },
        { name: 'model', per: 'model', limits: { spend: SPEND } },
        { name: 'all', limits: { spend: { hour: 1e6 } } },
      ],
      keys: [{ id: 'bench-key', key: KEY, limits: LIMITS, fixed_tags: { person: 'p-17', team: 'payments' } }],
    },
  ],
}

/** The load generator, over IPC. */
export class Loader implements AsyncDisposable {
  private constructor(
    readonly pid: number,
    private readonly child: Subprocess,
    private readonly waiting: ((message: FromLoad) => void)[],
  ) {}

  static async start(): Promise<Loader> {
    const waiting: ((message: FromLoad) => void)[] = []
    const { child } = await startScript('load.ts', [], (message) => {
      if (isFromLoad(message)) waiting.shift()?.(message)
    })
    return new Loader(child.pid, child, waiting)
  }

  /** A gateway that does not convert gets requests in the provider's dialect. */
  open(target: Server, traffic: Traffic, connections: number, repeats: boolean): void {
    const dialect = target.converts ? traffic.caller : NATIVE[traffic.provider]
    this.send({
      type: 'open',
      port: target.port,
      key: KEY,
      traffic,
      dialect,
      connections,
      repeats,
      headers: target.headers ?? '',
      sockets: target.sockets,
    })
  }

  async read(): Promise<Counts> {
    const message = await this.ask({ type: 'read' })
    if (message.type !== 'counts') throw new Error(`unexpected message of the load generator: ${message.type}`)
    return message.counts
  }

  async stop(): Promise<void> {
    await this.ask({ type: 'stop' })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.child)
  }

  private ask(message: ToLoad): Promise<FromLoad> {
    const answer = new Promise<FromLoad>((resolve) => this.waiting.push(resolve))
    this.send(message)
    return answer
  }

  private send(message: ToLoad): void {
    this.child.send(message)
  }
}

function isFromLoad(message: unknown): message is FromLoad {
  return typeof message === 'object' && message !== null && 'type' in message
}
