/**
 * The real program, started as an operator starts it: a configuration file, a process, its log on standard output,
 * signals to end it.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DialectField, providerDialects } from '../../src/config/provider-dialects.ts'
import { isObject, type JsonObject, stringOf } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import { ExchangeRecorder } from './exchange-recorder.ts'
import { serviceAccountKey } from './google-tokens.ts'

const MAIN = join(import.meta.dir, '../../src/main.ts')

/** A key of every test gateway, in organisation `test`. */
export const KEY = 'test-key-0123456789abcdef'

export interface GatewaySetup {
  /** Providers by name: the base URL of a Chat Completions provider, or an entry of the configuration. */
  readonly providers: Readonly<Record<string, string | JsonObject>>
  /**
   * Models by public name: `provider/model` of each target in order, or an entry. Default: model `m` at the first
   * provider.
   */
  readonly models?: Readonly<Record<string, readonly string[] | JsonObject>>
  /** Other parts of the configuration; they override those made here. */
  readonly config?: JsonObject
  readonly env?: Readonly<Record<string, string>>
  /** Flags after `serve --config FILE`. */
  readonly flags?: readonly string[]
  /** The limit on file descriptors of each process; by default that of this process. */
  readonly descriptors?: number
  /** The path of an executable; by default that of `WEIR_EXECUTABLE`, or else the source is run. */
  readonly executable?: string
  /** True: when the gateway is stopped, every exchange with a caller must have matched `docs/openapi.json`. */
  readonly validated?: boolean
}

/** How a process ended. */
export interface Exit {
  readonly code: number | null
  readonly signal: string | null
}

export class Gateway implements AsyncDisposable {
  /** Parsed log lines so far; other lines are in `output` only. */
  readonly lines: JsonObject[] = []
  /** Everything written on both outputs. */
  output = ''
  port = 0
  adminPort = 0
  readonly exit: Promise<Exit>
  private ended = false
  private rest = ''
  private readonly waiting = new Set<() => void>()
  private recorder: ExchangeRecorder | undefined

