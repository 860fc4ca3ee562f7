/** The admin port in this process, with a supervision that a test decides about. */

import { pino } from 'pino'
import { type AdminParts, createAdmin, openAdmin } from '../../src/admin/admin-app.ts'
import { NodeProblem, type Supervision, type SupervisorFigures, type SystemState } from '../../src/admin/supervision.ts'
import type { Config } from '../../src/config/config.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { TargetState } from '../../src/gateway/target-states.ts'
import { MergedFigures } from '../../src/metrics/merged-figures.ts'
import { configOf, type GatewaySetup } from './gateway.ts'

/** A checked configuration. `folder` is where its `data_dir` is. */
export function checked(setup: GatewaySetup, folder = '/nowhere'): Config {
  const parsed = parseConfig(JSON.stringify(configOf(setup, folder)), {
    env: {},
    readFile: () => ({ error: 'there are no files here' }),
    cores: 1,
  })
  if (!parsed.ok) throw new Error(parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
  return parsed.config
}

/** The state of a target that was never called. */
export const UNKNOWN: TargetState = {
  state: 'unknown',
  rest: undefined,
  failing: undefined,
  answeredMs: 0,
  isDown: false,
}

export function systemState(config: Config, more: Partial<SystemState> = {}): SystemState {
  return {
    config,
    node: 'gateway-1',
    port: 8080,
    startedAtMs: Date.now() - 60_000,
    version: '1.2.3',
    commit: 'abcdef0',
    lastReload: undefined,
    warnings: [],
    isLedgerUp: true,
    workers: { configured: 1, ready: 1, restarts: 0 },
    lastDeath: undefined,
    space: { freeBytes: 50, totalBytes: 100 },
    rests: [],
    alertFailures: [],
    hints: [],
    stateOf: () => UNKNOWN,
    ...more,
  }
}

export function supervisorFigures(more: Partial<SupervisorFigures> = {}): SupervisorFigures {
  return {
    counted: new MergedFigures(),
    targets: [],
    nodes: [],
    workers: { configured: 1, ready: 1, restarts: { exit: 0, signal: 0, stuck: 0 }, loopLag: new Map() },
    ledgerUp: true,
    lastReload: { isSuccess: true, succeededMs: 0 },
    node: 'gateway-1',
    builds: [],
    processes: [],
    ...more,
  }
}

interface Given {
  readonly config?: Config
  readonly state?: Partial<SystemState>
  readonly token?: string
  readonly tokens?: Config['admin']['tokens']
  readonly admin?: Partial<Config['admin']>
  readonly supervision?: Partial<Supervision>
}

/** What `createAdmin` takes. Log lines go to `lines`. */
export function adminParts(given: Given = {}, lines: JsonObject[] = []): AdminParts {
  const plain = given.config ?? checked({ providers: { fake: 'http://127.0.0.1:9/v1' } })
  const own = given.token === undefined ? [] : [{ name: 'admin', token: given.token, role: 'operate' } as const]
  const config = { ...plain, admin: { ...plain.admin, tokens: [...own, ...(given.tokens ?? [])], ...given.admin } }
  return {
    logger: pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    supervision: {
      state: () => systemState(config, given.state),
      reasons: async () => [],
      isLedgerUp: async () => true,
      formsOf: () => [],
      forgetForms: async () => [],
      figures: () => supervisorFigures(),
      sums: new MergedFigures(),
      recent: async () => [],
      watch: () => {},
      reload: async () => ({ problems: [], changes: [] }),
      forCommands: () => ({}),
      fleet: {
        list: () => ({ nodes: [], mixed: [] }),
        others: () => [],
        mixedMs: undefined,
        drain: async (node) => {
          throw new NodeProblem('unknown', `No node is '${node}'.`)
        },
        reload: async () => [],
      },
      testAlerts: async () => undefined,
      ...given.supervision,
    },
  }
}

/** An admin port with a socket. */
export function listeningAdmin(given: Given = {}, lines: JsonObject[] = []) {
  const admin = openAdmin({ host: '127.0.0.1', port: 0 }, adminParts(given, lines))
  return { ...admin, [Symbol.asyncDispose]: () => admin.stop() }
}

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** An admin port without a socket: a request comes to `localhost` unless its headers say otherwise. */
export function adminPort(given: Given = {}) {
  const lines: JsonObject[] = []
  const { answer, answerLocal, events, paths } = createAdmin(adminParts(given, lines))
  const ask = (path: string, { method = 'GET', headers = {} }: Asked = {}) =>
    answer(
      new Request(`http://localhost${path}`, { method, headers: { host: 'localhost:9090', ...headers } }),
      '127.0.0.1',
    )
  return { ask, answerLocal, events, lines, paths }
}
