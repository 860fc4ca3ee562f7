/** The two worlds of the chaos run: one gateway with the embedded ledger; two gateways, three workers, over one Redis. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { Figures, FiguresOf } from '../../src/ledger/book.ts'
import { EmbeddedStandings } from '../../src/ledger/embedded/readings.ts'
import { LEDGER_FILE, LEDGER_SCHEMA } from '../../src/ledger/embedded/tables.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from '../../src/ledger/outbox.ts'
import { RedisBook } from '../../src/ledger/redis/book.ts'
import { Random } from '../../test/support/random.ts'
import { type Charge, entriesOf, finalOf, rowsOf, sumOf, trailOf } from './books.ts'
import { type Asked, callUntil, type Load } from './callers.ts'
import { Node } from './node.ts'
import { PRICE, type Provider } from './provider.ts'
import { Store } from './store.ts'
import { judgeAnswers, type Verdict } from './verdict.ts'
import { gatewayWrecks, storeWrecks, type Wreck, wreckUntil } from './wrecks.ts'

const ORGANIZATION = 'acme'
const KEYS = [
  ['free', 'chaos-free-0123456789'],
  ['tight', 'chaos-tight-0123456789'],
  ['narrow', 'chaos-narrow-0123456789'],
] as const
/** Micro-dollars a second of the run that the key `tight` may spend: about half of what it asks for. */
const TIGHT_A_SECOND = 2000
/** A lease, the reaper's beat, and a busy machine. */
const QUIET_MS_MAX = 75_000

export interface Run {
  readonly provider: Provider
  readonly folder: string
  readonly seconds: number
  readonly seed: number
  readonly callers: number
}

/** A world that has come to its end, and what it is to be judged by. */
export interface Ended {
  readonly name: string
  readonly wrecked: ReadonlyMap<string, number>
  readonly asked: readonly Asked[]
  judge(verdict: Verdict): Promise<void>
}

function tightMicroUsd(run: Run): number {
  return Math.max(20_000, TIGHT_A_SECOND * run.seconds)
}

function configOf(run: Run, more: JsonObject): JsonObject {
  const limits: Readonly<Record<string, JsonObject>> = {
    tight: { spend: { total: tightMicroUsd(run) / 1e6 } },
    narrow: { concurrent_requests: 3, requests_per_minute: 100_000, tokens_per_minute: 10_000_000 },
  }
  const keys = KEYS.map(([id, key]) => ({ id, key, ...(limits[id] === undefined ? {} : { limits: limits[id] }) }))
  return {
    compaction: { keys: [Buffer.alloc(32, 1).toString('base64')] },
    providers: { up: { dialect: 'openai', base_url: run.provider.url, api_key: 'x' } },
    models: [{ name: 'm', targets: [{ provider: 'up', model: 'up' }], price: PRICE, max_output_tokens: 64 }],
    organizations: [{ id: ORGANIZATION, limits: { spend: { day: 1000, month: 1000, total: 1000 } }, keys }],
    ...more,
  }
}

/** Callers and wrecks side by side, until the time is up. */
async function wreck(
  name: string,
  run: Run,
  nodes: readonly Node[],
  wrecks: readonly Wreck[],
): Promise<Pick<Ended, 'wrecked' | 'asked'>> {
  const untilMs = performance.now() + run.seconds * 1000
  const asked: Asked[] = []
  let number = 0
  const load: Load = { name, ports: nodes.map(({ port }) => port), keys: KEYS, number: () => number++, asked }
  const calling = Array.from({ length: run.callers }, (_, i) =>
    callUntil(untilMs, load, new Random(run.seed + 1000 * (i + 1))),
  )
  const [wrecked] = await Promise.all([wreckUntil(untilMs, wrecks, new Random(run.seed)), ...calling])
  return { wrecked, asked }
}

/** Waits for something that comes by itself. False where it did not. */
async function quiet(holds: () => Promise<boolean>): Promise<boolean> {
  const untilMs = performance.now() + QUIET_MS_MAX
  while (performance.now() < untilMs) {
    if (await holds()) return true
    await Bun.sleep(250)
  }
  return false
}

function accountOf(key: string): Account {
  return { organization: ORGANIZATION, organizationLimits: {}, key, keyLimits: {} }
}

/** The figures of the organisation under '', and of each key. */
async function figuresOf(
  read: (account: Account) => FiguresOf | Promise<FiguresOf>,
): Promise<ReadonlyMap<string, Figures>> {
  const figures = new Map<string, Figures>()
  for (const [key] of KEYS) {
    const found = await read(accountOf(key))
    figures.set('', found.organization)
    figures.set(key, found.key)
  }
  return figures
}

function isIdle(figures: ReadonlyMap<string, Figures>): boolean {
  return [...figures.values()].every(
    ({ live, day, month, total }) => live === 0 && day.held === 0 && month.held === 0 && total.held === 0,
  )
}

