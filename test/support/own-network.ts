/** Tests in their own network namespace, in which the test answers DNS queries and machines can vanish. */

import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Set in the process inside the namespace. */
const WITHIN = 'WEIR_TEST_OWN_NETWORK'

/** The timeouts of one such test, and of a file of them. */
const EACH_MS = 60_000
const ALL_MS = 600_000

/** The name server of `/etc/resolv.conf`. */
const NAME_SERVER = '127.0.0.1'
const RESOLV_CONF = `nameserver ${NAME_SERVER}\n`
const SILENT_SERVER = '127.0.0.9'

/** Before the tests run, loopback is up and only the test's name server is configured. */
const PREPARE = `
ip link set lo up
mount --bind "$0/resolv.conf" /etc/resolv.conf
if [ -e /etc/nsswitch.conf ]; then mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf; fi
exec "$@"`

/** Root in a user namespace, which most systems allow every user; otherwise with this process's privileges. */
const WAYS = [
  ['unshare', '--map-root-user', '--mount', '--net'],
  ['unshare', '--mount', '--net'],
] as const

/** Runs the tests of a file in their own network. If the system does not allow that, skips them and reports why. */
export function inOwnNetwork(file: string, tests: () => void): void {
  if (process.env[WITHIN] !== undefined) return tests()
  const folder = mkdtempSync(join(tmpdir(), 'weir-network-'))
  writeFileSync(join(folder, 'resolv.conf'), RESOLV_CONF)
  writeFileSync(join(folder, 'nsswitch.conf'), 'hosts: files dns\n')
  const way = WAYS.find((words) => Bun.spawnSync(within(words, folder, ['true'])).exitCode === 0)
  if (way === undefined) {
    rmSync(folder, { recursive: true })
    const reason = 'this system has no `unshare` and `ip`, or allows neither root nor users to create namespaces'
    test.skip(`in a network of its own: ${reason}`, () => {})
    return
  }
  const run = async () => {
    const program = [process.execPath, 'test', '--timeout', String(EACH_MS), file]
    const child = Bun.spawn(within(way, folder, program), {
      env: { ...process.env, [WITHIN]: '1', NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
    rmSync(folder, { recursive: true })
    if (code !== 0) throw new Error(`the tests within failed:\n${err}${out}`)
    expect(err).toMatch(/^ *[1-9]\d* pass$/m)
  }
  test('in a network of its own', run, ALL_MS)
}

function within(way: readonly string[], folder: string, program: readonly string[]): string[] {
  return [...way, 'sh', '-ec', PREPARE, folder, ...program]
}

/** How a query is answered: with an address, at once or delayed; `none`: no such name; `never`: not at all. */
export type Naming = { readonly address: string; readonly afterMs?: number } | 'none' | 'never'

/** A name server inside the namespace; closed with `using`. */
export class NameServer implements Disposable {
  /** The queries so far. */
  readonly asked: string[] = []
  private readonly names = new Map<string, Naming>()
  private readonly waiting = new Set<() => void>()

  private socket: Bun.udp.Socket<'buffer'> | undefined

  private constructor(
    names: Readonly<Record<string, Naming>>,
    private readonly otherwise: Naming,
  ) {
    for (const [name, naming] of Object.entries(names)) this.set(name, naming)
  }

  /** The first name server. Unknown names do not exist. */
  static async start(names: Readonly<Record<string, Naming>>): Promise<NameServer> {
    const server = new NameServer(names, 'none')
    await server.listen(NAME_SERVER)
    return server
  }

  /** A name server that is queried before the others and never answers. */
  static async silentFirst(): Promise<NameServer> {
    const server = new NameServer({}, 'never')
    await server.listen(SILENT_SERVER)
    writeFileSync('/etc/resolv.conf', `nameserver ${SILENT_SERVER}\nnameserver ${NAME_SERVER}\n`)
    return server
  }

  set(name: string, naming: Naming): void {
    this.names.set(name, naming)
  }

  /** Resolves when `times` queries match. */
  async questions(matches: (name: string) => boolean, count: number): Promise<void> {
    while (new Set(this.asked.filter(matches)).size < count)
      await new Promise<void>((resolve) => this.waiting.add(resolve))
  }

  [Symbol.dispose](): void {
    this.socket?.close()
    writeFileSync('/etc/resolv.conf', RESOLV_CONF)
  }

  private async listen(hostname: string): Promise<void> {
    const data = (_: unknown, question: Buffer, port: number, address: string) => this.take(question, port, address)
    this.socket = await Bun.udpSocket({ hostname, port: 53, socket: { data } })
  }

  private take(question: Buffer, port: number, address: string): void {
    const { name, type, end } = questionOf(question)
    this.asked.push(name)
    for (const resolve of this.waiting) resolve()
    this.waiting.clear()
    const naming = this.names.get(name) ?? this.otherwise
    if (naming === 'never') return
    const reply = replyTo(question.subarray(0, end), naming === 'none' ? undefined : naming.address, type)
    const send = () => void this.socket?.send(reply, port, address)
    if (naming === 'none' || naming.afterMs === undefined) send()
    else setTimeout(send, naming.afterMs)
  }
}

const HEADER_BYTES = 12
const TYPE_A = 1

/** The question of a packet (RFC 1035, 4.1.2), and its end. */
function questionOf(packet: Buffer): { readonly name: string; readonly type: number; readonly end: number } {
  const labels: string[] = []
  let at = HEADER_BYTES
  for (let length = packet.readUInt8(at); length > 0; length = packet.readUInt8(at)) {
    labels.push(packet.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), type: packet.readUInt16BE(at + 1), end: at + 5 }
}

/** The response to a query: the address for type A, no record for other types, NXDOMAIN without an address. */
function replyTo(question: Buffer, address: string | undefined, type: number): Buffer {
  const head = Buffer.from(question)
  head.writeUInt16BE(address === undefined ? 0x8183 : 0x8180, 2)
  const has = address !== undefined && type === TYPE_A
  head.writeUInt16BE(has ? 1 : 0, 6)
  head.writeUInt32BE(0, 8)
  if (!has) return head
  // The name is a pointer to the question's; class IN, TTL one minute.
  const record = [0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4, ...address.split('.').map(Number)]
  return Buffer.concat([head, Buffer.from(record)])
}
