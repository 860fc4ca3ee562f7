/**
 * Starts a gateway with an hour of past and with simulated traffic, to look at the console, `weir top`, the metrics and
 * the reference. Started by `scripts/demo`.
 */

import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from '../../scripts/free-port.ts'
import { scriptFlags } from '../../scripts/script-flags.ts'
import type { Config } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { callForever } from './callers.ts'
import { leavePast, pastRequests, spentToday } from './past.ts'
import { PROVIDERS, startProviders } from './providers.ts'
import { MODELS, ORGANIZATIONS, type Random, secretOf } from './world.ts'

const HELP = `Usage: scripts/demo [--port N] [--admin-port N] [--speed X]

Starts a gateway with simulated providers, an hour of past requests and ongoing traffic of several organisations: for
a look at the console, \`weir top\`, the metrics and the reference. Everything is in a temporary folder and on loopback.
Ctrl-C stops everything and removes the folder.

  --port N        the inference API listens here (default: 8080, or a free one if 8080 is taken)
  --admin-port N  the console listens here (default: 9090, or a free one if 9090 is taken)
  --speed X       sends X times as many requests (default: 1, about 6 a second)
`

const PORT = 8080
const ADMIN_PORT = 9090
const ROOT = join(import.meta.dir, '../..')
/** For the past alone, so that every start has the same hour. */
const SEED = 7

interface Flags {
  readonly port: number
  readonly adminPort: number
  readonly speed: number
}

/** A small generator of random numbers (mulberry32). */
function randomFrom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

interface Place extends Omit<Flags, 'speed'> {
  readonly folder: string
  readonly providers: string
  /** Dollars that an organisation spent today. */
  readonly dayOf: (organization: string) => number
}

function configuration({ folder, port, adminPort, providers, dayOf }: Place): string {
  return [
    `listen: { host: 127.0.0.1, port: ${port} }`,
    `admin: { host: 127.0.0.1, port: ${adminPort} }`,
    `data_dir: ${JSON.stringify(join(folder, 'data'))}`,
    'drain_seconds: 2',
    'workers: 2',
    'ledger: embedded',
    'providers:',
    ...PROVIDERS.map((id) => `  ${id}: { dialect: openai, base_url: "${providers}/${id}/v1", api_key: demo-provider }`),
    'models:',
    ...Object.entries(MODELS).flatMap(
      ([
        name,
        {
          targets,
          price: [input, output],
        },
      ]) => [
        `  - name: ${name}`,
        `    targets: [${targets.map((provider) => `{ provider: ${provider}, model: ${name} }`).join(', ')}]`,
        `    price: { input: ${input}, output: ${output} }`,
        '    context_window: 200000',
        '    max_output_tokens: 32000',
        '    supports: [tools]',
      ],
    ),
    'organizations:',
    ...ORGANIZATIONS.flatMap(({ id, limits, keys }) => [
      `  - id: ${id}`,
      ...(limits === undefined ? [] : [`    limits: { ${withAmounts(limits, dayOf(id))} }`]),
      '    keys:',
      ...keys.map((key) => {
        const settings = key.settings === undefined ? '' : `, ${key.settings}`
        return `      - { id: ${key.id}, key: ${secretOf(id, key.id)}${settings} }`
      }),
    ]),
    '',
  ].join('\n')
}

/** Replaces `DAY*2` by twice the dollars of a day. */
function withAmounts(limits: string, day: number): string {
  return limits.replaceAll(/DAY\*([\d.]+)/g, (_, factor) => (day * Number(factor)).toFixed(2))
}

async function checked(file: string): Promise<Config> {
  const loaded = await loadConfig(file, {})
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  return loaded.config
}

interface Gateway {
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'inherit'>
  readonly address: string
  readonly admin: string
}

/** Resolves when it accepts requests. Its log is read and dropped: it would fill the terminal. */
async function startGateway(file: string): Promise<Gateway> {
  const child = Bun.spawn([process.execPath, join(ROOT, 'src/main.ts'), 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ready = Promise.withResolvers<Gateway>()
  const read = async () => {
    let rest = ''
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (!line.includes('"server.ready"')) continue
        const { address, admin } = JSON.parse(line)
        ready.resolve({ process: child, address, admin })
      }
    }
  }
  void read().then(() => ready.reject(new Error('the gateway ended before it was ready')), ready.reject)
  return await ready.promise
}

function introduce({ address, admin }: Gateway, file: string): void {
  const { id, keys } = ORGANIZATIONS[0] ?? { id: '', keys: [] }
  console.log(`console    ${admin}/`)
  console.log(`reference  ${admin}/docs`)
  console.log(`metrics    ${admin}/metrics`)
  console.log(`address    ${address}`)
  console.log(`key        ${secretOf(id, keys[0]?.id ?? '')}`)
  console.log('\nIn another terminal:')
  for (const command of ['top', 'usage --by model', 'audit --limit 20', 'explain --key ci --model gpt-5'])
    console.log(`scripts/weir ${command} --config ${file}`)
  console.log('\nThe provider "local" fails for 40 s of every four minutes. Ctrl-C stops everything.')
}

async function main({ port, adminPort, speed }: Flags): Promise<number> {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort())
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-demo-'))
  const providers = startProviders(Math.random)
  try {
    const nowMs = Date.now()
    const past = pastRequests(nowMs, randomFrom(SEED))
    const file = join(folder, 'weir.yaml')
    const dayOf = (organization: string) => Math.max(0.5, spentToday(past, organization, nowMs) / 1e6)
    const place = { folder, providers: providers.url, port: freePort(port), adminPort: freePort(adminPort), dayOf }
    await fs.writeFile(file, configuration(place), { mode: 0o600 })
    await leavePast(await checked(file), past, nowMs)
    const gateway = await startGateway(file)
    introduce(gateway, file)
    const stopped = new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
    const calls = callForever(gateway.address, Math.random, speed, stop.signal)
    await Promise.race([stopped, gateway.process.exited])
    stop.abort()
    gateway.process.kill('SIGTERM')
    await Promise.all([gateway.process.exited, calls])
    return 0
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 1
  } finally {
    stop.abort()
    await providers.stop()
    await fs.rm(folder, { recursive: true, force: true })
  }
}

function parse() {
  return parseArgs({
    options: {
      help: { type: 'boolean' },
      port: { type: 'string', default: String(PORT) },
      'admin-port': { type: 'string', default: String(ADMIN_PORT) },
      speed: { type: 'string', default: '1' },
    },
  })
}

function flagsOf(values: ReturnType<typeof parse>['values']): Flags | undefined {
  const flags = { port: Number(values.port), adminPort: Number(values['admin-port']), speed: Number(values.speed) }
  const isPort = (port: number) => Number.isInteger(port) && port >= 0 && port <= 65_535
  return isPort(flags.port) && isPort(flags.adminPort) && flags.speed > 0 ? flags : undefined
}

process.exitCode = await main(scriptFlags(HELP, parse, flagsOf))
