/** Reads from the admin API of the running gateway, at the address and with the token of the configuration. */

import { Agent, get } from 'node:http'
import type { Config } from '../config/config.ts'
import { isObject, type JsonObject, parseObject, stringOf } from '../core/json.ts'

const ANSWER_MS_MAX = 5000
/** The largest answer is that of 1,000 budgets. */
const ANSWER_CHARS_MAX = 16 * 1024 * 1024

/** The admin API cannot be reached, or refuses. `message` is one line for the operator. */
export class AdminProblem extends Error {
  override readonly name = 'AdminProblem'
}

interface AdminPlace {
  readonly host: string
  readonly port: number
  readonly tokens: Config['admin']['tokens']
}

/** An address that listens on all interfaces is reached through loopback. */
const REACHED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

export class AdminClient {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 4 })

  constructor(private readonly place: AdminPlace) {}

  /** The JSON of a path. Throws `AdminProblem`. */
  async read(path: string): Promise<JsonObject> {
    const { status, text } = await this.get(path)
    const answer = parseObject(text)
    if (status === 200 && answer !== undefined) return answer
    const error = answer?.['error']
    const message = isObject(error) ? stringOf(error['message']) : undefined
    throw new AdminProblem(`${this.address}${path}: ${message ?? `status ${status}`}`)
  }

  close(): void {
    this.agent.destroy()
  }

  private get host(): string {
    const { host } = this.place
    return (REACHED[host] ?? host).replace(/^\[(.*)\]$/, '$1')
  }

  private get address(): string {
    const { host } = this
    return `http://${host.includes(':') ? `[${host}]` : host}:${this.place.port}`
  }

  private get(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
    const { tokens } = this.place
    // It only reads.
    const { token } = tokens.find(({ role }) => role === 'read') ?? tokens[0] ?? {}
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const request = get({ host: this.host, port: this.place.port, path, headers, agent: this.agent }, (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (chunk: string) => {
        text += chunk
        if (text.length > ANSWER_CHARS_MAX) request.destroy(new Error('the answer is too large'))
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
      answer.on('error', (error) => reject(this.problemOf(error)))
    })
    request.setTimeout(ANSWER_MS_MAX, () => request.destroy(new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`)))
    request.on('error', (error) => reject(this.problemOf(error)))
    return promise
  }

  private problemOf(error: Error): AdminProblem {
    const code = 'code' in error ? String(error.code) : ''
    const isNobody = code === 'ECONNREFUSED' || code === 'ConnectionRefused'
    const why = isNobody ? 'no gateway listens there' : error.message
    return new AdminProblem(`the admin port ${this.address} cannot be reached: ${why}`)
  }
}
