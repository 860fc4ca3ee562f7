/** Replies of scripts are read as they were written, however a socket cuts them; everything else is rejected. */

import { expect, test } from 'bun:test'
import type { Socket } from 'bun'
import { rateLimits } from '../../src/core/limits.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { readLines } from '../../src/ledger/redis/store/script-replies.ts'
import { connect } from '../../src/redis/connect.ts'
import { accountOf, holdOf } from './conformance.ts'
import { Random, randomSeed } from './random.ts'
import { failureOf } from './seen.ts'

const LINES = 3000
const LARGEST = Number.MAX_SAFE_INTEGER

function number(random: Random): number {
  return random.pick([0, -1, 1, LARGEST, random.below(10), random.below(100_000), random.below(LARGEST)])
}

test('law: a line is read as its words are', () => {
  const random = new Random(randomSeed('script replies'))
  const replies = Array.from({ length: LINES }, () => {
    const outcome = random.pick(['granted', 'refused', 'ended'])
    const words = outcome === 'refused' ? [random.pick(['key', 'organization']), 'requestsPerMinute'] : []
    return { outcome, words, numbers: Array.from({ length: random.below(15) }, () => number(random)) }
  })
  const lines = replies.map(({ outcome, words, numbers }) => [outcome, ...words, ...numbers].join(' '))
  for (const reply of [[lines.join('\n')], lines.join('\n')])
    expect<unknown>(readLines('reserve', reply)).toEqual(replies)
})

const BAD_LINES = ['', ' ', 'unknown 1', 'Granted 1', 'grante', 'granted1', ' granted 1', 'granted  1', 'granted 1 ']
const BAD_NUMBERS = ['x', '1x', '-', '--1', '+1', '1.5', '1e3', '0x1', 'NaN', '9007199254740992', '1'.repeat(400)]

test('a line that no script writes is rejected with its text', () => {
  const bad = [...BAD_LINES, ...BAD_NUMBERS.map((one) => `granted 5 ${one} 6`), 'refused key budget x']
  const accepted = bad.filter((line) => {
    for (const text of [line, `granted 1\n${line}`, `${line}\ngranted 1`]) {
      try {
        readLines('reserve', [text])
        return true
      } catch (error) {
        expect(String(error)).toStartWith("ScriptReplyError: Unexpected reply from script 'reserve': ")
      }
    }
    return false
  })
  expect(accepted).toEqual([])
  for (const reply of [[], [5], 5, null]) expect(() => readLines('reserve', reply)).toThrow('Unexpected reply')
})

/** The words of each command in the bytes that a client sent; the rest if the last is incomplete. */
function commandsOf(bytes: string): { readonly commands: readonly (readonly string[])[]; readonly rest: string } {
  const commands: string[][] = []
  let rest = bytes
  for (;;) {
    const lines = rest.split('\r\n')
    const count = Number(lines[0]?.slice(1))
    if (lines.length < 2 * count + 2) return { commands, rest }
    commands.push(Array.from({ length: count }, (_, i) => lines[2 * i + 2] ?? ''))
    rest = lines.slice(2 * count + 1).join('\r\n')
  }
}

/** Answers a client like a Redis whose script replies are given by `called`. */
function fakeRedis(called: (socket: Socket<unknown>) => void) {
  let received = ''
  return Bun.listen<unknown>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      open: () => {
        received = ''
      },
      data: (socket, bytes) => {
        const { commands, rest } = commandsOf(received + bytes.toString('latin1'))
        received = rest
        for (const [name] of commands) {
          if (name === 'evalsha') called(socket)
          else socket.write(name === 'info' ? '$19\r\nredis_version:7.4.0\r\n' : '+OK\r\n')
        }
      },
    },
  })
}

const RATES = Array.from({ length: 4 * rateLimits.length }, (_, i) => i + 5).join(' ')
const GRANTED = `granted 1700000000000 ${RATES}`

test('a reply may be cut at any byte, and each call gets its own', async () => {
  const text = [`${GRANTED}`, `refused key ${rateLimits[0]?.name} 1000 0 0 ${RATES}`].join('\n')
  const reply = `*1\r\n$${text.length}\r\n${text}\r\n`
  let cut = 0
  using server = fakeRedis((socket) => {
    socket.write(reply.slice(0, cut))
    socket.flush()
    setImmediate(() => socket.write(reply.slice(cut)))
  })
  const client = connect({ kind: 'single', url: `redis://127.0.0.1:${server.port}`, timeoutMs: 10_000 }, 'cut')
  await new Promise<void>((resolve) => client.once('ready', () => resolve()))
  const store = new RedisStore(client, client)
  const account = accountOf({ requestsPerMinute: 60 })
  for (cut = 1; cut < reply.length; cut++) {
    const [granted, refused] = await Promise.all([store.reserve(account, holdOf(1)), store.reserve(account, holdOf(2))])
    expect([cut, granted.outcome, refused.outcome]).toEqual([cut, 'granted', 'refused'])
    if (granted.outcome === 'granted') expect(granted.rates[0]).toEqual({ limit: 60, remaining: 5, resetMs: 6 })
  }
  client.disconnect()
})

test('a call whose connection ends within the reply fails at its deadline, and is not sent again', async () => {
  let calls = 0
  using server = fakeRedis((socket) => {
    calls += 1
    socket.write(`*1\r\n$${GRANTED.length}\r\ngranted 17`)
    socket.flush()
    socket.terminate()
  })
  const client = connect({ kind: 'single', url: `redis://127.0.0.1:${server.port}`, timeoutMs: 250 }, 'cut')
  await new Promise<void>((resolve) => client.once('ready', () => resolve()))
  const again = new Promise<void>((resolve) => client.once('ready', () => resolve()))
  const store = new RedisStore(client, client)
  expect(await failureOf(store.reserve(accountOf(), holdOf(1)))).toContain('Command timed out')
  await again
  expect(calls).toBe(1)
  client.disconnect()
})
