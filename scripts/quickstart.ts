/**
 * Starts a simulated provider and the gateway with the embedded ledger, and prints requests to paste. `--once` sends
 * them itself and exits. Started by `scripts/quickstart`, which finds Bun first.
 */

import { randomBytes } from 'node:crypto'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from './free-port.ts'
import { requestLine } from './request-line.ts'
import { scriptFlags } from './script-flags.ts'

const HELP = `Usage: scripts/quickstart [--once] [--port N]

Starts the gateway and a simulated provider, and prints the address, a key and requests to paste.
With OPENAI_API_KEY or ANTHROPIC_API_KEY set, it uses that provider instead. Ctrl-C stops everything.

  --once    sends one request of each dialect, prints the answers, and exits with 1 if one failed
  --port N  listens on this port (default: 8080, or a free one if 8080 is taken)
`

const PORT = 8080
const ADMIN_PORT = 9090
const START_MS_MAX = 15_000

/** A provider as lines of the configuration. Each serves both model names that the examples of the documents use. */
interface Source {
  readonly about: string
  readonly lines: readonly string[]
}

/** A real provider is used if its key is in the environment. The first of these wins. */
const realProviders: readonly { readonly variable: string; readonly source: Source }[] = [
  {
    variable: 'OPENAI_API_KEY',
    source: {
      about: 'OpenAI, with OPENAI_API_KEY',
      lines: [
        'providers:',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the configuration replaces it, so no file has the key.
        '  openai: { dialect: openai, base_url: "https://api.openai.com/v1", api_key: "${OPENAI_API_KEY}" }',
        'models:',
        '  - name: gpt-5-mini',
        '    aliases: [claude-sonnet]',
        '    targets: [{ provider: openai, model: gpt-5-mini }]',
        '    price: { input: 0.25, cached_input: 0.025, output: 2.00 }',
        '    context_window: 400000',
        '    max_output_tokens: 128000',
        '    supports: [tools, images]',
      ],
    },
  },
  {
    variable: 'ANTHROPIC_API_KEY',
    source: {
      about: 'Anthropic, with ANTHROPIC_API_KEY',
      lines: [
        'providers:',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: as above.
        '  anthropic: { dialect: anthropic, api_key: "${ANTHROPIC_API_KEY}" }',
        'models:',
        '  - name: claude-sonnet',
        '    aliases: [gpt-5-mini]',
        '    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]',
        '    price: { input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15 }',
        '    context_window: 200000',
        '    max_output_tokens: 64000',
        '    supports: [tools, images]',
        '    prompt_cache: { explicit: true, ttls: [5m, 1h] }',
      ],
    },
  },
]

function simulated(url: string): Source {
  return {
    about: `simulated, on ${url} (set OPENAI_API_KEY or ANTHROPIC_API_KEY to use a real one)`,
    lines: [
      'providers:',
      `  simulated: { dialect: openai, base_url: "${url}/v1", api_key: not-needed }`,
      'models:',
      ...['gpt-5-mini', 'claude-sonnet'].flatMap((name) => [
        `  - name: ${name}`,
        `    targets: [{ provider: simulated, model: ${name} }]`,
        '    price: { input: 0.25, cached_input: 0.025, output: 2.00 }',
        '    context_window: 400000',
        '    max_output_tokens: 128000',
        '    supports: [tools]',
      ]),
    ],
  }
}

/** The log line of a gateway that accepts requests. */
interface Ready {
  readonly event?: string
  readonly address?: string
  readonly admin?: string
}

/** One request of a dialect. */
interface Example {
  readonly title: string
  readonly path: string
  /** The header that carries the key. */
  readonly key: (key: string) => readonly [string, string]
  readonly body: Readonly<Record<string, unknown>>
  /** True for the text of a complete answer. */
  readonly whole: (text: string) => boolean
}

const bearer = (key: string) => ['authorization', `Bearer ${key}`] as const
const apiKey = (key: string) => ['x-api-key', key] as const

function examples(): readonly Example[] {
  const model = 'gpt-5-mini'
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
    {
      title: 'Responses',
      path: '/v1/responses',
      key: bearer,
      body: { model, input: 'Hello!' },
      whole: (text) => text.includes('"status":"completed"'),
    },
    {
      title: 'Responses, streamed',
      path: '/v1/responses',
      key: bearer,
      body: { model, input: 'Hello!', stream: true },
      whole: (text) => text.includes('event: response.completed'),
    },
    {
      title: 'Messages',
      path: '/anthropic/v1/messages',
      key: apiKey,
      body: { model: 'claude-sonnet', max_tokens: 1024, messages },
      whole: (text) => text.includes('"stop_reason":"end_turn"'),
    },
    {
      title: 'Messages, streamed',
      path: '/anthropic/v1/messages',
      key: apiKey,
      body: { model: 'claude-sonnet', max_tokens: 1024, messages, stream: true },
      whole: (text) => text.includes('event: message_stop'),
    },
  ]
}

