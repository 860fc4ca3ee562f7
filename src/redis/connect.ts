/** How this program talks to Redis: one place for ioredis' settings, each of which was measured, and for what a server must be. */

import { Cluster, type Command, Redis, type RedisOptions } from 'ioredis'
import { REDIS_TIMEOUT_MS, type RedisConfig, type RedisTlsConfig } from '../core/redis-config.ts'
import { type Limited, LoopDeadline } from './loop-deadline.ts'
import { knock, tlsOptions, tlsProblem } from './tls.ts'

const PORT = 6379
const SENTINEL_PORT = 26_379

type Secret = Pick<RedisOptions, 'username' | 'password' | 'tls'>

const TIMED_OUT = 'Command timed out'

/** A connection that ended by itself is opened again after so long. */
const RECONNECT_MS = 100

/** What is wrong with a server for good; `message` is for the operator, whole. */
export class RedisUnfitError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RedisUnfitError'
  }
}

const OPTIONS = {
  // No `commandTimeout`: it is a plain timer, and calls a healthy server slow after our own process stood still. `limitReplies` has ours.
  // A black hole is left after this long without a byte. A plain timer: shorter, it would also end the connections of a process that stood still.
  socketTimeout: 5000,
  connectTimeout: 2000,
  // Down means an error at once, not a queue.
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  // What was not answered is not sent again behind our back: the outbox does that, knowing what it does.
  autoResendUnfulfilledCommands: false,
  // The script is the bottleneck: 24,300 operations a second without, 19,000 with.
  enableAutoPipelining: false,
  // A master that was demoted under us: look for the new one.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
} as const satisfies RedisOptions

/** Back within half a second of the server's return; the default backs off to 5 s. */
function retryStrategy(times: number): number {
  return Math.min(50 * times, 500)
}

/**
 * A connection that ends only where we end it. ioredis ends one for good where sentinels announce a failover while it looks for the
 * master: then nobody would ever reach Redis again.
 */
class LastingRedis extends Redis {
  private isClosed = false
  private hasOffered = false

  constructor(options: Omit<RedisOptions, 'replyMapping'>) {
    super(options)
    this.on('error', (error: Error) => this.hear(error))
    this.on('end', () => {
      if (this.isClosed) return
      setTimeout(() => {
        // Where it fails it ends again, and is connected again.
        if (!this.isClosed) this.connect().catch(() => undefined)
      }, RECONNECT_MS)
    })
  }

  override disconnect(reconnect = false): void {
    this.isClosed ||= !reconnect
    super.disconnect(reconnect)
  }

  /**
   * Sentinels often want no password where their master does, and complain of one: they are offered the master's once they ask. What they say to
   * that stands within another error's words, and is told alone.
   */
  private hear({ message }: Error): void {
    const refusal = /Last error: ((?:NOAUTH|WRONGPASS)\b.*)/.exec(message)?.[1]
    if (refusal === undefined) return
    const { username, password } = this.options
    if (refusal.startsWith('NOAUTH') && !this.hasOffered && password != null) {
      this.hasOffered = true
      Object.assign(this.options, {
        sentinelPassword: password,
        ...(username == null ? {} : { sentinelUsername: username }),
      })
      return
    }
    this.emit('error', new Error(refusal))
  }
}

/** Opens a connection. It connects, and connects again, by itself; `name` shows in CLIENT LIST. */
export function connect(place: RedisConfig, name: string): Redis | Cluster {
  const client = open(place, name)
  const timeoutMs = place.timeoutMs ?? REDIS_TIMEOUT_MS
  limitReplies(client, timeoutMs)
  // What a cluster's client asks its nodes by itself, and what we ask one of them.
  if (client instanceof Cluster) client.on('+node', (node: Redis) => limitReplies(node, timeoutMs))
  // Without a listener an error event ends the process. Every command reports its own; what is lasting shows in `health`.
  client.on('error', () => undefined)
  return client
}

