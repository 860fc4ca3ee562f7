/**
 * The table of log events: every line that weir writes, except that of a request, comes from it, and every row is
 * used.
 */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LOG_EVENTS, logEvent } from '../../src/logging/log-events.ts'

const SRC = join(import.meta.dir, '../../src')
const sources = [...new Bun.Glob('**/*.ts').scanSync({ cwd: SRC })]
  .filter((path) => path !== 'logging/log-events.ts')
  .map((path) => ({ path, text: readFileSync(join(SRC, path), 'utf8') }))

test('no file logs without the table', () => {
  const direct = sources.filter(({ text }) => /logger\.(?:trace|debug|info|warn|error|fatal)\(/.test(text))
  expect(direct.map(({ path }) => path)).toEqual([])
})

test.each(Object.keys(LOG_EVENTS))('%s is logged somewhere', (event) => {
  expect(event).toMatch(/^[a-z]+\.[a-z_]+$/)
  expect(sources.some(({ text }) => text.includes(`'${event}'`))).toBe(true)
})

test('a line has the event, its fields and the message of the table', () => {
  const lines: unknown[] = []
  const at = (level: string) => (fields: object, message: string) => void lines.push([level, fields, message])
  const logger = { info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal') } as never
  logEvent(logger, 'ledger.down', { worker: 1 })
  logEvent(logger, 'ledger.down', { worker: 1 }, 'warn')
  logEvent(logger, 'server.stopped')
  expect(lines).toEqual([
    ['error', { event: 'ledger.down', worker: 1 }, 'ledger down'],
    ['warn', { event: 'ledger.down', worker: 1 }, 'ledger down'],
    ['info', { event: 'server.stopped' }, 'stopped'],
  ])
})
