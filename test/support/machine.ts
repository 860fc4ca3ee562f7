/**
 * A copy of this machine for a test that installs packages: what it writes is in memory and gone with it. Processes and
 * the network are those of this machine. Needs root.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Makes the copy in `$0`, reports that, and keeps it until its input ends. */
const MAKE = `
mount -t tmpfs -o mode=755 tmpfs "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
mount -t proc -o subset=pid,hidepid=invisible proc "$0/root/proc"
mount --rbind /dev "$0/root/dev"
mount --rbind "$1" "$0/root/mnt"
echo made
read -r end || true`

interface Ran {
  readonly code: number
  readonly output: string
}

export class Machine implements AsyncDisposable {
  private constructor(
    private readonly keeper: Bun.Subprocess<'pipe', 'pipe', 'inherit'>,
    private readonly folder: string,
  ) {}

  /** `/mnt` is the folder `shared` of this machine. Undefined if this system does not allow such a copy. */
  static async start(shared: string): Promise<Machine | undefined> {
    if (process.getuid?.() !== 0 || Bun.which('unshare') === null) return undefined
    const folder = mkdtempSync(join(tmpdir(), 'weir-machine-'))
    const command = ['unshare', '--mount', '--propagation', 'private', 'bash', '-ec', MAKE, folder, shared]
    const keeper = Bun.spawn(command, { stdio: ['pipe', 'pipe', 'inherit'] })
    const { value } = await keeper.stdout.getReader().read()
    const machine = new Machine(keeper, folder)
    if (value !== undefined) return machine
    await machine[Symbol.asyncDispose]()
    return undefined
  }

  /** The words that run a command there. */
  within(...command: readonly string[]): string[] {
    const root = join(this.folder, 'root')
    return ['nsenter', `--mount=/proc/${this.keeper.pid}/ns/mnt`, 'chroot', root, ...command]
  }

  /** Runs a command of the shell as root. */
  async run(line: string): Promise<Ran> {
    const child = Bun.spawn(this.within('bash', '-c', `${line}`), {
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
    return { code, output: `${out}${err}` }
  }

  async write(path: string, text: string, mode = '644'): Promise<void> {
    const child = Bun.spawn(this.within('install', '-D', '-m', mode, '/dev/stdin', path), {
      stdio: [new Blob([text]), 'ignore', 'inherit'],
    })
    if ((await child.exited) !== 0) throw new Error(`${path} cannot be written`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    void this.keeper.stdin.end()
    await this.keeper.exited
    rmSync(this.folder, { recursive: true, force: true })
  }
}
