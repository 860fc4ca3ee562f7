/** A reader of the documents: runs their commands against a gateway, with `weir` on PATH. */

import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MAIN } from '../process/weir.ts'
import type { Gateway } from '../support/gateway.ts'

interface Output {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export class Reader {
  private constructor(
    private readonly gateway: Gateway,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** Works in the gateway's folder, with these variables beside PATH and HOME. */
  static async of(gateway: Gateway, env: Readonly<Record<string, string>>): Promise<Reader> {
    const program = join(gateway.folder, 'weir')
    const flags = '--no-env-file --config=/dev/null --tsconfig-override=/dev/null --no-install'
    await writeFile(program, `#!/bin/sh\nexec "${process.execPath}" ${flags} "${MAIN}" "$@"\n`)
    await chmod(program, 0o755)
    return new Reader(gateway, env)
  }

  /** The text with the addresses of the gateway in place of the documents'. */
  here(text: string): string {
    const { url, adminUrl } = this.gateway
    return text.replaceAll('http://127.0.0.1:8080', url).replaceAll('http://127.0.0.1:9090', adminUrl)
  }

  /** Runs a block of commands, which ends at the first that fails. */
  async shell(block: string): Promise<Output> {
    return await this.run(['bash', '-euo', 'pipefail', '-c', this.here(block)])
  }

  async run(words: string[]): Promise<Output> {
    const { folder } = this.gateway
    const child = Bun.spawn(words, {
      cwd: folder,
      env: { PATH: `${folder}:${process.env['PATH']}`, HOME: folder, ...this.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    return { code, stdout, stderr }
  }
}
