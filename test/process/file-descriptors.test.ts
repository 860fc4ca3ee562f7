import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { isCrowded } from '../../src/process/file-descriptors.ts'

const FILE = JSON.stringify(join(import.meta.dir, '../../src/process/file-descriptors.ts'))

test('it is crowded from 80 % of the limit on, also with none left, and it recovers', () => {
  const script = `
    import fs from 'node:fs'
    import { descriptorLimit, isCrowded } from ${FILE}
    const limit = descriptorLimit(), open = [], seen = []
    const fill = (to) => { for (;;) { const fd = fs.openSync('/dev/null'); open.push(fd); if (fd >= to) return } }
    fill(49); seen.push(isCrowded(limit))
    fill(52); seen.push(isCrowded(limit))
    try { fill(1e9) } catch {}
    seen.push(isCrowded(limit))
    // Low numbers that are free again say little about how many are taken.
    for (const fd of open.splice(0, 5)) fs.closeSync(fd)
    seen.push(isCrowded(limit))
    for (const fd of open) fs.closeSync(fd)
    seen.push(isCrowded(limit))
    console.log(JSON.stringify({ limit, seen }))`
  const { stdout, stderr } = Bun.spawnSync(['bash', '-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, script])
  expect(stderr.toString()).toBe('')
  expect(JSON.parse(stdout.toString())).toEqual({ limit: 64, seen: [false, true, true, true, false] })
})

test('without a known limit it is never crowded', () => {
  expect(isCrowded(undefined)).toBe(false)
})