  private constructor(
    private readonly child: ChildProcess,
    readonly folder: string,
  ) {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.read(text))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.output += text
    })
    this.exit = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        this.ended = true
        this.wake()
        resolve({ code, signal })
      }),
    )
  }

  /** Starts the program; resolves when it accepts requests. */
  static async start(setup: GatewaySetup): Promise<Gateway> {
    const folder = await mkdtemp(join(tmpdir(), 'weir-test-'))
    const gateway = await Gateway.spawn(configOf(setup, folder), setup, folder)
    try {
      await gateway.announced()
      if (setup.validated === true) gateway.port = (await gateway.record()).port
      return gateway
    } catch (error) {
      await gateway[Symbol.asyncDispose]()
      throw error
    }
  }

  private static async spawn(config: JsonObject, setup: GatewaySetup, folder: string): Promise<Gateway> {
    const file = join(folder, 'weir.yaml')
    // JSON is YAML.
    await writeFile(file, JSON.stringify(config, null, 2))
    const { PATH = '', HOME = folder } = process.env
    const executable = setup.executable ?? process.env['WEIR_EXECUTABLE']
    const weir = executable === undefined ? [process.execPath, MAIN] : [executable]
    const program = [...weir, 'serve', '--config', file, ...(setup.flags ?? [])]
    const [command = '', ...args] =
      setup.descriptors === undefined
        ? program
        : ['bash', '-c', `ulimit -n ${setup.descriptors}; exec "$0" "$@"`, ...program]
    const child = spawn(command, args, {
      cwd: folder,
      env: { PATH, HOME, ...setup.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own, so that workers of a killed supervisor can be killed too.
      detached: true,
    })
    return new Gateway(child, folder)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get adminUrl(): string {
    return `http://127.0.0.1:${this.adminPort}`
  }

  get configFile(): string {
    return join(this.folder, 'weir.yaml')
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error('the program was not started')
    return this.child.pid
  }

  /**
   * The first log line, past or future, that the predicate accepts. Throws with the output if the program ends before.
   */
  async line(matches: (line: JsonObject) => boolean): Promise<JsonObject> {
    for (;;) {
      const found = this.lines.find(matches)
      if (found !== undefined) return found
      if (this.ended) throw new Error(`the program ended without the line; it wrote:\n${this.output}`)
      await new Promise<void>((resolve) => this.waiting.add(resolve))
    }
  }

  /** The log line of a request, by the id in its answer. */
  request(id: string | null | undefined): Promise<JsonObject> {
    if (typeof id !== 'string') throw new Error('the answer carries no request id')
    return this.line((line) => line['msg'] === 'request' && line['request_id'] === id)
  }

  /** Runs another command of the program on the same configuration. */
  async run(...words: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const command = Bun.spawn([process.execPath, MAIN, ...words, '--config', this.configFile], {
      cwd: this.folder,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, code] = await Promise.all([command.stdout.text(), command.stderr.text(), command.exited])
    return { code, stdout, stderr }
  }

  /** `GET /readyz`; no reasons if it is ready. */
  async readyz(): Promise<{ readonly status: number; readonly reasons: readonly string[] }> {
    return readinessAt(this.adminUrl)
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.ended) process.kill(this.pid, signal)
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Exit> {
    this.signal(signal)
    return await this.exit
  }

  private async record(): Promise<ExchangeRecorder> {
    this.recorder = await ExchangeRecorder.before(this.port)
    return this.recorder
  }

  /** Kills the program: running requests are cut. Throws if an exchange that had to match the document did not. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.ended) {
      this.signal('SIGTERM')
      this.signal('SIGTERM')
      const limit = setTimeout(() => process.kill(-this.pid, 'SIGKILL'), 3000)
      await this.exit
      clearTimeout(limit)
    }
    await rm(this.folder, { recursive: true, force: true })
    this.recorder?.finish()
  }

  /** The log line with the program's addresses. */
  private async announced(): Promise<void> {
    const line = await this.line(
      (one) => stringOf(one['address']) !== undefined && stringOf(one['admin']) !== undefined,
    )
    this.port = Number(new URL(stringOf(line['address']) ?? '').port)
    this.adminPort = Number(new URL(stringOf(line['admin']) ?? '').port)
  }

  private read(text: string): void {
    this.output += text
    const lines = (this.rest + text).split('\n')
    this.rest = lines.pop() ?? ''
    for (const line of lines) {
      const value = parsed(line)
      if (value !== undefined) this.lines.push(value)
    }
    this.wake()
  }

  private wake(): void {
    const waiting = [...this.waiting]
    this.waiting.clear()
    for (const resolve of waiting) resolve()
  }
}

const OWN_FIELDS: Readonly<Record<DialectField, string>> = {
  api_key: 'provider-key',
  api_version: '2025-04-01-preview',
  api: 'auto',
  region: 'eu-west-1',
  credentials: 'default',
  access_key_id: 'AKIATEST',
  secret_access_key: 'provider-secret',
  session_token: 'provider-token',
  project: 'project-1',
  location: 'europe-west1',
  get service_account() {
    return serviceAccountKey()
  },
}

/** An entry of any provider dialect: its address, the required fields, and its last kind of credential. */
export function providerEntry(dialect: ProviderDialect, baseUrl: string): JsonObject {
  const { needs, credentials } = providerDialects[dialect]
  const fields = [...needs, ...(credentials?.at(-1)?.needs ?? (['api_key'] as const))]
  const own = fields.flatMap((field) => (field === 'base_url' ? [] : [[field, OWN_FIELDS[field]]]))
  return { dialect, base_url: baseUrl, ...Object.fromEntries(own) }
}

/** `GET /readyz` of an admin port; no reasons if it is ready. */
export async function readinessAt(adminUrl: string): Promise<{ status: number; reasons: readonly string[] }> {
  const answer = await fetch(`${adminUrl}/readyz`)
  const body = (await answer.json()) as { reasons?: string[] }
  return { status: answer.status, reasons: body.reasons ?? [] }
}

/** The configuration of a setup. */
export function configOf(setup: GatewaySetup, folder: string): JsonObject {
  const providers = Object.fromEntries(
    Object.entries(setup.providers).map(([name, entry]) => [
      name,
      typeof entry === 'string' ? { dialect: 'openai', base_url: entry, api_key: `provider-key-of-${name}` } : entry,
    ]),
  )
  const models = setup.models ?? { m: [`${Object.keys(providers)[0]}/m`] }
  return {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { host: '127.0.0.1', port: 0 },
    data_dir: join(folder, 'data'),
    drain_seconds: 2,
    providers,
    models: Object.entries(models).map(([name, entry]) =>
      isObject(entry) ? { name, ...entry } : { name, ...modelOf(entry) },
    ),
    organizations: [{ id: 'test', keys: [{ id: 'test-key', key: KEY }] }],
    ...setup.config,
  }
}

function modelOf(targets: readonly string[]): JsonObject {
  return {
    targets: targets.map((target) => {
      const slash = target.indexOf('/')
      return { provider: target.slice(0, slash), model: target.slice(slash + 1) }
    }),
    price: { input: 1, cached_input: 0.1, output: 10 },
    context_window: 100_000,
    max_output_tokens: 10_000,
    supports: ['tools', 'images'],
  }
}

function parsed(line: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