/** Rejects each command that is not answered in time. The server may execute it all the same. */
function limitReplies(client: Redis | Cluster, timeoutMs: number): void {
  const replies = new LoopDeadline(timeoutMs)
  const send: Cluster['sendCommand'] = client.sendCommand.bind(client)
  client.sendCommand = (command: Command, ...rest: [Write?, unknown?]) => {
    replies.watch(limited(command))
    return send(command, ...rest)
  }
}

type Write = Parameters<Cluster['sendCommand']>[1]

function limited(command: Command): Limited {
  const { promise } = command
  return {
    get isSettled() {
      // A pipeline in a cluster takes its commands up again after a redirection, with a promise and a limit of their own.
      return command.isSettled || command.promise !== promise
    },
    expire: () => command.reject(new Error(TIMED_OUT)),
  }
}

function open(place: RedisConfig, name: string): Redis | Cluster {
  const secret = credentialsOf(addressesOf(place)[0], place.tls)
  switch (place.kind) {
    case 'single':
      // What the address says of a user and a database counts; of TLS it could only say that there is some.
      return new Redis(place.url, { ...OPTIONS, ...secret, retryStrategy, connectionName: name })
    case 'cluster':
      return openCluster(place.nodes, secret, name)
    case 'sentinel':
      return openSentinel(place.sentinels, place.name, secret, name)
  }
}

/** The addresses of the configuration. */
function addressesOf(place: RedisConfig): readonly string[] {
  switch (place.kind) {
    case 'single':
      return [place.url]
    case 'cluster':
      return place.nodes
    case 'sentinel':
      return place.sentinels
  }
}

function hostOf(address: string, port: number): { readonly host: string; readonly port: number } {
  const url = new URL(address)
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || port) }
}

function openCluster(nodes: readonly string[], secret: Secret, name: string): Cluster {
  const { enableOfflineQueue, ...redisOptions } = OPTIONS
  return new Cluster(
    nodes.map((address) => hostOf(address, PORT)),
    {
      redisOptions: { ...redisOptions, ...secret, connectionName: name },
      enableOfflineQueue,
      clusterRetryStrategy: retryStrategy,
      // How long a failover takes to be noticed, even where nobody asks for those slots; then it is as if down.
      slotsRefreshTimeout: 1000,
      slotsRefreshInterval: 5000,
      retryDelayOnFailover: 100,
      retryDelayOnClusterDown: 100,
      retryDelayOnTryAgain: 100,
      maxRedirections: 4,
    },
  )
}

function openSentinel(sentinels: readonly string[], master: string, secret: Secret, name: string): Redis {
  return new LastingRedis({
    ...OPTIONS,
    ...secret,
    // Without these two it would speak plainly with both, whatever `tls` says.
    ...(secret.tls === undefined ? {} : { sentinelTLS: secret.tls, enableTLSForSentinelMode: true }),
    sentinels: sentinels.map((address) => hostOf(address, SENTINEL_PORT)),
    name: master,
    connectionName: name,
    retryStrategy,
    sentinelRetryStrategy: retryStrategy,
    failoverDetector: true,
  })
}

/** Every server of a cluster, or behind sentinels, has the same credentials; the first address gives them, and the choice of TLS. */
function credentialsOf(address: string | undefined, own: RedisTlsConfig | undefined): Secret {
  if (address === undefined || !URL.canParse(address)) return {}
  const { protocol, username, password } = new URL(address)
  return {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: tlsOptions(own) } : {}),
  }
}

/** Throws `RedisUnfitError` where a server that answers cannot hold a ledger: too old, or one that drops keys when it is full. */
export async function inspect(client: Redis | Cluster): Promise<void> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client]
  for (const node of nodes) {
    const info = await node.info()
    const version = field(info, 'redis_version')
    if (Number.parseInt(version, 10) < 7) {
      throw new RedisUnfitError(`Redis ${version} is too old for the ledger: it needs Redis 7 or Valkey.`)
    }
    const policy = field(info, 'maxmemory_policy')
    if (policy !== 'noeviction') {
      throw new RedisUnfitError(
        `Redis may evict keys (maxmemory-policy ${policy}), and with them money: set maxmemory-policy noeviction.`,
      )
    }
  }
}

