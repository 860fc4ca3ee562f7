/**
 * A machine on the other end of a virtual cable, for tests in their own network: it can vanish without closing a
 * connection.
 */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const HERE = '10.77.0.1'
const THERE = '10.77.0.2'

/** A program on its own machine; ended with `await using`. */
export class FarMachine implements AsyncDisposable {
  readonly host = THERE
  private readonly lines: string[] = []
  private readonly waiting = new Set<() => void>()

  private constructor(private readonly program: Bun.Subprocess<'pipe', 'pipe', 'inherit'>) {
    void this.read()
  }

  /** Resolves when the program prints `ready`. */
  static async start(file: string): Promise<FarMachine> {
    const machine = new FarMachine(
      Bun.spawn(['unshare', '--net', process.execPath, file], { stdio: ['pipe', 'pipe', 'inherit'] }),
    )
    await machine.prints('ready')
    machine.connect()
    return machine
  }

  /** Resolves when the program has printed this line `times` times. */
  async prints(line: string, times = 1): Promise<void> {
    while (this.lines.filter((one) => one === line).length < times)
      await new Promise<void>((resolve) => this.waiting.add(resolve))
  }

  /** Cuts the cable: nothing arrives there and nothing comes back, no FIN, no reset, no ICMP error. */
  vanish(): void {
    this.there('ip', 'address', 'delete', `${THERE}/30`, 'dev', 'far')
  }

  /** The number of this process's sockets to that machine. */
  socketsOf(pid: number): number {
    const remote = Buffer.from(THERE.split('.').map(Number)).readUInt32LE().toString(16).toUpperCase().padStart(8, '0')
    const inodes = readFileSync(`/proc/${pid}/net/tcp`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[2]?.startsWith(`${remote}:`))
      .map((fields) => `socket:[${fields[9]}]`)
    const open = readdirSync(`/proc/${pid}/fd`).map((fd) => descriptor(pid, fd))
    return open.filter((name) => inodes.includes(name)).length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.program.kill('SIGKILL')
    await this.program.exited
    // Its end of the cable disappears with the machine, and ours with it, but not at once.
    Bun.spawnSync(['ip', 'link', 'delete', 'near'], { stderr: 'ignore' })
  }

  /**
   * The cable. Each end has a permanent entry for the other's hardware address, so that packets to a vanished machine
   * are still sent.
   */
  private connect(): void {
    const [near, far] = ['02:00:00:00:00:01', '02:00:00:00:00:02'] as const
    const end = `near address ${near} type veth peer name far address ${far} netns ${this.program.pid}`
    here('ip', 'link', 'add', ...end.split(' '))
    here('ip', 'address', 'add', `${HERE}/30`, 'dev', 'near')
    here('ip', 'link', 'set', 'near', 'up')
    this.there('ip', 'address', 'add', `${THERE}/30`, 'dev', 'far')
    this.there('ip', 'link', 'set', 'far', 'up')
    here('ip', 'neighbour', 'replace', THERE, 'lladdr', far, 'dev', 'near', 'nud', 'permanent')
  }

  private there(...words: readonly string[]): void {
    here('nsenter', '--net', `--target=${this.program.pid}`, ...words)
  }

  private async read(): Promise<void> {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of this.program.stdout) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      this.lines.push(...parts)
      for (const resolve of this.waiting) resolve()
      this.waiting.clear()
    }
  }
}

/** The target of a file descriptor; undefined if it was closed in the meantime. */
function descriptor(pid: number, fd: string): string {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return ''
  }
}

function here(...words: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([...words])
  if (exitCode !== 0) throw new Error(`${words.join(' ')}: ${stderr}`)
}
