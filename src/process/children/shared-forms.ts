/**
 * What the nodes of a Redis have learned of their targets: a hash of all forms, and a version that rises with each
 * change. A node follows the version.
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
import { readHash } from '../../redis/hash-pages.ts'
import { PolledRedis } from '../../redis/polled-redis.ts'

const FORMS = 'weir:{learned}:forms'
const VERSION = 'weir:{learned}:version'

/** How often a node looks whether another one has learned something. */
const LOOK_MS = 1000
/** Forms of several configurations; the oldest are deleted first. */
const STORED_MAX = 4 * FORMS_MAX

interface SharedFormsOptions {
  /** Whether a form is about a target of this node's configuration. */
  readonly isOurs: (form: LearnedForm) => boolean
  /** Takes what other nodes have changed. */
  readonly changed: (news: FormNews) => void
}

export class SharedForms extends PolledRedis {
  private version: string | null | undefined
  /** The keys of our forms that Redis has. */
  private stored = new Set<string>()
  private readonly unsent: FormEvidence[] = []
  private unforgotten: string[] = []

  constructor(
    place: RedisConfig,
    private readonly store: FormStore,
    private readonly options: SharedFormsOptions,
  ) {
    super(place, 'weir-learned', LOOK_MS)
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

  protected async exchange(client: RedisClient): Promise<void> {
    await this.sendForgotten(client)
    await this.sendEvidence(client)
    if ((await client.get(VERSION)) !== this.version) await this.read(client)
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
    const texts = await readHash(client, FORMS)
    return [...texts.values()].flatMap((text) => parseForm(parseObject(text)) ?? [])
  }

  private async makeRoom(client: RedisClient, all: readonly LearnedForm[]): Promise<void> {
    if (all.length <= STORED_MAX) return
    const oldest = [...all].sort((one, other) => one.learnedMs - other.learnedMs).slice(0, all.length - STORED_MAX)
    await client.hdel(FORMS, ...oldest.map(formKey))
  }
}
