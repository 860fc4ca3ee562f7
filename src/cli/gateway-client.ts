/** Asks the gateway that runs with a `data_dir`, over its control socket, as the user that runs the command. */

import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { isArray, type JsonObject, objectOf, parseObject, stringOf } from '../core/json.ts'
import { CONTROL_SOCKET } from '../process/control/control-socket.ts'

/** Most requests are answered from memory. */
const REPLY_MS_MAX = 5000

/** The gateway reported an error, or its reply is not valid. `message` is one line for the operator. */
export class GatewayProblem extends Error {
  override readonly name = 'GatewayProblem'
}

export type Asked = readonly [methodAndPath: `${'GET' | 'POST'} /${string}`, withinMs?: number | undefined]

/**
 * Resolves to the JSON that answers `GET /path` of the admin port; undefined if no gateway listens for this data
 * directory. Throws `GatewayProblem`, also if there is no reply within `withinMs`.
 */
export async function askGateway(
  dataDir: string,
  ...[asked, withinMs = REPLY_MS_MAX]: Asked
): Promise<JsonObject | undefined> {
  const path = join(dataDir, CONTROL_SOCKET)
  const text = await exchange(path, asked, withinMs)
  if (text === undefined) return undefined
  const answer = parseObject(text)
  if (answer === undefined) throw new GatewayProblem(`${path}: the reply of the gateway is not JSON`)
  const { error } = answer
  const message = stringOf(objectOf(error)?.['message']) ?? stringOf(error)
  if (message !== undefined) throw new GatewayProblem(`${path}: ${message}`)
  return answer
}

/** The lines of a list in an answer. */
export function lines(value: unknown): readonly string[] {
  return isArray(value) ? value.map(String) : []
}

function exchange(socketPath: string, asked: string, withinMs: number): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
  const [method = '', path] = asked.split(' ')
  const call = request({ socketPath, method, path, agent: false }, (answer) => {
    let text = ''
    answer.setEncoding('utf8')
    answer.on('data', (part: string) => {
      text += part
    })
    answer.once('end', () => resolve(text))
    answer.once('error', (error) => reject(new GatewayProblem(`${socketPath}: ${error.message}`)))
  })
  call.setTimeout(withinMs, () => call.destroy(new GatewayProblem(`${socketPath}: the gateway does not reply`)))
  call.once('error', (error: NodeJS.ErrnoException) => {
    if (error instanceof GatewayProblem) reject(error)
    else if (error.message.startsWith('connect ')) resolve(undefined)
    else if (error.code?.startsWith('HPE_') === true) exchangeLines(socketPath, asked, withinMs).then(resolve, reject)
    else reject(new GatewayProblem(`${socketPath}: the gateway closed the connection`))
  })
  call.end()
  return promise
}

/**
 * What a gateway of the version before that of HTTP on this socket calls these: it takes a line of JSON, and its
 * supervisor runs on after an upgrade with SIGUSR2, until a restart.
 */
const ASKS: Readonly<Record<string, string>> = {
  'GET /readyz': 'health',
  'POST /api/reload': 'reload',
  'GET /local/config': 'config',
  'GET /local/rests': 'rests',
  'POST /local/alerts-test': 'alerts-test',
}

async function exchangeLines(path: string, asked: string, withinMs: number): Promise<string> {
  const ask = ASKS[asked]
  if (ask === undefined)
    throw new GatewayProblem(`${path}: the supervisor of the gateway is of an earlier version; restart the gateway`)
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const socket = connect(path, () => socket.write(`${JSON.stringify({ ask })}\n`))
  let received = ''
  socket.setEncoding('utf8')
  socket.setTimeout(withinMs, () => socket.destroy())
  socket.on('data', (text: string) => {
    received += text
    if (!text.includes('\n')) return
    resolve(received)
    socket.destroy()
  })
  socket.once('error', () => {})
  socket.once('close', () => reject(new GatewayProblem(`${path}: the gateway does not reply`)))
  return promise
}
