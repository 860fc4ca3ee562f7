/** weir in its own processes, for tests: started on free ports, its log read line by line, ended with the test. */

import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readinessAt } from '../support/gateway.ts'
import { childrenWithRole } from '../support/process-table.ts'

export const MAIN = join(import.meta.dir, '../../src/main.ts')
const { WEIR_EXECUTABLE } = process.env
/** The words that run weir: the executable of `WEIR_EXECUTABLE`, or else the source. */
export const PROGRAM: readonly string[] = WEIR_EXECUTABLE === undefined ? [process.execPath, MAIN] : [WEIR_EXECUTABLE]
interface Start {
  /** The words of the command before `serve`; by default `PROGRAM`. */
  readonly program?: readonly string[]
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>
  /** By default a new one. */
  readonly folder?: string
  /** A descriptor of the test that the program gets as its number 3. */
  readonly descriptor?: number
}
export const KEY = 'test-key-0123456789'

export type Line = Readonly<Record<string, unknown>>

/** The text of a configuration that serves `models` from one provider. */
export function configuration(options: {
  baseUrl: string
  models?: readonly string[]
  ledger?: string
  port?: number
  adminPort?: number
  drainSeconds?: number
}): string {
  const { baseUrl, models = ['small'], ledger = 'embedded', port = 0, adminPort = 0, drainSeconds = 60 } = options
  return [
    `listen: { port: ${port} }`,
    `admin: { port: ${adminPort} }`,
    `drain_seconds: ${drainSeconds}`,
    `ledger: ${ledger}`,
    'data_dir: ./data',
    `providers: { fake: { dialect: openai, base_url: "${baseUrl}", api_key: provider-key } }`,
    'models:',
    ...models.map((name) => `  - { name: ${name}, targets: [{ provider: fake, model: upstream }] }`),
    `organizations: [{ id: acme, keys: [{ id: ci, key: ${KEY} }] }]`,
    '',
  ].join('\n')
}

export interface Ended {
  readonly code: number
  readonly stderr: string
}

export class Weir {
  readonly lines: Line[] = []
  readonly ended: Promise<Ended>
  private readonly waiting = new Set<() => void>()

  private constructor(
    readonly folder: string,
    private readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>,
  ) {
    const stderr = new Response(process.stderr).text()
    const read = this.read()
    this.ended = Promise.all([process.exited, stderr, read]).then(([code, text]) => ({ code, stderr: text }))
  }

  /** Starts `weir serve` in a folder of its own that holds `config` as its `weir.yaml`. */
  static async start(config: string, flags: readonly string[] = [], start: Start = {}): Promise<Weir> {
    const { program = PROGRAM, env = {}, folder = await fs.mkdtemp(join(tmpdir(), 'weir-test-')), descriptor } = start
    await fs.writeFile(join(folder, 'weir.yaml'), config)
    const process_ = Bun.spawn([...program, 'serve', ...flags], {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe', descriptor ?? 'ignore'],
    })
    return new Weir(folder, process_)
  }

  static async ready(config: string, flags: readonly string[] = [], start: Start = {}): Promise<Weir> {
    const weir = await Weir.start(config, flags, start)
    await weir.line('ready')
    return weir
  }

  get pid(): number {
    return this.process.pid
  }

  get address(): string {
    return String(this.lines.find(({ msg }) => msg === 'ready')?.['address'])
  }

  get admin(): string {
    return String(this.lines.find(({ msg }) => msg === 'ready')?.['admin'])
  }

  all(msg: string): readonly Line[] {
    return this.lines.filter((line) => line['msg'] === msg)
  }

  /** Resolves to the `count`th line with this message. Throws if weir ends without it. */
  async line(msg: string, count = 1): Promise<Line> {
    let end: Ended | undefined
    void this.ended.then((ended) => {
      end = ended
      this.wake()
    })
    for (;;) {
      const found = this.all(msg)[count - 1]
      if (found !== undefined) return found
      if (end !== undefined)
        throw new Error(`weir ended (${end.code}) without "${msg}": ${end.stderr}${JSON.stringify(this.lines)}`)
      await new Promise<void>((resolve) => this.waiting.add(resolve))
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal)
  }

  /** The worker at `index`, and a failure if there is none: signals to process 0 go to the whole group of the test. */
  async worker(index = 0): Promise<number> {
    const pid = (await this.workers())[index]
    if (pid === undefined) throw new Error(`weir has no worker ${index}`)
    return pid
  }

  workers(): Promise<readonly number[]> {
    return this.children('worker')
  }

  /** The process that owns the embedded ledger, if several workers share it. */
  async ledgerOwner(): Promise<number | undefined> {
    return (await this.children('ledger-owner'))[0]
  }

  /** The processes that weir started for a role. */
  private async children(role: 'worker' | 'ledger-owner'): Promise<readonly number[]> {
    return childrenWithRole(this.pid, role)
  }

  async configure(config: string): Promise<void> {
    await fs.writeFile(join(this.folder, 'weir.yaml'), config)
  }

  /** The public names of the model list. */
  async models(): Promise<readonly string[]> {
    const answer = await fetch(`${this.address}/v1/models`, { headers: { authorization: `Bearer ${KEY}` } })
    return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
  }

  /** Begins a streamed request; resolves when its first text has arrived. */
  async stream(): Promise<{ rest(): Promise<string> }> {
    const answer = await fetch(`${this.address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'small', stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    if (answer.status !== 200 || answer.body === null) throw new Error(`${answer.status} ${await answer.text()}`)
    const reader = answer.body.getReader()
    const decoder = new TextDecoder()
    let text = ''
    while (!text.includes('one')) text += decoder.decode((await reader.read()).value, { stream: true })
    return {
      async rest() {
        for (;;) {
          const { done, value } = await reader.read()
          if (done) return text
          text += decoder.decode(value, { stream: true })
        }
      },
    }
  }

  readyz(): Promise<{ status: number; reasons: readonly string[] }> {
    return readinessAt(this.admin)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.signal('SIGTERM')
      this.signal('SIGTERM')
    }
    await this.process.exited
    await fs.rm(this.folder, { recursive: true, force: true })
  }

  private async read(): Promise<void> {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of this.process.stdout) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      for (const part of parts) this.lines.push(JSON.parse(part))
      this.wake()
    }
  }

  private wake(): void {
    for (const resolve of this.waiting) resolve()
    this.waiting.clear()
  }
}

/** Polls until it holds. For the state of another process, which sends no event. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(10)
}

/** False once a process has ended, also before its exit code was collected. */
export async function lives(pid: number): Promise<boolean> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') Z')
  return !/\) [ZX]/.test(stat)
}
