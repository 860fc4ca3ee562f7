/**
 * Starts a provider to talk to and the gateway with the embedded ledger, and prints how to talk to it. `--once` sends the requests
 * itself and ends. Started by `scripts/quickstart`, which finds Bun first.
 */

import { randomBytes } from 'node:crypto'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AddressProblem, probe } from '../src/process/address.ts'

const HELP = `Usage: scripts/quickstart [--once]

Starts the gateway and a provider to talk to, and prints what to paste. Ctrl-C stops everything.

  --once  sends one request of each dialect, prints the answers, and stops everything
`

const PORT = 8080
const ADMIN_PORT = 9090
const START_MS_MAX = 15_000

/** Where answers come from: the lines of the configuration that name it. */
interface Source {
  readonly about: string
  readonly model: string
  readonly lines: readonly string[]
}

/** A real provider is used where its key is in the environment; the first of these wins. */
const realProviders: readonly { readonly variable: string; readonly source: Source }[] = [
  {
    variable: 'OPENAI_API_KEY',
    source: {
      about: 'OpenAI, with OPENAI_API_KEY',
      model: 'gpt-5-mini',
      lines: [
        'providers:',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the configuration reads the variable itself, so the key is not written down.
        '  openai: { dialect: openai, base_url: "https://api.openai.com/v1", api_key: "${OPENAI_API_KEY}" }',
        'models:',
        '  - name: gpt-5-mini',
        '    targets: [{ provider: openai, model: gpt-5-mini }]',
        '    price: { input: 0.25, cached_input: 0.025, output: 2.00 }',
        '    context_window: 400000',
        '    max_output_tokens: 128000',
        '    supports: [tools, images]',
      ],
    },
  },
]

function simulated(url: string): Source {
  return {
    about: `simulated, on ${url} (set OPENAI_API_KEY to use OpenAI)`,
    model: 'simulated',
    lines: [
      'providers:',
      `  simulated: { dialect: openai, base_url: "${url}/v1", api_key: not-needed }`,
      'models:',
      '  - name: simulated',
      '    targets: [{ provider: simulated, model: gpt-5-mini }]',
      '    price: { input: 0.25, cached_input: 0.025, output: 2.00 }',
      '    context_window: 400000',
      '    max_output_tokens: 128000',
      '    supports: [tools]',
    ],
  }
}

/** One request of a dialect. A new dialect is a new line or two in `examples`. */
interface Example {
  readonly title: string
  readonly path: string
  /** The header that carries the key. */
  readonly key: (key: string) => readonly [string, string]
  readonly body: Readonly<Record<string, unknown>>
  /** True for the text of a whole answer: not merely one that began. */
  readonly whole: (text: string) => boolean
}

const bearer = (key: string) => ['authorization', `Bearer ${key}`] as const

function examples(model: string): readonly Example[] {
  const messages = [{ role: 'user', content: 'Hello!' }]
  return [
    {
      title: 'Chat Completions',
      path: '/v1/chat/completions',
      key: bearer,
      body: { model, messages },
      whole: (text) => text.includes('"finish_reason":"stop"'),
    },
    {
      title: 'Chat Completions, streamed',
      path: '/v1/chat/completions',
      key: bearer,
      body: { model, messages, stream: true },
      whole: (text) => text.trimEnd().endsWith('data: [DONE]'),
    },
  ]
}

interface Gateway {
  readonly address: string
  readonly admin: string
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'inherit'>
}

/** Everything that was started, in the order of starting; stopped in the other. */
const cleanups: (() => Promise<unknown>)[] = []

async function stopAll(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
}

async function startProvider(): Promise<Source> {
  const real = realProviders.find(({ variable }) => (process.env[variable] ?? '') !== '')
  if (real !== undefined) return real.source
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const provider = Bun.spawn([process.execPath, join(import.meta.dir, 'simulated-provider.ts')], {
    stdio: ['ignore', 'ignore', 'inherit'],
    ipc: (message: unknown) => {
      if (typeof message === 'object' && message !== null && 'url' in message) resolve(String(message.url))
    },
    onExit: () => reject(new Error('the simulated provider ended')),
  })
  cleanups.push(() => {
    provider.kill()
    return provider.exited
  })
  return simulated(await promise)
}