function judgeHeld(verdict: Verdict, figures: ReadonlyMap<string, Figures>): void {
  const held = sumOf(figures.values(), ({ day, month, total }) => day.held + month.held + total.held)
  const live = sumOf(figures.values(), (one) => one.live)
  verdict.check(`nothing is held at the end: held ${held} = 0, live ${live} = 0`, held === 0 && live === 0)
}

/** The organisation's and each key's spend is the sum of what its requests were charged. */
function judgeSpent(
  verdict: Verdict,
  figures: ReadonlyMap<string, Figures>,
  charges: readonly (readonly [key: string, costMicroUsd: number])[],
): void {
  for (const [key, { total, month }] of figures) {
    const of = charges.filter(([one]) => key === '' || one === key)
    const charged = sumOf(of, ([, cost]) => cost)
    const who = key === '' ? 'the organisation' : `key ${key}`
    verdict.equal(`${who}, ${of.length} charges`, ['spent', total.spent], ['charged', charged])
    if (key === '') verdict.equal(who, ['spent this month', month.spent], ['spent in total', total.spent])
  }
}

async function judgeUsage(verdict: Verdict, node: Node, spent: number, requests: number): Promise<void> {
  const usage = await node.command('usage', '--org', ORGANIZATION, '--by', 'key')
  const total = isObject(usage['total']) ? usage['total'] : {}
  verdict.equal('`weir usage`', ['cost', Number(total['cost_micro_usd'])], ['spent', spent])
  verdict.equal('`weir usage`', ['requests', Number(total['requests'])], ['requests that were charged', requests])
  const models = await node.command('usage', '--org', ORGANIZATION, '--by', 'model')
  const rows = Array.isArray(models['rows']) ? models['rows'].filter(isObject) : []
  const names = rows.map((row) => String(row['model']))
  verdict.check(`every charge is under its model: ${names.join(', ')}`, names.join() === 'm')
}

function judgeLimit(verdict: Verdict, run: Run, spent: number, beyond: number): void {
  const limit = tightMicroUsd(run)
  verdict.check(
    `key tight: spent ${spent} ≤ limit ${limit} + ${beyond} that came to light after its hold was gone or beyond it`,
    spent <= limit + beyond,
  )
  verdict.check(`key tight came to its limit: ${spent} > ${limit / 2}`, spent > limit / 2)
}

function judgeAlarms(verdict: Verdict, nodes: readonly Node[]): void {
  const alarms = nodes.flatMap((node) => node.alarms)
  verdict.check(`errors of the gateways' own: ${alarms.length}`, alarms.length === 0, alarms)
}

/** One process, its ledger in memory and in SQLite. */
export async function embeddedWorld(run: Run): Promise<Ended> {
  const node = await Node.start(join(run.folder, 'embedded'), configOf(run, { ledger: 'embedded' }))
  const { wrecked, asked } = await wreck('embedded', run, [node], gatewayWrecks([node]))
  const standings = new EmbeddedStandings(node.dataDir)
  const figures = () => figuresOf((account) => standings.read(account))
  await quiet(async () => isIdle(await figures()))
  await node.stop()
  const judge = async (verdict: Verdict) => {
    const rows = rowsOf(join(node.dataDir, LEDGER_FILE), LEDGER_SCHEMA)
    const byId = new Map(rows.map((row) => [row.id, row]))
    const { served } = run.provider
    judgeAnswers(verdict, { asked, served, nodes: [node], chargeOf: (id) => byId.get(id)?.costMicroUsd })
    const last = await figures()
    judgeHeld(verdict, last)
    judgeSpent(
      verdict,
      last,
      rows.map(({ key, costMicroUsd }) => [key, costMicroUsd]),
    )
    const counted = rows.filter(({ kind, model }) => kind === 'lost' || model !== '')
    await judgeUsage(verdict, node, last.get('')?.total.spent ?? 0, counted.length)
    const tight = rows.filter(({ key }) => key === 'tight')
    judgeLimit(
      verdict,
      run,
      last.get('tight')?.total.spent ?? 0,
      sumOf(tight, ({ overageMicroUsd }) => overageMicroUsd),
    )
    judgeAlarms(verdict, [node])
  }
  return { name: 'embedded ledger: one gateway', wrecked, asked, judge }
}

