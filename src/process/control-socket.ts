/**
 * The control socket: how the command line asks the running program. A Unix socket in the data directory that only its owner may open;
 * one JSON object a line in, one out. It never serves callers.
 */

import { mkdir, unlink } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../core/json.ts'

/** Beyond it a line is no request; the connection is closed. */
const LINE_CHARS_MAX = 64 * 1024

export const CONTROL_SOCKET = 'control.sock'

/** What can be asked, by its name in `ask`. What a handler throws is told as its message. */
type ControlHandlers = Readonly<Record<string, (request: JsonObject) => object | Promise<object>>>

export interface Control {
  /** Ends every conversation and takes the socket away. */
  close(): Promise<void>
}

/**
 * Opens the socket. Resolves to a line for the operator where that cannot be: another program serves it, or the directory cannot be
 * written. One that a killed program left behind is replaced.
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
    return { problem: `${path}: ${error instanceof Error ? error.message : String(error)}` }
  }
}

async function listen(path: string, handlers: ControlHandlers): Promise<Control> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    serve(socket, handlers)
  })
  // Made under this mask, the socket is never open to others, not even for a moment.
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
  let received = ''
  socket.setEncoding('utf8')
  // Who asked and left has no use for the answer.
  socket.on('error', () => socket.destroy())
  socket.on('data', (text: string) => {
    const lines = (received + text).split('\n')
    received = lines.pop() ?? ''
    for (const line of lines) void answer(line, handlers).then((said) => socket.write(`${said}\n`))
    if (received.length > LINE_CHARS_MAX) socket.destroy()
  })
}

/** `{"ok":true,…}`, or `{"ok":false,"error"}`. */
async function answer(line: string, handlers: ControlHandlers): Promise<string> {
  try {
    const request: unknown = JSON.parse(line)
    const ask = isObject(request) ? request['ask'] : undefined
    if (!isObject(request) || typeof ask !== 'string' || !Object.hasOwn(handlers, ask))
      return JSON.stringify({ ok: false, error: 'this program does not know that question' })
    return JSON.stringify({ ok: true, ...(await handlers[ask]?.(request)) })
  } catch (error) {
    return JSON.stringify({ ok: false, error: error instanceof Error ? error.message : String(error) })
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
