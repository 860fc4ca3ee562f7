/**
 * The running program between providers and callers made of bare TCP: each model is a scenario, or one for each of its
 * targets.
 */

import type { JsonObject } from '../../src/core/json.ts'
import { bytesOf, field, headOf } from '../support/bytes.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { lasting } from '../support/served.ts'
import { type Call, type Scenario, Upstream } from '../support/upstream.ts'

export const CHAT = '/v1/chat/completions'

/** A model by what its only target does, or its targets in order. */
export type Models = Readonly<Record<string, Scenario | readonly Scenario[]>>

export interface StageOptions {
  /** Over every provider's entry: its deadlines. */
  readonly provider?: JsonObject
  /** Over the configuration file. */
  readonly config?: JsonObject
  readonly env?: Readonly<Record<string, string>>
}

export class Stage implements AsyncDisposable {
  private constructor(
    readonly gateway: Gateway,
    readonly upstreams: readonly Upstream[],
  ) {}

  static async start(models: Models, options: StageOptions = {}): Promise<Stage> {
    const lists = Object.entries(models).map(
      ([name, does]) => [name, typeof does === 'function' ? [does] : does] as const,
    )
    const places = Array.from({ length: Math.max(...lists.map(([, targets]) => targets.length)) }, (_, place) => place)
    const upstreams = await Promise.all(places.map(() => Upstream.start()))
    for (const [name, targets] of lists)
      for (const [place, scenario] of targets.entries()) upstreams[place]?.on(name, scenario)
    const providers = upstreams.map((upstream, place) => [
      `p${place}`,
      { dialect: 'openai', base_url: upstream.url, api_key: `provider-key-of-p${place}`, ...options.provider },
    ])
    const gateway = await Gateway.start({
      providers: Object.fromEntries(providers),
      models: Object.fromEntries(
        lists.map(([name, targets]) => [name, targets.map((_, place) => `p${place}/${name}`)]),
      ),
      ...(options.config && { config: options.config }),
      ...(options.env && { env: options.env }),
    })
    return new Stage(gateway, upstreams)
  }

  /** Sends a request and reads its whole answer. */
  ask(model: string, body: JsonObject = {}): Promise<Answer> {
    return ask(this.gateway.port, chat(model, body))
  }

  /** A caller whose request is sent. */
  async caller(model: string, body: JsonObject = {}): Promise<Caller> {
    const caller = await Caller.connect(this.gateway.port)
    caller.send(chat(model, body))
    return caller
  }

  /** The n-th request that a provider got for a model. */
  call(model: string, provider = 0, n = 0): Promise<Call> {
    const upstream = this.upstreams[provider]
    if (upstream === undefined) throw new Error(`there is no provider ${provider}`)
    return upstream.call(model, n)
  }

  /** How many requests a provider got for a model. */
  calls(model: string, provider = 0): number {
    return this.upstreams[provider]?.calls.filter((call) => call.model === model).length ?? 0
  }

  /** The log line of an answer. */
  lineOf(answer: Answer): Promise<JsonObject> {
    return this.gateway.request(answer.header('x-request-id'))
  }

  /** The first log line of a request for a model: for callers that get no answer. */
  line(model: string): Promise<JsonObject> {
    return this.gateway.line((line) => line['msg'] === 'request' && line['requested_model'] === model)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]()
    await Promise.all(this.upstreams.map((upstream) => upstream[Symbol.asyncDispose]()))
  }
}

export function chat(model: string, body: JsonObject = {}): Uint8Array {
  return requestBytes(CHAT, { key: KEY, body: { model, messages: [{ role: 'user', content: 'hi' }], ...body } })
}

/** Resolves when the caller has the head of its answer; the value of one of its fields. */
export async function headField(caller: Caller, name: string): Promise<string | undefined> {
  const head = headOf(bytesOf(await caller.until('\r\n\r\n')))
  if (head === undefined) throw new Error('there is no head')
  return field(head, name)
}

export interface Seen {
  /** The text that all events say together. */
  readonly text: string
  readonly finish: string | undefined
  readonly done: boolean
}

/**
 * What an event stream holds. Throws if an event is incomplete, is no JSON, or is an error: no cut may look like that.
 */
export function seen(body: string): Seen {
  if (body !== '' && !body.endsWith('\n\n')) throw new Error(`the last event is not whole: ${body.slice(-200)}`)
  let text = ''
  let finish: string | undefined
  let done = false
  for (const event of body.split('\n\n')) {
    if (event === '' || event.startsWith(':')) continue
    if (done || !event.startsWith('data: ')) throw new Error(`not an event of a chat stream: ${event.slice(0, 200)}`)
    const data = event.slice('data: '.length)
    if (data === '[DONE]') {
      done = true
      continue
    }
    const chunk = JSON.parse(data)
    if ('error' in chunk) throw new Error(`an error event: ${data}`)
    text += chunk.choices[0]?.delta.content ?? ''
    finish ??= chunk.choices[0]?.finish_reason ?? undefined
  }
  return { text, finish, done }
}

export const STREAM = { stream: true } as const

/** A stage for all tests of a file. */
export async function lastingStage(models: Models, options?: StageOptions): Promise<Stage> {
  return lasting(await Stage.start(models, options))
}