/** Two nodes, one of them with two workers that share its outbox, over one Redis. */
export async function redisWorld(run: Run): Promise<Ended & AsyncDisposable> {
  const store = await Store.start(join(run.folder, 'redis'))
  const ledger = { redis: store.url }
  const nodes = await Promise.all([
    Node.start(join(run.folder, 'node-0'), configOf(run, { ledger, workers: 2 })),
    Node.start(join(run.folder, 'node-1'), configOf(run, { ledger, ledger_unreachable: 'allow' })),
  ])
  const { wrecked, asked } = await wreck('redis', run, nodes, [...gatewayWrecks(nodes), ...storeWrecks(store)])
  const client = store.client()
  const book = new RedisBook(client, client)
  const outboxes = nodes.map((node) => join(node.dataDir, OUTBOX_FILE)).filter((path) => existsSync(path))
  const entries = (state: number) => sumOf(outboxes, (path) => entriesOf(path, OUTBOX_SCHEMA, state))
  const figures = () => figuresOf((account) => book.figures(account))
  await quiet(async () => entries(0) === 0 && isIdle(await figures()))
  const judge = async (verdict: Verdict) => {
    const trail = await trailOf(client, ORGANIZATION)
    const { served } = run.provider
    judgeAnswers(verdict, { asked, served, nodes, chargeOf: (id) => finalOf(trail.get(id)) })
    const last = await figures()
    judgeHeld(verdict, last)
    const final = [...trail.values()].map((charges): readonly [string, number] => [
      charges[0]?.key ?? '',
      finalOf(charges) ?? 0,
    ])
    judgeSpent(verdict, last, final)
    judgeTrail(verdict, trail, asked)
    judgeOutboxes(verdict, trail, outboxes, [entries(0), entries(2)])
    const counted = [...trail.values()].filter(
      (charges) => (finalOf(charges) ?? 0) > 0 || charges.at(-1)?.kind === 'lost',
    )
    await judgeUsage(verdict, nodes[0] ?? raise(), last.get('')?.total.spent ?? 0, counted.length)
    const tight = [...trail.values()].filter((charges) => charges[0]?.key === 'tight')
    judgeLimit(verdict, run, last.get('tight')?.total.spent ?? 0, sumOf(tight, beyondHold))
    judgeAlarms(verdict, nodes)
  }
  return {
    name: 'ledger in Redis: two gateways, three workers',
    wrecked,
    asked,
    judge,
    [Symbol.asyncDispose]: async () => {
      client.disconnect()
      await Promise.all(nodes.map((node) => node.stop()))
      await store.kill()
    },
  }
}

function raise(): never {
  throw new Error('There is no gateway.')
}

/** By how much a request's charge may have passed its key's limit: all that was not held any more when it came to light. */
function beyondHold(charges: readonly Charge[]): number {
  const last = charges.at(-1)
  if (last?.kind !== 'late') return last?.overageMicroUsd ?? 0
  return Math.max(last.overageMicroUsd, last.costMicroUsd - (charges.at(-2)?.costMicroUsd ?? 0))
}

/** No reservation ends twice, and no charge comes from nowhere. */
function judgeTrail(verdict: Verdict, trail: ReadonlyMap<string, readonly Charge[]>, asked: readonly Asked[]): void {
  const twice = [...trail].filter(([, charges]) => charges.filter(({ kind }) => kind !== 'lost').length > 1)
  verdict.check(
    `reservations charged twice: ${twice.length} of ${trail.size}`,
    twice.length === 0,
    twice.map(([id, charges]) => `${id}: ${charges.map(({ kind }) => kind).join(', ')}`),
  )
  const kinds = new Map<string, number>()
  for (const charges of trail.values()) {
    const how = charges.map(({ kind }) => kind).join(' then ')
    kinds.set(how, (kinds.get(how) ?? 0) + 1)
  }
  console.log(`     they ended: ${[...kinds].map(([how, count]) => `${count} ${how}`).join(' · ')}`)
  const known = new Set(asked.map(({ id }) => id))
  const unknown = [...trail.keys()].filter((id) => !known.has(id)).length
  const silent = asked.filter(({ end }) => end === 'none').length
  verdict.check(
    `reservations that no caller has heard of: ${unknown} ≤ ${silent} callers without a status`,
    unknown <= silent,
  )
}

/** Each settlement that a node wrote down is charged in Redis, exactly; none waits, and none is in doubt. */
function judgeOutboxes(
  verdict: Verdict,
  trail: ReadonlyMap<string, readonly Charge[]>,
  outboxes: readonly string[],
  [pending, doubtful]: readonly [number, number],
): void {
  const rows = outboxes.flatMap((path) => rowsOf(path, OUTBOX_SCHEMA))
  const wrong = rows.filter(({ id, costMicroUsd }) => finalOf(trail.get(id)) !== costMicroUsd)
  verdict.check(
    `settlements that the nodes wrote down: ${rows.length} = ${rows.length - wrong.length} charged exactly + ${wrong.length}`,
    wrong.length === 0,
    wrong.map(({ id, costMicroUsd }) => `${id} cost ${costMicroUsd}: ${JSON.stringify(trail.get(id))}`),
  )
  verdict.check(`outboxes: ${pending} pending, ${doubtful} in doubt`, pending === 0 && doubtful === 0)
}