async function startGateway(source: Source, key: string): Promise<Gateway> {
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-quickstart-'))
  cleanups.push(() => fs.rm(folder, { recursive: true, force: true }))
  const lines = [
    `listen: { host: 127.0.0.1, port: ${freePort(PORT)} }`,
    `admin: { host: 127.0.0.1, port: ${freePort(ADMIN_PORT)} }`,
    `data_dir: ${JSON.stringify(join(folder, 'data'))}`,
    'drain_seconds: 5',
    'ledger: embedded',
    ...source.lines,
    `organizations: [{ id: quickstart, keys: [{ id: quickstart, key: ${key} }] }]`,
  ]
  const file = join(folder, 'weir.yaml')
  await fs.writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  const gateway = Bun.spawn([process.execPath, join(import.meta.dir, '../src/main.ts'), 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  cleanups.push(() => {
    gateway.kill('SIGTERM')
    return gateway.exited
  })
  return { process: gateway, ...(await readLog(gateway)) }
}

/** The wanted port where nobody listens on it, else 0: any that is free. */
function freePort(wanted: number): number {
  try {
    return probe({ host: '127.0.0.1', port: wanted }).port
  } catch (error) {
    if (error instanceof AddressProblem) return 0
    throw error
  }
}

/** Resolves at the gateway's "ready"; every later line of its log is shown, unless `--once` shows the answers instead. */
async function readLog(gateway: Gateway['process']): Promise<{ address: string; admin: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ address: string; admin: string }>()
  const read = async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of gateway.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const entry: { msg?: string; address?: string; admin?: string } = JSON.parse(line)
        if (entry.msg === 'ready') resolve({ address: entry.address ?? '', admin: entry.admin ?? '' })
        else if (!once) console.log(line)
      }
    }
  }
  read().then(() => reject(new Error('the gateway ended before it was ready')), reject)
  const limit = setTimeout(() => reject(new Error('the gateway was not ready in time')), START_MS_MAX)
  return await promise.finally(() => clearTimeout(limit))
}

function curl(gateway: Gateway, key: string, example: Example): string {
  const [name, value] = example.key(key)
  const body = JSON.stringify(example.body)
  return `curl -sN ${gateway.address}${example.path} -H '${name}: ${value}' -H 'content-type: application/json' -d '${body}'`
}

function introduce(gateway: Gateway, key: string, source: Source): void {
  console.log(`address   ${gateway.address}`)
  console.log(`key       ${key}`)
  console.log(`provider  ${source.about}`)
  console.log(`admin     ${gateway.admin}/readyz`)
  for (const example of examples(source.model)) console.log(`\n${example.title}:\n${curl(gateway, key, example)}`)
  if (!once) console.log('\nCtrl-C stops everything. Below is the log.\n')
}

/** Sends an example and prints the answer. True where it is whole. */
async function send(gateway: Gateway, key: string, example: Example): Promise<boolean> {
  console.log(`\n--- ${example.title}: POST ${example.path}`)
  const [name, value] = example.key(key)
  try {
    const answer = await fetch(`${gateway.address}${example.path}`, {
      method: 'POST',
      headers: { [name]: value, 'content-type': 'application/json' },
      body: JSON.stringify(example.body),
    })
    const text = await answer.text()
    console.log(`${answer.status}\n${text.trimEnd()}`)
    return answer.status === 200 && example.whole(text)
  } catch (error) {
    console.log(`no answer: ${error instanceof Error ? error.message : error}`)
    return false
  }
}

async function sendAll(gateway: Gateway, key: string, source: Source): Promise<number> {
  let failed = 0
  for (const example of examples(source.model)) if (!(await send(gateway, key, example))) failed++
  console.log(failed === 0 ? '\nAll requests were answered.' : `\n${failed} of the requests failed.`)
  return failed === 0 ? 0 : 1
}

async function main(): Promise<number> {
  const key = `quickstart-${randomBytes(16).toString('hex')}`
  const stop = Promise.withResolvers<number>()
  process.on('SIGINT', () => stop.resolve(0))
  process.on('SIGTERM', () => stop.resolve(0))
  try {
    const source = await startProvider()
    const gateway = await startGateway(source, key)
    introduce(gateway, key, source)
    if (once) return await Promise.race([stop.promise, sendAll(gateway, key, source)])
    return await Promise.race([stop.promise, gateway.process.exited])
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 1
  } finally {
    await stopAll()
  }
}

const args = process.argv.slice(2)
const once = args.includes('--once')
if (args.includes('--help')) {
  process.stdout.write(HELP)
} else if (args.some((arg) => arg !== '--once')) {
  process.stderr.write(HELP)
  process.exitCode = 2
} else {
  process.exitCode = await main()
}