interface Gateway {
  readonly address: string
  readonly admin: string
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'inherit'>
}

/** Stops what was started, in the order of starting; run in reverse. */
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
    `listen: { host: 127.0.0.1, port: ${port ?? freePort(PORT)} }`,
    `admin: { host: 127.0.0.1, port: ${port === ADMIN_PORT ? 0 : freePort(ADMIN_PORT)} }`,
    `data_dir: ${JSON.stringify(join(folder, 'data'))}`,
    'drain_seconds: 5',
    'ledger: embedded',
    ...source.lines,
    `organizations: [{ id: quickstart, keys: [{ id: quickstart, key: ${key} }] }]`,
  ]
  const file = join(folder, 'weir.yaml')
  await fs.writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  const gateway = Bun.spawn([...program(), 'serve', '--config', file], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  cleanups.push(() => {
    gateway.kill('SIGTERM')
    return gateway.exited
  })
  return { process: gateway, ...(await readLog(gateway)) }
}

/** The words that run weir: the executable of `WEIR_EXECUTABLE`, or else the source. */
function program(): readonly string[] {
  const { WEIR_EXECUTABLE } = process.env
  return WEIR_EXECUTABLE ? [WEIR_EXECUTABLE] : [process.execPath, join(import.meta.dir, '../src/main.ts')]
}

/**
 * Resolves when the gateway is ready. Shows every later line of its log, on a terminal as a short text; not with
 * `--once`, which shows the answers.
 */
async function readLog(gateway: Gateway['process']): Promise<{ address: string; admin: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ address: string; admin: string }>()
  const read = async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of gateway.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const entry: Readonly<Record<string, unknown>> & Ready = JSON.parse(line)
        if (entry.event === 'server.ready') resolve({ address: entry.address ?? '', admin: entry.admin ?? '' })
        else if (!once) console.log(process.stdout.isTTY ? requestLine(entry) : line)
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
  const headers = `-H '${name}: ${value}' -H 'content-type: application/json'`
  return `curl -sN ${gateway.address}${example.path} ${headers} -d '${body}'`
}

function introduce(gateway: Gateway, key: string, source: Source): void {
  console.log(`address   ${gateway.address}`)
  console.log(`key       ${key}`)
  console.log('models    gpt-5-mini, claude-sonnet')
  console.log(`provider  ${source.about}`)
  console.log(`console   ${gateway.admin}/`)
  console.log(`admin     ${gateway.admin}/readyz`)
  console.log(`\nFor the examples of the README, in another terminal:\nexport WEIR_KEY=${key}`)
  if (!gateway.address.endsWith(`:${PORT}`)) {
    const why = port === undefined ? `They use port ${PORT}, which is taken` : `They use port ${PORT}`
    console.log(`(${why}: replace http://127.0.0.1:${PORT} by ${gateway.address}.)`)
  }
  if (!gateway.admin.endsWith(`:${ADMIN_PORT}`))
    console.log(`(For the admin port, replace http://127.0.0.1:${ADMIN_PORT} by ${gateway.admin}.)`)
  for (const example of examples()) console.log(`\n${example.title}:\n${curl(gateway, key, example)}`)
  if (!once) console.log('\nCtrl-C stops everything. Below is the log, one line per request.\n')
}

/** Sends an example and prints the answer. True if it is complete. */
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

async function sendAll(gateway: Gateway, key: string): Promise<number> {
  let failed = 0
  for (const example of examples()) if (!(await send(gateway, key, example))) failed++
  console.log(failed === 0 ? '\nAll requests were answered.' : `\n${failed} of the requests failed.`)
  return failed === 0 ? 0 : 1
}

async function main(): Promise<number> {
  const key = `quickstart-${randomBytes(16).toString('hex')}`
  const stop = Promise.withResolvers<number>()
  // SIGHUP: the terminal was closed.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.resolve(0))
  try {
    const source = await startProvider()
    const gateway = await startGateway(source, key)
    introduce(gateway, key, source)
    if (once) return await Promise.race([stop.promise, sendAll(gateway, key)])
    return await Promise.race([stop.promise, gateway.process.exited])
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 1
  } finally {
    await stopAll()
  }
}

interface Flags {
  readonly once: boolean
  readonly port: number | undefined
}

function parse() {
  return parseArgs({
    options: { help: { type: 'boolean' }, once: { type: 'boolean', default: false }, port: { type: 'string' } },
  })
}

function flagsOf({ once, port }: ReturnType<typeof parse>['values']): Flags | undefined {
  if (port === undefined) return { once, port }
  return /^\d{1,5}$/.test(port) && Number(port) <= 65_535 ? { once, port: Number(port) } : undefined
}

const { once, port } = scriptFlags(HELP, parse, flagsOf)
process.exitCode = await main()
