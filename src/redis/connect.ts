/** Opens connections to Redis: the only place for ioredis' settings. Several of them were measured. */

import { Cluster, type Command, Redis, type RedisOptions } from 'ioredis'
import { isObject } from '../core/json.ts'
import { REDIS_TIMEOUT_MS, type RedisConfig, type RedisTlsConfig } from '../core/redis-config.ts'
import { type Limited, LoopDeadline } from './loop-deadline.ts'
import { TIMED_OUT } from './redis-errors.ts'
import { tlsOptions } from './tls.ts'

export type RedisClient = Redis | Cluster

const PORT = 6379
const SENTINEL_PORT = 26_379

type Credentials = Pick<RedisOptions, 'username' | 'password' | 'tls'>

/** The longest wait for a connection for some questions, and for each reply. */
const DIRECT_CONNECT_MS = 1000

/** Pause before a connection that ended unexpectedly is opened again. */
const RECONNECT_MS = 100

const OPTIONS = {
  // No `commandTimeout`: it is a plain timer, which reports a healthy server as slow after our own process was
  // suspended. `limitReplies` does it instead. Closes a connection that received no byte for this long. It is a plain
  // timer: a shorter one would also close the connections of a process that was suspended.
  socketTimeout: 5000,
  connectTimeout: 2000,
  // While Redis is down, commands fail at once instead of queueing.
  enableOfflineQueue: false,
  maxRetriesPerRequest: 1,
  // ioredis must not resend unanswered commands: the outbox does that, and it knows which ones may be repeated.
  autoResendUnfulfilledCommands: false,
  // The script is the bottleneck: 24,300 operations a second without, 19,000 with.
  enableAutoPipelining: false,
  // The master was demoted: reconnect to find the new one.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
} as const satisfies RedisOptions

/** Reconnects within half a second of the server's return; the default backs off to 5 s. */
function retryStrategy(times: number): number {
  return Math.min(50 * times, 500)
}

/**
 * A connection that ends only when we end it. ioredis ends a connection for good if sentinels announce a failover while
 * it looks for the master: the process would never reach Redis again.
 */
class LastingRedis extends Redis {
  private isClosed = false
  private hasOffered = false

  constructor(options: Omit<RedisOptions, 'replyMapping'>) {
    super(options)
    this.on('error', (error: Error) => this.onConnectError(error))
    this.on('end', () => {
      if (this.isClosed) return
      setTimeout(() => {
        // If it fails, the connection ends again and comes back here.
        if (!this.isClosed) this.connect().catch(() => undefined)
      }, RECONNECT_MS)
    })
  }

  override disconnect(reconnect = false): void {
    this.isClosed ||= !reconnect
    super.disconnect(reconnect)
  }

