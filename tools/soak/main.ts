/**
 * `scripts/soak`: sends requests through the gateway to unreliable providers for minutes, and checks that each ends
 * properly and nothing leaks.
 */

import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { scriptFlags } from '../../scripts/script-flags.ts'
import { type BudgetFlags, soakBudgets } from './budgets.ts'
import { callUntil, type Outcomes, Rest } from './callers.ts'

const HELP = `Usage: scripts/soak [--seconds N] [--callers N] [--faults SHARE]
       scripts/soak --budgets [--seconds N] [--organizations N] [--people N] [--rate N]

Starts three providers that fail in every way, a gateway in front of them, and callers in all three dialects, and prints
the outcomes. Exits 1 if a request got neither an answer nor a proper cut, or if memory, descriptors or reservations
grew.

  --seconds N      duration (default 300)
  --callers N      concurrent requests (default 200)
  --faults SHARE   share of the providers' answers that fail, from 0 to 1 (default 0.2)

With --budgets: two nodes over a Redis with Sentinels, organizations with a counter of each person's spend, both called
as Zipf has it: half an hour makes 50,000 counters. A node is killed every 20 s, Redis fails over every minute, keys and
raises change. Exits 1 if a counter is not the sum of its requests, an alert is missing or came under two ids, or memory
grew.

  --organizations N   (default 10000)
  --people N          of each organization (default 1000)
  --rate N            requests a second (default 50)
`
const KEY = 'soak-key-0123456789abcdef'
const SAMPLES = 40
/** At every fifth sample the callers wait, and the gateway is at rest: what its memory has then stays. */
const A_REST = 5
/** Pause between the last caller and the final count: more than twice the longest deadline of a provider. */
const SETTLE_MS = 3000
/** A request ends within the deadlines of three candidates, and one that is read to its end soon after. */
const AT_REST_MS_MAX = 30_000
const MIB = 1024 * 1024

interface Figures {
  readonly rss: number
  readonly descriptors: number
  readonly inFlight: number
  readonly reservations: number
  readonly reserved: number
  readonly settledTwice: number
  readonly outcomes: Readonly<Record<string, number>>
  readonly errors: readonly string[]
}

/** A script of this folder in its own process, with requests and replies over IPC. */
class Child implements AsyncDisposable {
  private waiting: ((message: never) => void) | undefined

  private constructor(private readonly child: Bun.Subprocess) {}

  static async start<T>(script: string, argument: string): Promise<{ readonly part: Child; readonly first: T }> {
    const ready = Promise.withResolvers<T>()
    let part: Child | undefined
    const child = Bun.spawn([process.execPath, join(import.meta.dir, script), argument], {
      env: { PATH: process.env['PATH'] ?? '', BUN_CONFIG_MAX_HTTP_REQUESTS: '65336' },
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (message) => (part?.waiting ?? ready.resolve)(message as never),
      onExit: (_child, code) => ready.reject(new Error(`${script} ended with ${code}`)),
    })
    const first = await ready.promise
    part = new Child(child)
    return { part, first }
  }

