import { expect, test } from 'bun:test'
import { hostname } from 'node:os'
import { join } from 'node:path'

const LOG = JSON.stringify(join(import.meta.dir, '../../src/logging/log.ts'))

async function run(script: string): Promise<{ code: number; lines: Record<string, unknown>[]; stderr: string }> {
  const process_ = Bun.spawn([process.execPath, '-e', `import { openLog, dieOnUncaught } from ${LOG}\n${script}`], {
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, stderr, code] = await Promise.all([
    new Response(process_.stdout).text(),
    new Response(process_.stderr).text(),
    process_.exited,
  ])
  return {
    code,
    lines: out
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
    stderr,
  }
}

test('a line has its time as ISO 8601, its level as a word, its node, and no other fields of its own', async () => {
  const { lines } = await run(`const log = openLog(); log.logger.info({ status: 200 }, 'request'); await log.flush()`)
  expect(lines).toEqual([{ level: 'info', time: expect.any(String), node: hostname(), status: 200, msg: 'request' }])
  expect(new Date(String(lines[0]?.['time'])).toISOString()).toBe(String(lines[0]?.['time']))
})

test('a line has no fields of the lines before it', async () => {
  const script = `log.logger.info({ worker: 1 }, 'a'); log.logger.info({ status: 2 }, 'b'); await log.flush()`
  const { lines } = await run(`const log = openLog(); ${script}`)
  expect(lines.map(({ worker, status }) => [worker, status])).toEqual([
    [1, undefined],
    [undefined, 2],
  ])
})

test('every line has the name that the node is given, that of a request, too', async () => {
  const script = `log.node('gateway-"1'); log.logger.info('a'); log.request('"status":200'); await log.flush()`
  const { lines } = await run(`const log = openLog(); ${script}`)
  expect(lines.map(({ node }) => node)).toEqual(['gateway-"1', 'gateway-"1'])
})

test('a line has no field of the line before it', async () => {
  const { lines } = await run(
    `const log = openLog(); log.logger.info({ a: 1 }, 'one'); log.logger.info({ b: 2 }, 'two')`,
  )
  expect(lines.map((line) => Object.keys(line).sort())).toEqual([
    ['a', 'level', 'msg', 'node', 'time'],
    ['b', 'level', 'msg', 'node', 'time'],
  ])
})

test('a line is written without a flush', async () => {
  const { lines } = await run(`openLog().logger.info('a')`)
  expect(lines).toHaveLength(1)
})

for (const [name, script] of [
  ['an uncaught exception', `setTimeout(() => { throw new TypeError('text of a caller') })`],
  ['an unhandled rejection', `void Promise.reject(new TypeError('text of a caller'))`],
] as const) {
  test(`${name} is one line without its message, and the end of the process`, async () => {
    const { code, lines, stderr } = await run(
      `dieOnUncaught(openLog(), { worker: 3 }); setInterval(() => {}, 1000); ${script}`,
    )
    expect(code).toBe(70)
    expect(lines).toEqual([
      {
        level: 'fatal',
        time: expect.any(String),
        node: hostname(),
        event: 'process.crashed',
        worker: 3,
        error: 'TypeError',
        at: expect.any(Array),
        msg: 'crashed',
      },
    ])
    expect(JSON.stringify(lines) + stderr).not.toContain('text of a caller')
  })
}

test('the line of a request equals what the logger writes', async () => {
  const { code, lines } = await run(`
    const log = openLog()
    const more = { text: 'a"b', attempts: [{ ms: 1.5 }], streamed: false }
    const fields = { request_id: 'r', key: undefined, status: 200, ...more }
    log.logger.info(fields, 'request')
    log.request(JSON.stringify(fields).slice(1, -1))
    await log.flush()
  `)
  const [one, other] = lines.map((line) => JSON.stringify({ ...line, time: '' }))
  expect([code, lines.length]).toEqual([0, 2])
  expect(other).toBe(one ?? '')
})
