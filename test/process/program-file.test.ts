/** Whose program file is run again by SIGUSR2. */

import { afterAll, beforeEach, expect, test } from 'bun:test'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programProblem } from '../../src/process/children/program-file.ts'
import { configuration, Weir } from './weir.ts'

const isRoot = process.getuid?.() === 0
const root = mkdtempSync(join(tmpdir(), 'weir-program-'))
const folder = join(root, 'bin')
const file = join(folder, 'weir')
/** The user and the group `daemon`, which every Linux has. */
const DAEMON = 1

beforeEach(() => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o755 })
  writeFileSync(file, '')
  chmodSync(file, 0o755)
})
afterAll(() => rmSync(root, { recursive: true }))

test('a file of this user or of root, in a folder of theirs', () => {
  expect(programProblem([file, 'worker'])).toBeUndefined()
  expect(programProblem(['/bin/sh'])).toBeUndefined()
  expect(programProblem()).toBeUndefined()
})

test('a file or a folder that others may write to', () => {
  for (const path of [file, folder]) {
    chmodSync(path, 0o757)
    expect(programProblem([file])).toContain(`other users may write to ${path} (mode 0757)`)
    chmodSync(path, 0o755)
  }
  // As in /tmp: others can add files, and not replace this one.
  chmodSync(folder, 0o1777)
  expect(programProblem([file])).toBeUndefined()
})

test('a link leads to what is run', () => {
  const link = join(root, 'link')
  symlinkSync(file, link)
  chmodSync(folder, 0o777)
  expect(programProblem([link])).toContain(`other users may write to ${folder}`)
  rmSync(link)
})

test.skipIf(!isRoot)('a file or folder of another user, or of a group with other members', () => {
  for (const path of [file, folder]) {
    chownSync(path, DAEMON, 0)
    expect(programProblem([file])).toContain(`${path} belongs to another user (uid 1)`)
    chownSync(path, 0, DAEMON)
    chmodSync(path, 0o775)
    expect(programProblem([file])).toContain(`its group may write to ${path} (mode 0775)`)
    chownSync(path, 0, 0)
    expect(programProblem([file])).toBeUndefined()
    chmodSync(path, 0o755)
  }
})

test('the script of a checkout counts; its start reports a file that is gone', () => {
  chmodSync(file, 0o777)
  expect(programProblem([process.execPath, '--no-install', file, 'worker'])).toContain(file)
  rmSync(file)
  expect(programProblem([file])).toBeUndefined()
})

test('SIGUSR2 runs no program that others may write to, and the workers serve on', async () => {
  await using weir = await Weir.ready(configuration({ baseUrl: 'http://127.0.0.1:9/v1' }), [], {
    program: [process.execPath, copyOfSource()],
  })
  const before = await weir.workers()
  chmodSync(join(root, 'copy/src/main.ts'), 0o777)
  weir.signal('SIGUSR2')
  expect(await weir.line('workers not replaced')).toMatchObject({
    event: 'workers.replace_failed',
    reason: expect.stringContaining(`other users may write to ${join(root, 'copy/src/main.ts')} (mode 0777)`),
  })
  expect(await weir.workers()).toEqual(before)
  expect(await weir.models()).toEqual(['small'])
  chmodSync(join(root, 'copy/src/main.ts'), 0o755)
  weir.signal('SIGUSR2')
  await weir.line('workers replaced')
})

function copyOfSource(): string {
  const source = join(import.meta.dir, '../..')
  const copy = join(root, 'copy')
  mkdirSync(copy)
  Bun.spawnSync(['cp', '-r', join(source, 'src'), join(source, 'package.json'), copy])
  symlinkSync(join(source, 'node_modules'), join(copy, 'node_modules'))
  return join(copy, 'src/main.ts')
}