/** What the operator should know of how the servers keep what they took; undefined if there is nothing to say. */
export async function durabilityWarning(client: Redis | Cluster): Promise<string | undefined> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client]
  for (const node of nodes) {
    if (field(await node.info('persistence'), 'aof_enabled') !== '0') continue
    return (
      'Redis keeps no append-only file (aof_enabled:0): if it is killed it loses what it took since its last snapshot, and has it again ' +
      'only after every gateway has sent it. Set `appendonly yes` in Redis.'
    )
  }
  return undefined
}

function field(info: string, name: string): string {
  const line = info.split('\r\n').find((candidate) => candidate.startsWith(`${name}:`))
  return line?.slice(name.length + 1) ?? ''
}

/** What an error of credentials, rights or certificates means, for the operator: no waiting helps against one. Undefined for any other error. */
export function denialOf(error: unknown): RedisUnfitError | undefined {
  if (!(error instanceof Error)) return undefined
  // A cluster's client says which node failed last, and how, beside its own words.
  const { message } = 'lastNodeError' in error && error.lastNodeError instanceof Error ? error.lastNodeError : error
  if (message.startsWith('NOAUTH')) {
    return new RedisUnfitError('Redis wants a password, and the address in the configuration has none (NOAUTH).', error)
  }
  if (/^WRONGPASS|invalid password|without any password/.test(message)) {
    return new RedisUnfitError(
      'Redis refuses the user name or the password of the address in the configuration (WRONGPASS).',
      error,
    )
  }
  if (/^NOPERM|user executing the script can't run/.test(message)) {
    return new RedisUnfitError(`Redis refuses weir: ${message}.`, error)
  }
  const untrusted = tlsProblem('lastNodeError' in error ? error.lastNodeError : error)
  return untrusted === undefined ? undefined : new RedisUnfitError(untrusted, error)
}

/**
 * For a connection that does not come about and says nothing of why: whether a server at one of the addresses speaks TLS where it should not, or
 * does not where it should. Takes so many milliseconds at most.
 */
export async function mistakenTls(place: RedisConfig, ms: number): Promise<RedisUnfitError | undefined> {
  const standard = place.kind === 'sentinel' ? SENTINEL_PORT : PORT
  const doors = addressesOf(place)
    .filter((address) => URL.canParse(address))
    .map((address) => ({ ...hostOf(address, standard), isSecure: address.startsWith('rediss:') }))
  const problems = await Promise.all(doors.map((door) => knock(door, place.tls, ms)))
  const problem = problems.find((one) => one !== undefined)
  return problem === undefined ? undefined : new RedisUnfitError(problem)
}

const STANDSTILLS: ReadonlyMap<string, string> = new Map([
  ['OOM', 'Redis is full (maxmemory) and takes no reservations: give it more memory.'],
  ['MISCONF', 'Redis cannot save its data and takes no writes (MISCONF): its own log says why.'],
  ['NOREPLICAS', 'Redis has fewer replicas than min-replicas-to-write and takes no writes (NOREPLICAS).'],
  ['READONLY', 'Redis is a replica and takes no writes (READONLY).'],
])

/** Why a server that answers takes no reservations, for the operator. Undefined for any other error. */
export function standstillOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  return STANDSTILLS.get(/^[A-Z]+/.exec(error.message)?.[0] ?? '')
}

/** True if no reply came in time: nobody knows whether the server executes the command. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === TIMED_OUT
}

/** True where a command cannot have reached the server: nothing needs to be taken back. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable")
}

/** True where the server answered, and will answer the same the next time: foreign data under our keys, another version's records. */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(WRONGTYPE|VERSION|AMOUNT)\b|user_script.*(WRONGTYPE|VERSION|AMOUNT)/.test(error.message)
  )
}

/** True for what passes within a moment: a script that runs long, a server that loads, a slot on its way. */
export function isPassing(error: unknown): boolean {
  return error instanceof Error && /^(BUSY|LOADING|TRYAGAIN|MASTERDOWN|CLUSTERDOWN)\b/.test(error.message)
}