  /**
   * Sentinels often have no password although their master has one, and reject a connection that offers one. So a
   * sentinel is offered the master's password only after it required one. ioredis wraps a sentinel's error in one of
   * its own; the inner one is reported alone.
   */
  private onConnectError({ message }: Error): void {
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

/**
 * A client of a cluster that ends when we end it. ioredis looks for the slots at intervals, and goes on for ever if it
 * is ended while it looks: a command that has done its work would not exit.
 */
class EndingCluster extends Cluster {
  private isClosed = false

  override disconnect(reconnect = false): void {
    this.isClosed ||= !reconnect
    super.disconnect(reconnect)
  }

  override refreshSlotsCache(callback?: (error?: Error | null) => void): void {
    if (this.isClosed) return
    super.refreshSlotsCache((error) => {
      if (!this.isClosed) callback?.(error)
    })
  }
}

/** Opens a connection, which connects and reconnects on its own. `name` appears in CLIENT LIST. */
export function connect(place: RedisConfig, name: string): RedisClient {
  const client = open(place, name)
  const timeoutMs = place.timeoutMs ?? REDIS_TIMEOUT_MS
  limitReplies(client, timeoutMs)
  // Commands that the client of a cluster sends to its nodes on its own, and those that we send to one node.
  if (client instanceof Cluster) client.on('+node', (node: Redis) => limitReplies(node, timeoutMs))
  // Without a listener an error event ends the process. Each command reports its own error, and `health` a lasting one.
  client.on('error', (error: Error) => {
    // ioredis would go on in database 0, which may hold the data of another weir.
    if (client instanceof Redis && isOfSelect(error)) client.disconnect(true)
  })
  return client
}

function isOfSelect(error: Error): boolean {
  return 'command' in error && isObject(error.command) && error.command['name'] === 'select'
}

/**
 * Rejects each command that gets no reply in time. The server may still execute it, so every script may be sent twice.
 */
function limitReplies(client: RedisClient, timeoutMs: number): void {
  const replies = new LoopDeadline(timeoutMs)
  const send: Cluster['sendCommand'] = client.sendCommand.bind(client)
  client.sendCommand = (command: Command, ...rest: [Write?, unknown?]) => {
    replies.watch(new AwaitedReply(command))
    return send(command, ...rest)
  }
}

type Write = Parameters<Cluster['sendCommand']>[1]

/** A class: an object with a getter of its own for each command took 1 % of the samples of reserve and settle. */
class AwaitedReply implements Limited {
  private readonly promise

  constructor(private readonly command: Command) {
    this.promise = command.promise
  }

  get isSettled(): boolean {
    // After a redirection, a pipeline in a cluster sends its commands again with a new promise, which has a deadline of
    // its own.
    return this.command.isSettled || this.command.promise !== this.promise
  }

  expire(): void {
    this.command.reject(new Error(TIMED_OUT))
  }
}

/**
 * A connection to one server of a place, or to one of its sentinels, for some questions. Rejects if it does not answer;
 * does not connect again.
 */
export async function connectDirectly(place: RedisConfig, kind: 'server' | 'sentinel', at: Address): Promise<Redis> {
  const { username, password, tls } = credentialsOf(addressesOf(place)[0], place.tls)
  const client = new Redis({
    ...OPTIONS,
    ...at,
    connectTimeout: DIRECT_CONNECT_MS,
    retryStrategy: () => null,
    enableReadyCheck: false,
    lazyConnect: true,
    connectionName: kind === 'server' ? 'weir-check' : undefined,
    ...(tls === undefined ? {} : { tls }),
    ...(kind === 'sentinel' ? {} : { username, password }),
  })
  limitReplies(client, Math.max(DIRECT_CONNECT_MS, place.timeoutMs ?? REDIS_TIMEOUT_MS))
  client.on('error', () => undefined)
  try {
    await client.connect()
    if (kind === 'sentinel' && password != null) await offerPassword(client, username, password)
    return client
  } catch (error) {
    client.disconnect()
    throw error
  }
}

/** As `LastingRedis`: a sentinel is offered the master's password only after it required one. */
async function offerPassword(client: Redis, username: string | null | undefined, password: string): Promise<void> {
  const refusal = await client.ping().then(() => '', String)
  if (!refusal.includes('NOAUTH')) return
  await (username == null ? client.auth(password) : client.auth(username, password))
}

function open(place: RedisConfig, name: string): RedisClient {
  const credentials = credentialsOf(addressesOf(place)[0], place.tls)
  switch (place.kind) {
    case 'single':
      // ioredis reads the user and the database from the address; TLS needs more than the address can express.
      return new Redis(place.url, { ...OPTIONS, ...credentials, retryStrategy, connectionName: name })
    case 'cluster':
      return openCluster(place.nodes, credentials, name)
    case 'sentinel':
      return openSentinel(place.sentinels, place.name, credentials, name)
  }
}

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

export interface Address {
  readonly host: string
  readonly port: number
}

interface RedisEndpoint extends Address {
  readonly isSecure: boolean
}

/** Host and port of each address; an address that is no URL is left out. */
export function endpointsOf(place: RedisConfig): readonly RedisEndpoint[] {
  const standard = place.kind === 'sentinel' ? SENTINEL_PORT : PORT
  return addressesOf(place)
    .filter((address) => URL.canParse(address))
    .map((address) => ({ ...hostOf(address, standard), isSecure: address.startsWith('rediss:') }))
}

function hostOf(address: string, port: number): Address {
  const url = new URL(address)
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || port) }
}

function openCluster(nodes: readonly string[], credentials: Credentials, name: string): Cluster {
  const { enableOfflineQueue, ...redisOptions } = OPTIONS
  return new EndingCluster(
    nodes.map((address) => hostOf(address, PORT)),
    {
      redisOptions: { ...redisOptions, ...credentials, connectionName: name },
      enableOfflineQueue,
      clusterRetryStrategy: retryStrategy,
      // The client notices a failover within this interval, also for slots that no command uses; after the timeout
      // Redis counts as down.
      slotsRefreshTimeout: 1000,
      slotsRefreshInterval: 5000,
      retryDelayOnFailover: 100,
      retryDelayOnClusterDown: 100,
      retryDelayOnTryAgain: 100,
      maxRedirections: 4,
    },
  )
}

function openSentinel(sentinels: readonly string[], master: string, credentials: Credentials, name: string): Redis {
  return new LastingRedis({
    ...OPTIONS,
    ...credentials,
    // Without these two ioredis uses no TLS towards sentinels and master, whatever `tls` contains.
    ...(credentials.tls === undefined ? {} : { sentinelTLS: credentials.tls, enableTLSForSentinelMode: true }),
    sentinels: sentinels.map((address) => hostOf(address, SENTINEL_PORT)),
    name: master,
    connectionName: name,
    retryStrategy,
    sentinelRetryStrategy: retryStrategy,
    failoverDetector: true,
  })
}

/** All servers of a cluster, and a master with its sentinels, share credentials and TLS: those of the first address. */
function credentialsOf(address: string | undefined, own: RedisTlsConfig | undefined): Credentials {
  if (address === undefined || !URL.canParse(address)) return {}
  const { protocol, username, password } = new URL(address)
  return {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: tlsOptions(own) } : {}),
  }
}
