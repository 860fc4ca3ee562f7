import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

test('processes that open the same new file at once all get it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-database-'))
  for (let round = 0; round < 3; round++) {
    const script = `
      import { Outbox } from '${join(import.meta.dir, '../../src/ledger/outbox.ts')}'
      while (Date.now() < Number(process.argv.at(-1))) {}
      new Outbox('${join(folder, String(round))}').close()
    `
    const start = String(Date.now() + 600)
    const children = Array.from({ length: 4 }, () =>
      Bun.spawn([process.execPath, '-e', script, '--', start], { stdout: 'ignore', stderr: 'pipe' }),
    )
    const codes = await Promise.all(
      children.map(async (child) => [await child.exited, await new Response(child.stderr).text()]),
    )
    expect(codes).toEqual(children.map(() => [0, '']))
  }
  rmSync(folder, { recursive: true })
}, 30_000)
