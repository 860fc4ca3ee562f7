/** `scripts/soak`: providers that fail in every way, under callers that never pause. Says whether every request ended well and nothing grew. */

import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { callUntil, type Tallied } from './callers.ts'

const HELP = `usage: scripts/soak [--seconds N] [--callers N] [--faults SHARE]

Starts three providers that fail in every way, the gateway before them, and callers in all three dialects, and prints what
came of it. Exits 1 where a request got neither an answer nor a proper cut, or where memory, descriptors or reservations grew.

  --seconds N      how long (default 300)
  --callers N      how many requests run at once (default 200)
  --faults SHARE   how many of the providers' answers are wrong, from 0 to 1 (default 0.2)
`
const KEY = 'soak-key-0123456789abcdef'
const SAMPLES = 40
/** After the callers have gone, until what they left behind is counted: the longest deadline of a provider, twice. */
const SETTLE_MS = 3000
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

/** A script beside this one, and how it is asked. */
class Part implements AsyncDisposable {
  private waiting: ((message: never) => void) | undefined

  private constructor(private readonly child: Bun.Subprocess) {}

  static async start<T>(script: string, argument: string): Promise<{ readonly part: Part; readonly said: T }> {
    const first = Promise.withResolvers<T>()
    let part: Part | undefined
    const child = Bun.spawn([process.execPath, join(import.meta.dir, script), argument], {
      env: { PATH: process.env['PATH'] ?? '', BUN_CONFIG_MAX_HTTP_REQUESTS: '65336' },
      stdio: ['ignore', 'inherit', 'inherit'],
      ipc: (message) => (part?.waiting ?? first.resolve)(message as never),
      onExit: (_child, code) => first.reject(new Error(`${script} ended with ${code}`)),
    })
    const said = await first.promise
    part = new Part(child)
    return { part, said }
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
    // Items that are remembered for an hour fill their 64 MiB in the course of this: it would look like a leak, and hide one.
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

function flags(): { readonly seconds: number; readonly callers: number; readonly faults: number } | undefined {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '300' },
      callers: { type: 'string', default: '200' },
      faults: { type: 'string', default: '0.2' },
      help: { type: 'boolean', default: false },
    },
  })
  const [seconds, callers, faults] = [Number(values.seconds), Number(values.callers), Number(values.faults)]
  return values.help || !(seconds > 0) || !(callers > 0) || !(faults >= 0 && faults <= 1)
    ? undefined
    : { seconds, callers, faults }
}

async function soak({ seconds, callers, faults }: NonNullable<ReturnType<typeof flags>>): Promise<boolean> {
  const { part: providers, said } = await Part.start<{ ports: number[] }>('provider.ts', String(faults))
  await using _providers = providers
  const { part: gateway, said: served } = await Part.start<{ port: number }>('gateway.ts', configuration(said.ports))
  await using _gateway = gateway
  const tallied: Tallied = { kinds: new Map(), wrong: [], fallbacks: 0 }
  const startMs = performance.now()
  const untilMs = startMs + seconds * 1000
  const calling = Promise.all(Array.from({ length: callers }, () => callUntil(untilMs, served.port, KEY, tallied)))
  const samples: Figures[] = []
  for (let i = 0; i < SAMPLES; i++) {
    await Bun.sleep(startMs + ((i + 1) * seconds * 1000) / SAMPLES - performance.now())
    // After a collection: what is garbage already says nothing of growth, and one bomb is 34 MiB of it.
    const figures = await gateway.ask<Figures>('collect')
    samples.push(figures)
    console.log(
      `${String(Math.round(((i + 1) * seconds) / SAMPLES)).padStart(4)} s  ${figures.reserved} requests, ${(figures.rss / MIB).toFixed(0)} MiB, ${figures.descriptors} descriptors, ${figures.reservations} reservations`,
    )
  }
  await calling
  await Bun.sleep(SETTLE_MS)
  const left = await gateway.ask<Figures>('collect')
  const did = await providers.ask<{ calls: number; faults: Record<string, number> }>('figures')
  return report({ tallied, samples, left, did })
}

interface Result {
  readonly tallied: Tallied
  readonly samples: readonly Figures[]
  readonly left: Figures
  readonly did: { readonly calls: number; readonly faults: Readonly<Record<string, number>> }
}

function report({ tallied, samples, left, did }: Result): boolean {
  const requests = [...tallied.kinds.values()].reduce((sum, count) => sum + count, 0)
  const faults = Object.values(did.faults).reduce((sum, count) => sum + count, 0)
  console.log(
    `\n${requests} requests; the providers were asked ${did.calls} times, and did ${faults} of ${Object.keys(did.faults).length} things wrong`,
  )
  for (const [kind, count] of [...tallied.kinds].sort()) console.log(`  ${kind.padEnd(12)} ${count}`)
  console.log(`  ${tallied.fallbacks} candidates were passed over before the answers`)
  console.log(`  in the log: ${JSON.stringify(left.outcomes)}`)
  // What is in flight, a few bombs of 34 MiB with it, comes and goes: what stays is in the least of the samples, too.
  const leastIn = (quarter: number, of: (figures: Figures) => number) =>
    Math.min(...samples.slice(((quarter - 1) * SAMPLES) / 4, (quarter * SAMPLES) / 4).map(of))
  const [earlyMib, lateMib] = [leastIn(2, ({ rss }) => rss) / MIB, leastIn(4, ({ rss }) => rss) / MIB]
  const [early, late] = [leastIn(2, ({ descriptors }) => descriptors), leastIn(4, ({ descriptors }) => descriptors)]
  const checks: readonly (readonly [string, boolean])[] = [
    [`every request got an answer or a proper cut (${tallied.wrong.length} did not)`, tallied.wrong.length === 0],
    [`no error of the gateway's own (${left.errors.length})`, left.errors.length === 0],
    [
      `reservations: ${left.reservations} left, ${left.settledTwice} settled twice`,
      left.reservations + left.settledTwice === 0,
    ],
    [`requests that still run: ${left.inFlight}`, left.inFlight === 0],
    [
      `memory: ${earlyMib.toFixed(0)} MiB at least in the second quarter, ${lateMib.toFixed(0)} in the last, ${(left.rss / MIB).toFixed(0)} at the end`,
      lateMib < earlyMib + Math.max(16, 0.1 * earlyMib),
    ],
    [
      `descriptors: ${early} at least in the second quarter, ${late} in the last, ${left.descriptors} at the end`,
      late < 1.25 * early + 20,
    ],
  ]
  for (const [words, good] of checks) console.log(`${good ? 'ok  ' : 'BAD '} ${words}`)
  for (const line of [...tallied.wrong, ...left.errors]) console.log(`     ${line.trim()}`)
  return checks.every(([, good]) => good)
}

const asked = flags()
if (asked === undefined) {
  console.error(HELP)
  process.exit(2)
}
process.exit((await soak(asked)) ? 0 : 1)
