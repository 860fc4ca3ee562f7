/** Messages to a process whose channel is closed while it runs: they must not end the supervisor. */

import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ChildProcess } from '../../src/process/children/child-process.ts'
import { lives, until } from './weir.ts'

/**
 * Answers each message with its process id. At the message `close` it closes the channel, makes a file, and goes on.
 */
const CHILD = `
process.on('message', (message) => {
  if (message.do !== 'close') return process.send({ pid: process.pid })
  process.disconnect()
  require('node:fs').writeFileSync(process.argv[1], '')
})
setInterval(() => {}, 1000)
process.send({ pid: process.pid })
`

const folder = mkdtempSync(join(tmpdir(), 'weir-child-'))
const closed = join(folder, 'closed')

afterAll(() => rmSync(folder, { recursive: true, force: true }))

function start() {
  const messages: unknown[] = []
  const ended = Promise.withResolvers<string>()
  const child = new ChildProcess<{ readonly do: string }>({
    command: [process.execPath, '-e', CHILD, closed],
    env: process.env,
    onMessage: (message) => messages.push(message),
    onExit: ended.resolve,
  })
  return { child, messages, ended: ended.promise }
}

test('a process that has closed its channel, and runs on, is sent nothing', async () => {
  const { child, messages, ended } = start()
  await until(() => messages.length === 1)
  child.send({ do: 'answer' })
  await until(() => messages.length === 2)
  child.send({ do: 'close' })
  // The first ones may still be written, to nobody; Bun throws for the others.
  for (let sent = 0; sent < 20; await Bun.sleep(1)) {
    child.send({ do: 'answer' })
    if (existsSync(closed)) sent++
  }
  expect(messages).toEqual([{ pid: child.pid }, { pid: child.pid }])
  expect(await lives(child.pid ?? 0)).toBe(true)
  child.kill('SIGKILL')
  child.send({ do: 'answer' })
  expect(await ended).toBe('signal SIGKILL')
  child.send({ do: 'answer' })
})

test('a program that cannot be started has ended', async () => {
  const ended = Promise.withResolvers<string>()
  const child = new ChildProcess<{ readonly do: string }>({
    command: [join(folder, 'none')],
    env: {},
    onMessage: () => {},
    onExit: ended.resolve,
  })
  child.send({ do: 'answer' })
  child.kill('SIGKILL')
  expect(child.pid).toBeUndefined()
  expect(await ended.promise).toStartWith('not started: ENOENT: ')
})

test('Bun itself throws for such a message', async () => {
  const disconnected = Promise.withResolvers<void>()
  const raw = Bun.spawn([process.execPath, '-e', 'process.disconnect(); setInterval(() => {}, 1000)'], {
    stdio: ['ignore', 'ignore', 'ignore'],
    ipc: () => {},
    onDisconnect: () => disconnected.resolve(),
  })
  await disconnected.promise
  expect(() => raw.send({ do: 'answer' })).toThrow()
  raw.kill('SIGKILL')
  await raw.exited
})
