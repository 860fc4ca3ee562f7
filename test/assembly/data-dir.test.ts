/** A `data_dir` that this process may not use: one line that names the file, its owner and what to do. */

import { afterAll, expect, test } from 'bun:test'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configuration, PROGRAM } from '../process/weir.ts'

const isRoot = process.getuid?.() === 0
/** The user `daemon`, which every Linux has. */
const OTHER = 1
const root = mkdtempSync(join(tmpdir(), 'weir-data-dir-'))
chmodSync(root, 0o755)

afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A folder with a configuration whose `data_dir` is `data` in it. Both belong to the other user. */
function folder(name: string): string {
  const path = join(root, name)
  mkdirSync(path)
  writeFileSync(join(path, 'weir.yaml'), configuration({ baseUrl: 'http://127.0.0.1:9/v1' }))
  chownSync(path, OTHER, OTHER)
  return path
}

async function weir(cwd: string, uid: number, ...args: readonly string[]) {
  const child = Bun.spawn(['setpriv', '--reuid', String(uid), '--clear-groups', ...PROGRAM, ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stderr, code] = await Promise.all([child.stderr.text(), child.exited])
  return { code, stderr }
}

/** A test of the source needs a user who may read the checkout. */
const isReadable = isRoot && Bun.spawnSync(['setpriv', '--reuid', String(OTHER), ...PROGRAM, 'version']).exitCode === 0

test.skipIf(!isReadable)('a folder of another user: every command names its owner', async () => {
  const path = folder('foreign')
  mkdirSync(join(path, 'data'), { mode: 0o700 })
  const line =
    `weir: data_dir: ${path}/data belongs to user root, and this process runs as user daemon; ` +
    `run weir as root, or run: chown -R daemon: ${path}/data\n`
  for (const command of ['serve', 'usage', 'keys list', 'health', 'backup copy'])
    expect(await weir(path, OTHER, ...command.split(' '))).toEqual({ code: 1, stderr: line })
})

test.skipIf(!isReadable)('a file of another user in it', async () => {
  const path = folder('file')
  mkdirSync(join(path, 'data'), { mode: 0o700 })
  writeFileSync(join(path, 'data', 'keys.sqlite'), '', { mode: 0o600 })
  chownSync(join(path, 'data'), OTHER, OTHER)
  const { code, stderr } = await weir(path, OTHER, 'serve')
  expect([code, stderr]).toEqual([1, expect.stringContaining(`${path}/data/keys.sqlite belongs to user root`)])
})

test.skipIf(!isReadable)('a folder that cannot be created, and one that is a file', async () => {
  const path = folder('closed')
  chownSync(path, 0, 0)
  expect(await weir(path, OTHER, 'serve')).toEqual({
    code: 1,
    stderr: `weir: data_dir: ${path}/data cannot be created: user daemon may not write to a folder above it\n`,
  })
  writeFileSync(join(path, 'data'), '')
  expect(await weir(path, 0, 'serve')).toEqual({
    code: 1,
    stderr: `weir: data_dir: ${path}/data cannot be created: it, or a folder above it, is a file\n`,
  })
})

test.skipIf(!isReadable)('what root makes there belongs to the owner of the folder', async () => {
  const path = folder('owned')
  const data = join(path, 'data')
  mkdirSync(data, { mode: 0o700 })
  chownSync(data, OTHER, OTHER)
  expect((await weir(path, 0, 'keys', 'create', '--org', 'acme', '--id', 'made')).code).toBe(0)
  expect(statSync(join(data, 'keys.sqlite')).uid).toBe(OTHER)
  expect((await weir(path, OTHER, 'keys', 'list')).code).toBe(0)
  expect((await weir(path, 0, 'backup', 'copy')).code).toBe(0)
  for (const name of ['', 'keys.sqlite']) expect(statSync(join(path, 'copy', name)).uid).toBe(OTHER)
})

test('a folder to which others may write is refused by serve and check; commands still work', async () => {
  const path = join(root, 'shared')
  const data = join(path, 'data')
  mkdirSync(data, { recursive: true, mode: 0o700 })
  writeFileSync(join(path, 'weir.yaml'), configuration({ baseUrl: 'http://127.0.0.1:9/v1' }))
  const me = process.geteuid?.() ?? 0
  for (const [mode, shown] of [
    [0o777, '0777'],
    [0o1777, '1777'],
    [0o702, '0702'],
    [0o770, '0770'],
  ] as const) {
    chmodSync(data, mode)
    const line =
      `data_dir: ${data} may be written to by other users (mode ${shown}), who could replace the ledger, keys and ` +
      `the compaction key; after a look at what is in it, run: chmod go-w ${data}\n`
    expect(await weir(path, me, 'serve')).toEqual({ code: 1, stderr: `weir: ${line}` })
    expect(await weir(path, me, 'check')).toEqual({ code: 1, stderr: expect.stringContaining(`weir.yaml: ${line}`) })
  }
  expect((await weir(path, me, 'keys', 'list')).code).toBe(0)
  // Others may read: that is the operator's choice.
  for (const mode of [0o755, 0o700]) {
    chmodSync(data, mode)
    expect((await weir(path, me, 'check')).code).toBe(0)
  }
})

test.skipIf(!isReadable)(
  'a volume of root that a group may write to is used, and the folder of a stranger is not',
  async () => {
    const path = folder('volume')
    const data = join(path, 'data')
    mkdirSync(data)
    chownSync(data, 0, OTHER)
    chmodSync(data, 0o2770)
    const asGroup = [
      'setpriv',
      '--reuid',
      String(OTHER),
      '--regid',
      String(OTHER),
      '--clear-groups',
      ...PROGRAM,
      'check',
    ]
    expect(Bun.spawnSync(asGroup, { cwd: path }).exitCode).toBe(0)
    chownSync(data, OTHER + 1, OTHER)
    chmodSync(data, 0o755)
    const refused = Bun.spawnSync(asGroup, { cwd: path, stderr: 'pipe' })
    expect([refused.exitCode, refused.stderr.toString()]).toEqual([1, expect.stringContaining('belongs to user bin')])
  },
)