  ask<T>(question: string): Promise<T> {
    return new Promise((resolve) => {
      this.waiting = resolve
      this.child.send(question)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGKILL')
    await this.child.exited
  }
}

function configuration(ports: readonly number[]): string {
  const deadlines = {
    connect_timeout_ms: 500,
    first_byte_timeout_ms: 700,
    idle_timeout_ms: 700,
    total_timeout_ms: 20_000,
  }
  const provider = (port: number) => ({
    dialect: 'openai',
    base_url: `http://127.0.0.1:${port}/v1`,
    api_key: 'k',
    ...deadlines,
  })
  const target = (index: number) => ({ provider: `p${index}`, model: `m${index}` })
  const price = { input: 1, output: 10 }
  return JSON.stringify({
    // Items that are stored for an hour would fill their 64 MiB during the run, which looks like a leak and hides one.
    responses: { remember_items_seconds: 10 },
    compaction: { keys: [Buffer.alloc(32, 1).toString('base64')] },
    providers: Object.fromEntries(ports.map((port, index) => [`p${index}`, provider(port)])),
    models: [
      { name: 'm', targets: [target(0), target(1)], fallbacks: ['other'], price },
      { name: 'other', targets: [target(2)], price: { input: 2, output: 20 } },
    ],
    organizations: [{ id: 'soak', keys: [{ id: 'soak', key: KEY }] }],
  })
}

interface Flags {
  readonly seconds: number
  readonly callers: number
  readonly faults: number
  /** Absent for the soak of providers. */
  readonly budgets: BudgetFlags | undefined
}

function parse() {
  return parseArgs({
    options: {
      seconds: { type: 'string', default: '300' },
      callers: { type: 'string', default: '200' },
      faults: { type: 'string', default: '0.2' },
      budgets: { type: 'boolean' },
      organizations: { type: 'string', default: '10000' },
      people: { type: 'string', default: '1000' },
      rate: { type: 'string', default: '50' },
      help: { type: 'boolean' },
    },
  })
}

function flagsOf(values: ReturnType<typeof parse>['values']): Flags | undefined {
  const [seconds, callers, faults] = [Number(values.seconds), Number(values.callers), Number(values.faults)]
  const [organizations, people, rate] = [Number(values.organizations), Number(values.people), Number(values.rate)]
  const isGood = seconds > 0 && callers > 0 && faults >= 0 && faults <= 1 && organizations > 0 && people > 0 && rate > 0
  const budgets = values.budgets === true ? { seconds, organizations, people, rate } : undefined
  return isGood ? { seconds, callers, faults, budgets } : undefined
}

async function soak({ seconds, callers, faults }: Omit<Flags, 'budgets'>): Promise<boolean> {
  const { part: providers, first } = await Child.start<{ ports: number[] }>('provider.ts', String(faults))
  await using _providers = providers
  const { part: gateway, first: served } = await Child.start<{ port: number }>('gateway.ts', configuration(first.ports))
  await using _gateway = gateway
  const outcomes: Outcomes = { kinds: new Map(), wrong: [], fallbacks: 0 }
  const startMs = performance.now()
  const untilMs = startMs + seconds * 1000
  const rest = new Rest(callers)
  const each = { untilMs, port: served.port, key: KEY, rest }
  const calling = Promise.all(Array.from({ length: callers }, () => callUntil(each, outcomes)))
  const samples: Figures[] = []
  const rests: Figures[] = []
  for (let i = 1; i < SAMPLES; i++) {
    await Bun.sleep(startMs + (i * seconds * 1000) / SAMPLES - performance.now())
    const isRest = i % A_REST === 0
    if (isRest) await rest.begin()
    const figures = isRest ? await atRest(gateway) : await gateway.ask<Figures>('collect')
    ;(isRest ? rests : samples).push(figures)
    console.log(
      `${String(Math.round((i * seconds) / SAMPLES)).padStart(4)} s  ${figures.reserved} requests, ` +
        `${(figures.rss / MIB).toFixed(0)} MiB${isRest ? ' at rest' : ''}, ${figures.descriptors} descriptors, ` +
        `${figures.reservations} reservations`,
    )
    rest.end()
  }
  await calling
  await Bun.sleep(SETTLE_MS)
  const left = await gateway.ask<Figures>('collect')
  const injected = await providers.ask<{ calls: number; faults: Record<string, number> }>('figures')
  return report({ outcomes, samples, rests: [...rests, left], left, injected })
}

/** The figures once no request is in flight: those of callers that left may still be read to their end. */
async function atRest(gateway: Child): Promise<Figures> {
  const untilMs = performance.now() + AT_REST_MS_MAX
  for (;;) {
    const figures = await gateway.ask<Figures>('collect')
    if (figures.inFlight === 0 || performance.now() > untilMs) return figures
    await Bun.sleep(50)
  }
}

interface Result {
  readonly outcomes: Outcomes
  readonly samples: readonly Figures[]
  /** One an eighth of the run, the last one after it. */
  readonly rests: readonly Figures[]
  readonly left: Figures
  readonly injected: { readonly calls: number; readonly faults: Readonly<Record<string, number>> }
}

function report({ outcomes, samples, rests, left, injected }: Result): boolean {
  const requests = [...outcomes.kinds.values()].reduce((sum, count) => sum + count, 0)
  const failed = Object.values(injected.faults).reduce((sum, count) => sum + count, 0)
  console.log(
    `\n${requests} requests; the providers got ${injected.calls} calls and failed ${failed} times, ` +
      `in ${Object.keys(injected.faults).length} ways`,
  )
  for (const [kind, count] of [...outcomes.kinds].sort()) console.log(`  ${kind.padEnd(12)} ${count}`)
  console.log(`  ${outcomes.fallbacks} fallbacks before the answers`)
  console.log(`  outcomes in the log: ${JSON.stringify(left.outcomes)}`)
  const lowestIn = (quarter: number, all: readonly Figures[], of: (figures: Figures) => number) =>
    Math.min(...all.slice(((quarter - 1) * all.length) / 4, (quarter * all.length) / 4).map(of))
  const mibIn = (quarter: number) => lowestIn(quarter, rests, ({ rss }) => rss) / MIB
  const [earlyMib, lateMib] = [mibIn(2), mibIn(4)]
  const descriptorsIn = (quarter: number) => lowestIn(quarter, samples, ({ descriptors }) => descriptors)
  const [early, late] = [descriptorsIn(2), descriptorsIn(4)]
  const checks: readonly (readonly [string, boolean])[] = [
    [`every request got an answer or a proper cut (${outcomes.wrong.length} did not)`, outcomes.wrong.length === 0],
    [`no internal error of the gateway (${left.errors.length})`, left.errors.length === 0],
    [
      `reservations: ${left.reservations} left, ${left.settledTwice} settled twice`,
      left.reservations + left.settledTwice === 0,
    ],
    [`requests still in flight: ${left.inFlight}`, left.inFlight === 0],
    [
      `memory at rest: ${earlyMib.toFixed(0)} MiB lowest in the second quarter, ${lateMib.toFixed(0)} in the last`,
      lateMib < earlyMib + Math.max(16, 0.1 * earlyMib),
    ],
    [
      `descriptors: ${early} lowest in the second quarter, ${late} in the last, ${left.descriptors} at the end`,
      late < 1.25 * early + 20,
    ],
  ]
  for (const [words, good] of checks) console.log(`${good ? 'ok   ' : 'FAIL '} ${words}`)
  for (const line of [...outcomes.wrong, ...left.errors]) console.log(`     ${line.trim()}`)
  return checks.every(([, good]) => good)
}

const flags = scriptFlags(HELP, parse, flagsOf)
process.exit((await (flags.budgets === undefined ? soak(flags) : soakBudgets(flags.budgets))) ? 0 : 1)
