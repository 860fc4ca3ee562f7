/**
 * Log lines of requests without a valid key: the first of a second one by one, the others as a number, in bounded
 * memory.
 */

import { describe, expect, test } from 'bun:test'
import type { RequestLine } from '../../src/gateway/request-line.ts'
import { AnonymousLog, type Omitted } from '../../src/http/anonymous-log.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { Serving } from '../support/serving.ts'
import { closedPort } from '../support/upstream.ts'

const line = (status: number): RequestLine => ({
  request_id: 'req_1',
  status,
  streamed: false,
  total_ms: 1,
  remote: '192.0.2.1',
  outcome: 'refused',
})

function make() {
  const lines: RequestLine[] = []
  const omitted: Omitted[] = []
  let nowMs = 0
  const log = new AnonymousLog(
    (one) => lines.push(one),
    (one) => omitted.push(one),
    () => nowMs,
  )
  const later = (ms: number) => {
    nowMs += ms
    log.tick(nowMs)
  }
  return { lines, omitted, log, later }
}

describe('from one address', () => {
  test('20 lines a second, and one line for the others', () => {
    const { lines, omitted, log, later } = make()
    for (let n = 0; n < 100; n++) log.write('192.0.2.1', line(n % 4 === 0 ? 200 : 401))
    expect([lines.length, omitted.length]).toEqual([20, 0])
    later(999)
    expect(omitted).toEqual([])
    later(1)
    expect(omitted).toEqual([{ remote: '192.0.2.1', requests: 80, statuses: { '200': 20, '401': 60 } }])
    for (let n = 0; n < 20; n++) log.write('192.0.2.1', line(401))
    later(1000)
    expect([lines.length, omitted.length]).toEqual([40, 1])
  })

  test('another address has its own 20, and a /64 of IPv6 is one address', () => {
    const { lines, omitted, log, later } = make()
    for (let n = 0; n < 30; n++) {
      log.write('192.0.2.1', line(401))
      log.write('::ffff:192.0.2.2', line(401))
      log.write(`2001:db8:1:2::${n.toString(16)}`, line(401))
      log.write(`2001:db8:1:2:${n.toString(16)}::`, line(401))
      log.write(`2001:db8:1:3:0:0:0:${n.toString(16)}`, line(401))
    }
    later(1000)
    expect(lines.length).toBe(4 * 20)
    expect(omitted.map(({ remote, requests }) => [remote, requests])).toEqual([
      ['192.0.2.1', 10],
      ['192.0.2.2', 10],
      ['2001:db8:1:2::/64', 40],
      ['2001:db8:1:3::/64', 10],
    ])
  })
})

test('of very many addresses those beyond the table share 20 lines a second', () => {
  const { lines, omitted, log, later } = make()
  for (let n = 0; n < 100_000; n++) log.write(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`, line(401))
  later(1000)
  expect(lines.length).toBe(1024 + 20)
  expect(omitted).toEqual([{ remote: 'others', requests: 100_000 - 1044, statuses: { '401': 100_000 - 1044 } }])
})

test('a flood of bad keys, unknown paths and HEAD: few lines, none lost, and all lines with a key', async () => {
  await using serving = new Serving({ providers: { up: `http://127.0.0.1:${await closedPort()}/v1` } })
  const each = 50
  for (let n = 0; n < each; n++) {
    await Promise.all([
      ask(serving.port, requestBytes('/v1/models', { key: `no-such-key-${n}-0123456789` })),
      ask(serving.port, requestBytes('/v1/models', { method: 'HEAD', fields: { connection: 'close' } })).catch(
        () => undefined,
      ),
      ask(serving.port, requestBytes('/nowhere')),
      ask(serving.port, requestBytes('/v1/models', { key: KEY })),
    ])
  }
  const omitted = () => serving.lines.filter((one) => one['event'] === 'requests.omitted')
  const anonymous = () => serving.lines.filter((one) => one['msg'] === 'request' && one['organization'] === undefined)
  const sum = () => omitted().reduce((total, one) => total + Number(one['requests']), 0)
  while (anonymous().length + sum() < 3 * each) await Bun.sleep(50)
  expect(anonymous().length + sum()).toBe(3 * each)
  expect(anonymous().length).toBeLessThanOrEqual(20 * (omitted().length + 1))
  expect(omitted()[0]).toMatchObject({ remote: '127.0.0.1' })
  expect(serving.lines.filter((one) => one['organization'] === 'test')).toHaveLength(each)
})
