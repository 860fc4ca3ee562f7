/**
 * The control socket, through which commands of this machine use the admin port without a token: a Unix socket in the
 * data directory that only its owner may open. The system knows who asks. It never serves callers.
 */

import { mkdir, unlink } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { messageOf } from '../../core/error-message.ts'
import { peerUid } from '../system/libc.ts'
import { userActor } from './user-actor.ts'

export const CONTROL_SOCKET = 'control.sock'

/** Answers a request of a user of this machine. */
type LocalHandler = (request: Request, actor: string) => Promise<Response>

/** For a command of a version before that of HTTP on this socket, which sends a line of JSON and prints the error. */
const TO_OLD_COMMAND = `${JSON.stringify({
  ok: false,
  error: 'the running gateway is of a later version than this command; use the weir command of its version',
})}\n`

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
  handler: LocalHandler,
): Promise<Control | { readonly problem: string }> {
  const path = join(dataDir, CONTROL_SOCKET)
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    if (await isServed(path)) return { problem: `${path}: another program serves it` }
    await unlink(path).catch(() => {})
    return await listen(path, handler)
  } catch (error) {
    return { problem: `${path}: ${messageOf(error)}` }
  }
}

async function listen(path: string, handler: LocalHandler): Promise<Control> {
  // `Bun.serve` does not show who connected: connections are accepted here, and given to a server of HTTP.
  const actors = new WeakMap<object, string>()
  const reader = http.createServer((incoming, outgoing) => {
    const actor = actors.get(incoming.socket) ?? 'uid:unknown'
    reply(incoming, outgoing, (request) => handler(request, actor)).catch(() => outgoing.destroy())
  })
  reader.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    if (code === 'HPE_INVALID_METHOD') socket.end(TO_OLD_COMMAND)
    else socket.destroy()
  })
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    // A client that disconnects early does not need its answer.
    socket.on('error', () => socket.destroy())
    actors.set(socket, peerOf(socket))
    reader.emit('connection', socket)
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

async function reply(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  handler: (request: Request) => Promise<Response>,
): Promise<void> {
  const gone = new AbortController()
  outgoing.once('close', () => gone.abort())
  const { method = 'GET', url = '/', headers } = incoming
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const {
    status,
    headers: fields,
    body,
  } = await handler(
    new Request(`http://localhost${url.startsWith('/') ? url : '/'}`, {
      method,
      headers: Object.entries(headers).map(([name, value]) => [name, String(value)]),
      signal: gone.signal,
      ...(hasBody ? { body: Readable.toWeb(incoming) } : {}),
    }),
  )
  outgoing.writeHead(status, Object.fromEntries(fields))
  for await (const part of body ?? []) {
    if (gone.signal.aborted) return
    if (outgoing.write(part)) continue
    await new Promise<void>((resolve) => {
      outgoing.once('drain', resolve)
      gone.signal.addEventListener('abort', () => resolve())
    })
  }
  outgoing.end()
}

/** The user of the process at the other end, as the system knows it. */
function peerOf(socket: Socket): string {
  // Node's types have no descriptor. Without one the peer is one of those that may open the socket: its owner, or root.
  const { _handle: handle } = socket as unknown as { readonly _handle?: { readonly fd?: unknown } | null }
  const uid = typeof handle?.fd === 'number' ? peerUid(handle.fd) : undefined
  return uid === undefined ? 'uid:unknown' : userActor(uid)
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
