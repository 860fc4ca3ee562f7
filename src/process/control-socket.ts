/**
 * The control socket, through which the command line talks to the running weir: a Unix socket in the data directory
 * that only its owner may open. Each line is a JSON object, and so is each answer. It never serves callers.
 */

import { mkdir, unlink } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { messageOf } from '../core/error-message.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { peerUid } from './libc.ts'
import { userActor } from './user-actor.ts'

/** A connection that sends a longer line is closed. */
const LINE_CHARS_MAX = 64 * 1024

export const CONTROL_SOCKET = 'control.sock'

/**
 * The commands, by their name in `ask`. `peer`: the user of the process that asks, for the admin audit. The message of
 * an error that a handler throws becomes the answer.
 */
type ControlHandlers = Readonly<Record<string, (request: JsonObject, peer: string) => object | Promise<object>>>

export interface Control {
  /** Closes all connections and deletes the socket. */
  close(): Promise<void>
}

/**
 * Opens the socket. Resolves to a problem for the operator if another program serves it or the directory is not
 * writable. A socket that a killed weir left is replaced.
 */
export async function openControl(
  dataDir: string,
  handlers: ControlHandlers,
): Promise<Control | { readonly problem: string }> {
  const path = join(dataDir, CONTROL_SOCKET)
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    if (await isServed(path)) return { problem: `${path}: another program serves it` }
    await unlink(path).catch(() => {})
    return await listen(path, handlers)
  } catch (error) {
    return { problem: `${path}: ${messageOf(error)}` }
  }
}

async function listen(path: string, handlers: ControlHandlers): Promise<Control> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    serve(socket, handlers)
  })
  // Created under this mask, the socket is never open to others, not even for a moment.
  const mask = process.umask(0o177)
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(path, resolve)
    })
  } finally {
    process.umask(mask)
  }
  return {
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
      await unlink(path).catch(() => {})
    },
  }
}

function serve(socket: Socket, handlers: ControlHandlers): void {
  const peer = peerOf(socket)
  let received = ''
  // Answers are in the order of the requests.
  let answered: Promise<unknown> = Promise.resolve()
  socket.setEncoding('utf8')
  // A client that disconnects early does not need its answer.
  socket.on('error', () => socket.destroy())
  socket.on('data', (text: string) => {
    const lines = (received + text).split('\n')
    received = lines.pop() ?? ''
    for (const line of lines) {
      answered = answered.then(async () => socket.write(`${await answer(line, handlers, peer)}\n`))
    }
    if (received.length > LINE_CHARS_MAX) socket.destroy()
  })
}

/** The user of the process at the other end, as the system knows it. */
function peerOf(socket: Socket): string {
  // Node's types have no descriptor. Without one the peer is one of those that may open the socket: its owner, or root.
  const { _handle: handle } = socket as unknown as { readonly _handle?: { readonly fd?: unknown } | null }
  const uid = typeof handle?.fd === 'number' ? peerUid(handle.fd) : undefined
  return uid === undefined ? 'uid:unknown' : userActor(uid)
}

/** `{"ok":true,…}`, or `{"ok":false,"error"}`. */
async function answer(line: string, handlers: ControlHandlers, peer: string): Promise<string> {
  try {
    const request: unknown = JSON.parse(line)
    const ask = isObject(request) ? request['ask'] : undefined
    if (!isObject(request) || typeof ask !== 'string' || !Object.hasOwn(handlers, ask))
      return JSON.stringify({ ok: false, error: 'unknown command' })
    return JSON.stringify({ ok: true, ...(await handlers[ask]?.(request, peer)) })
  } catch (error) {
    return JSON.stringify({ ok: false, error: messageOf(error) })
  }
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
