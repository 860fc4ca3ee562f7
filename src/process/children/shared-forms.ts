/**
 * What the nodes of a Redis have learned of their targets: a hash of all forms, and a version that rises with each
 * change. A node follows the version. While Redis is away it goes on with what it knows.
 */

import { parseObject } from '../../core/json.ts'
import type { RedisConfig } from '../../core/redis-config.ts'
import {
  FORMS_MAX,
  type FormEvidence,
  type FormNews,
  type FormStore,
  formKey,
  type LearnedForm,
  parseForm,
  withEvidence,
} from '../../providers/form-store.ts'
import type { RedisClient } from '../../redis/connect.ts'

const FORMS = 'weir:{learned}:forms'
const VERSION = 'weir:{learned}:version'

/** How often a node looks whether another one has learned something. */
const LOOK_MS = 1000
/** Forms of several configurations; the oldest are deleted first. */
const STORED_MAX = 4 * FORMS_MAX
const SCAN_COUNT = 500

interface SharedFormsOptions {
  /** Whether a form is about a target of this node's configuration. */
  readonly isOurs: (form: LearnedForm) => boolean
  /** Takes what other nodes have changed. */
  readonly changed: (news: FormNews) => void
}

export class SharedForms {
  private client: RedisClient | undefined
  private readonly timer: ReturnType<typeof setInterval>
  private version: string | null | undefined
  /** The keys of our forms that Redis has. */
  private stored = new Set<string>()
  private readonly unsent: FormEvidence[] = []
  private unforgotten: string[] = []
  private looking = false
  private isClosed = false

  constructor(
    place: RedisConfig,
    private readonly store: FormStore,
    private readonly options: SharedFormsOptions,
  ) {
    this.timer = setInterval(() => void this.look(), LOOK_MS)
    this.timer.unref()
    void this.open(place)
  }

  /** This node has learned something. */
  add(evidence: FormEvidence): void {
    // While Redis is away, callers of a pattern's models could add to it without end.
    if (this.unsent.length < STORED_MAX) this.unsent.push(evidence)
    void this.look()
  }

  /** Deletes forms for all nodes. */
  forget(keys: readonly string[]): void {
    this.unforgotten.push(...keys)
    void this.look()
  }

  close(): void {
    this.isClosed = true
    clearInterval(this.timer)
    this.client?.disconnect()
  }

  /** The Redis client is loaded only if a configuration needs it. */
  private async open(place: RedisConfig): Promise<void> {
    const { connect } = await import('../../redis/connect.ts')
    if (this.isClosed) return
    this.client = connect(place, 'weir-learned')
    this.client.once('ready', () => void this.look())
  }

  /** Sends what is new here, and takes what is new there. What fails is done at the next look. */
  private async look(): Promise<void> {
    const { client } = this
    if (client === undefined || this.looking) return
    this.looking = true
    try {
      await this.sendForgotten(client)
      await this.sendEvidence(client)
      if ((await client.get(VERSION)) !== this.version) await this.read(client)
    } catch {
      // Redis is away: the ledger reports that.
    } finally {
      this.looking = false
    }
    if (this.unsent.length + this.unforgotten.length > 0 && client.status === 'ready') void this.look()
  }

  private async sendForgotten(client: RedisClient): Promise<void> {
    const keys = this.unforgotten
    if (keys.length === 0) return
    await client.hdel(FORMS, ...keys)
    for (const key of keys) this.stored.delete(key)
    this.unforgotten = this.unforgotten.slice(keys.length)
    await client.incr(VERSION)
  }

  private async sendEvidence(client: RedisClient): Promise<void> {
    for (let evidence = this.unsent[0]; evidence !== undefined; evidence = this.unsent[0]) {
      const key = formKey(evidence)
      const known = parseForm(parseObject((await client.hget(FORMS, key)) ?? ''))
      const form = withEvidence(known, evidence, this.store.nowMs())
      if (form !== undefined) await this.write(client, form)
      this.unsent.shift()
    }
  }

  private async write(client: RedisClient, form: LearnedForm): Promise<void> {
    await client.hset(FORMS, formKey(form), JSON.stringify(form))
    await client.incr(VERSION)
    this.stored.add(formKey(form))
  }

  private async read(client: RedisClient): Promise<void> {
    const version = await client.get(VERSION)
    const all = await this.scan(client)
    const ours = all.filter(this.options.isOurs)
    const found = new Set(ours.map(formKey))
    // A Redis without a version has lost all: it gets back what this node knows.
    const lost = version === null ? [] : [...this.stored].filter((key) => !found.has(key))
    const forgotten = new Set(lost)
    this.store.forget((form) => forgotten.has(formKey(form)))
    const forms = this.store.receive(ours)
    if (forms.length + lost.length > 0) this.options.changed({ forms, forgotten: lost })
    this.stored = found
    for (const form of this.store.all()) if (!found.has(formKey(form))) await this.write(client, form)
    await this.makeRoom(client, all)
    this.version = version
  }

  private async scan(client: RedisClient): Promise<readonly LearnedForm[]> {
    const texts = new Map<string, string>()
    let cursor = '0'
    do {
      const [next, fields] = await client.hscan(FORMS, cursor, 'COUNT', SCAN_COUNT)
      for (let at = 0; at + 1 < fields.length; at += 2) texts.set(fields[at] ?? '', fields[at + 1] ?? '')
      cursor = next
    } while (cursor !== '0')
    return [...texts.values()].flatMap((text) => parseForm(parseObject(text)) ?? [])
  }

  private async makeRoom(client: RedisClient, all: readonly LearnedForm[]): Promise<void> {
    if (all.length <= STORED_MAX) return
    const oldest = [...all].sort((one, other) => one.learnedMs - other.learnedMs).slice(0, all.length - STORED_MAX)
    await client.hdel(FORMS, ...oldest.map(formKey))
  }
}
