/** The executable that `scripts/build` makes: that of `WEIR_BUILT`, or one built for the tests of a file. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let built: Promise<string> | undefined

/** Resolves to its path. */
export function executable(): Promise<string> {
  const { WEIR_BUILT } = process.env
  built ??= WEIR_BUILT === undefined ? build() : Promise.resolve(WEIR_BUILT)
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
