/** The executable that `scripts/build` makes, built once for all tests of a run. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let built: Promise<string> | undefined

/** Resolves to its path. */
export function executable(): Promise<string> {
  built ??= build()
  return built
}

async function build(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-build-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'weir')
  const child = Bun.spawn([join(import.meta.dir, '../../scripts/build'), path], { stdio: ['ignore', 'ignore', 'pipe'] })
  const errors = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) throw new Error(`scripts/build: ${errors}`)
  return path
}
