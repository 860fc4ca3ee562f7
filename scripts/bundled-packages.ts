/** Prints the folders of the packages whose code is in the program, one per line: the dependencies, and theirs. */

import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dir, '..')

interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
}

/** Where Node would find a package that is imported in `folder`. */
function find(name: string, folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const candidate = join(at, 'node_modules', name)
    if (existsSync(join(candidate, 'package.json'))) return candidate
    if (at === ROOT || at === dirname(at)) return undefined
  }
}

const found = new Set<string>()

async function collect(folder: string): Promise<void> {
  const { dependencies = {} }: Manifest = await Bun.file(join(folder, 'package.json')).json()
  for (const name of Object.keys(dependencies)) {
    const inside = find(name, folder)
    if (inside === undefined || found.has(inside)) continue
    found.add(inside)
    await collect(inside)
  }
}

await collect(ROOT)
for (const folder of [...found].sort()) console.log(folder.slice(ROOT.length + 1))
