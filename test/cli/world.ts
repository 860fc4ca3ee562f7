/** A directory with a configuration, in which tests run the commands as an operator does. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LedgerPlace, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { type Charge, type Ledger, noCharge } from '../../src/ledger/ledger.ts'
import { PROGRAM } from '../process/weir.ts'
import { openLedger } from '../support/open-ledger.ts'

/** A key of the configuration. */
export const CONFIGURED = 'configured-key-0123456789'

export class World implements AsyncDisposable {
  private constructor(
    readonly folder: string,
    private readonly redis: string | undefined,
  ) {}

  /** With the embedded ledger, or with Redis at a URL. */
  static async make(redis?: string, organizations = ORGANIZATIONS): Promise<World> {
    const world = new World(await mkdtemp(join(tmpdir(), 'weir-cli-')), redis)
    await world.configure(organizations)
    return world
  }

  async configure(organizations: string): Promise<void> {
    const ledger = this.redis === undefined ? 'embedded' : `{ redis: "${this.redis}" }`
    await writeFile(join(this.folder, 'weir.yaml'), `ledger: ${ledger}\ndata_dir: ./data\n${MODELS}${organizations}`)
  }

  get dataDir(): string {
    return join(this.folder, 'data')
  }

  weir(...args: readonly string[]) {
    return this.run([...PROGRAM, ...args])
  }

  /** Runs a line of bash, in which `"$@"` is weir. */
  shell(line: string) {
    return this.run(['bash', '-c', line, 'bash', ...PROGRAM])
  }

  private async run(words: string[]) {
    const child = Bun.spawn(words, {
      cwd: this.folder,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    return { code, stdout, stderr }
  }

  /** The ledger that `weir serve` would open here. */
  async ledger(): Promise<Ledger> {
    return openLedger(this.place)
  }

  /** Resolves when other processes can read `requests` requests: the ledger commits them a moment later. */
  async committed(requests: number): Promise<void> {
    const log = await openUsageLog(this.place)
    for (let found = -1; found !== requests; ) {
      // Reading a file is no pause in which the ledger of this process could commit.
      await Bun.sleep(5)
      const rows = await log.read({ sinceDay: 0, untilDay: 1_000_000 })
      found = rows.reduce((sum, row) => sum + row.requests, 0)
    }
    await log.close()
  }

  private get place(): LedgerPlace {
    const { redis, dataDir } = this
    const ledger =
      redis === undefined
        ? ({ kind: 'embedded' } as const)
        : ({ kind: 'redis', redis: { kind: 'single', url: redis } } as const)
    return { ledger, ledgerUnreachable: 'refuse', dataDir }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true })
  }
}

const MODELS = `
tags: [project, team]
providers: { up: { dialect: openai, base_url: "http://127.0.0.1:9/v1" } }
models:
  - { name: small, targets: [{ provider: up, model: a }], price: { input: 1, output: 2 } }
  - { name: large, targets: [{ provider: up, model: b }], price: { input: 10, output: 20 } }
`

const ORGANIZATIONS = `
organizations:
  - id: acme
    limits: { requests_per_minute: 60, spend: { day: 5 } }
    keys: [{ id: ci, key: ${CONFIGURED}, limits: { spend: { total: 1 } } }]
  - { id: other, keys: [{ id: old, key: ${CONFIGURED}-2, expires_at: 2020-01-01, disabled: true }] }
`

/** One request that was answered; money in micro-dollars. */
export async function use(
  ledger: Ledger,
  owner: { readonly organization: string; readonly key: string },
  model: string,
  figures: Partial<Pick<Charge, 'cachedInputTokens' | 'images' | 'estimated' | 'provider' | 'tags'>> & {
    readonly cost: number
  },
): Promise<void> {
  const { cost, ...rest } = figures
  const estimate = { inputTokens: 100, outputTokens: 10, costMicroUsd: cost }
  const account = { ...owner, organizationLimits: {}, keyLimits: {} }
  const reservation = await ledger.reserve(account, { id: crypto.randomUUID(), estimate, floorMicroUsd: 0 })
  await ledger.settle(reservation, {
    ...{ ...noCharge('completed', '', '192.0.2.1', 'gateway-1'), ...estimate, model, provider: 'up' },
    ...rest,
  })
}
