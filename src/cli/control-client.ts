/** Sends requests of commands to the running gateway, over its control socket. */

import { connect } from 'node:net'
import { join } from 'node:path'
import { type JsonObject, parseObject } from '../core/json.ts'
import { CONTROL_SOCKET } from '../process/control-socket.ts'

/** Most requests are answered from memory. */
const REPLY_MS_MAX = 5000

/** The gateway reported an error, or its reply is not valid. */
export class ControlProblem extends Error {
  override readonly name = 'ControlProblem'
}

/**
 * Sends one request and resolves to its reply; undefined if no gateway listens for this data directory. Throws
 * `ControlProblem`, also if there is no reply within `withinMs`.
 */
export async function askControl(
  dataDir: string,
  request: JsonObject,
  withinMs = REPLY_MS_MAX,
): Promise<JsonObject | undefined> {
  const path = join(dataDir, CONTROL_SOCKET)
  const line = await exchange(path, `${JSON.stringify(request)}\n`, withinMs)
  if (line === undefined) return undefined
  const answer = parseObject(line)
  if (answer === undefined) throw new ControlProblem(`${path}: the reply of the gateway is not JSON`)
  if (answer['ok'] !== true) throw new ControlProblem(`${path}: ${String(answer['error'])}`)
  return answer
}

function exchange(path: string, line: string, withinMs: number): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
  const socket = connect(path)
  let received = ''
  let connected = false
  socket.setEncoding('utf8')
  socket.setTimeout(withinMs, () => socket.destroy(new ControlProblem(`${path}: the gateway does not reply`)))
  socket.once('connect', () => {
    connected = true
    socket.write(line)
  })
  socket.on('data', (text: string) => {
    received += text
    // A configuration can be some megabytes: what was received before is not searched again.
    if (!text.includes('\n')) return
    resolve(received.slice(0, received.indexOf('\n')))
    socket.destroy()
  })
  socket.once('error', (error) => (connected ? reject(error) : resolve(undefined)))
  socket.once('close', () => reject(new ControlProblem(`${path}: the gateway closed the connection`)))
  return promise
}
