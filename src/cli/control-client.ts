/** Asks the running program over its control socket. Commands use it; it prints nothing. */

import { connect } from 'node:net'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../core/json.ts'
import { CONTROL_SOCKET } from '../process/control-socket.ts'

const ANSWER_MS_MAX = 5000

/** The program answered that it cannot, or not as it should. */
export class ControlProblem extends Error {
  override readonly name = 'ControlProblem'
}

/**
 * One question and its answer; undefined where no program serves the socket of this data directory. Throws `ControlProblem` with a
 * line for the operator.
 */
export async function askControl(dataDir: string, request: JsonObject): Promise<JsonObject | undefined> {
  const path = join(dataDir, CONTROL_SOCKET)
  const line = await exchange(path, `${JSON.stringify(request)}\n`)
  if (line === undefined) return undefined
  const answer = parsed(line)
  if (answer === undefined) throw new ControlProblem(`${path}: the program answered with something else than JSON`)
  if (answer['ok'] !== true) throw new ControlProblem(`${path}: ${String(answer['error'])}`)
  return answer
}

function exchange(path: string, line: string): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>()
  const socket = connect(path)
  let received = ''
  let connected = false
  socket.setEncoding('utf8')
  socket.setTimeout(ANSWER_MS_MAX, () => socket.destroy(new ControlProblem(`${path}: the program does not answer`)))
  socket.once('connect', () => {
    connected = true
    socket.write(line)
  })
  socket.on('data', (text: string) => {
    received += text
    if (!received.includes('\n')) return
    resolve(received.slice(0, received.indexOf('\n')))
    socket.destroy()
  })
  socket.once('error', (error) => (connected ? reject(error) : resolve(undefined)))
  socket.once('close', () => reject(new ControlProblem(`${path}: the program closed the connection`)))
  return promise
}

function parsed(line: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
