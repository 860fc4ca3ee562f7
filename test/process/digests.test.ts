/** Digests of configurations, by which nodes find out that theirs differ, and where. */

import { expect, test } from 'bun:test'
import type { NodeRow } from '../../src/admin/api-shapes.ts'
import type { Config } from '../../src/config/config.ts'
import { detailsOf, differences, digestsOf, hashesOf, mixedNodes } from '../../src/process/fleet/digests.ts'
import { edited, good } from '../config/fixture.ts'

const SECRET = 'of the fleet'

/** With a counter for each person, one of whom may spend more. */
const BUDGETS = `    budgets:
      - { name: person, per: "tag:person", limits: { spend: { day: 5 } }, except: { ann: { spend: { day: 20 } } } }
`
const CONFIG = `tags: [person]\n${edited('    auto: available\n', `    auto: available\n${BUDGETS}`)}`

function digestOf(config: Config): string {
  return digestsOf(hashesOf(config), SECRET).configuration
}

/** Calls with a way to replace each value that is neither a list nor an object nor a map, at any depth. */
function eachValue(
  value: unknown,
  path: string,
  found: (path: string, value: unknown, put: (to: unknown) => void) => void,
) {
  if (typeof value !== 'object' || value === null) return
  const entries = value instanceof Map ? [...value] : Object.entries(value)
  for (const [name, part] of entries) {
    const put = (to: unknown) => (value instanceof Map ? value.set(name, to) : Reflect.set(value, name, to))
    if (typeof part === 'object' && part !== null) eachValue(part, `${path}.${name}`, found)
    else found(`${path}.${name}`, part, put)
  }
}

/** What belongs to the machine. */
const OWN = /^\.(workers|dataDir|nodeName|log|listen\.(?!explainHeader|proxyProtocol)|admin\.(?!tokens)|ledger\.)/

test('every value of a configuration that nodes share is in its digest', () => {
  const config = good(CONFIG)
  const before = digestOf(config)
  const paths: string[] = []
  eachValue(config, '', (path, value, put) => {
    put('another')
    if (digestOf(config) === before) paths.push(path)
    put(value)
  })
  expect(digestOf(config)).toBe(before)
  expect(paths.filter((path) => path !== '.ledger.kind' && !OWN.test(path))).toEqual([])
})

test('the order of fields does not matter, and a difference is named', () => {
  const config = good(CONFIG)
  const turned = { ...config, organizations: config.organizations.map(reversed) }
  expect(digestOf(turned)).toBe(digestOf(config))
  expect(differences(detailsOf(config, SECRET), detailsOf(turned, SECRET))).toEqual([])

  const other = good(edited('{ spend: { day: 20 } }', '{ spend: { day: 30 } }', CONFIG))
  expect(differences(detailsOf(config, SECRET), detailsOf(other, SECRET))).toEqual(['organizations[0].budgets'])
  const [own, others] = [digestsOf(hashesOf(config), SECRET), digestsOf(hashesOf(other), SECRET)]
  expect(others.organizations).not.toBe(own.organizations)
  expect(others.models).toBe(own.models)
  expect(digestsOf(hashesOf(config), 'another').models).not.toBe(own.models)
})

test('another version whose digests are its own has the same configuration, unless a difference can be named', () => {
  const [config, other] = [good(CONFIG), good(edited('{ spend: { day: 20 } }', '{ spend: { day: 30 } }', CONFIG))]
  const details = new Map([
    ['own', detailsOf(config, SECRET)],
    ['earlier', detailsOf(config, SECRET)],
    ['other', detailsOf(other, SECRET)],
  ])
  const node = (id: string, version: string, configuration: string): NodeRow => ({
    ...{ id, name: id, host: 'h', version, commit: null, since: '2026-01-01', seen_at: '2026-01-01', workers: 1 },
    ...{ state: 'ready', requests_per_second: 0, open_streams: 0, failed_ratio: null, spend_micro_usd_per_hour: 0 },
    digests: { configuration, models: configuration, prices: configuration, organizations: configuration },
  })
  const mixed = (...nodes: NodeRow[]) => mixedNodes(nodes, (digest) => details.get(digest))
  const [own, earlier] = [node('a', '2', 'own'), node('b', '1', 'earlier')]
  const version = { section: 'version', nodes: ['b'] }
  expect(mixed(own, earlier)).toEqual([version])
  expect(mixed(own, node('b', '1', 'other'))).toEqual([version, { section: 'organizations[0].budgets', nodes: ['b'] }])
  // Nothing can be named yet.
  expect(mixed(own, node('b', '1', 'unread'))).toEqual([version])
  expect(mixed(own, node('b', '2', 'unread')).map(({ section }) => section)).toEqual([
    'models',
    'prices',
    'organizations',
  ])
})

function reversed<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).reverse()) as T
}
