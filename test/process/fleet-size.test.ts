/** How many nodes a node takes there to be while it cannot ask. */

import { expect, test } from 'bun:test'
import fs from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FleetSize } from '../../src/process/fleet/fleet-size.ts'

const HOUR_MS = 3_600_000

test('the most nodes of the last hour count, also after a restart, and for a day', async () => {
  const folder = await fs.mkdtemp(join(tmpdir(), 'weir-fleet-'))
  try {
    let nowMs = 1_800_000_000_000
    const open = () => new FleetSize(folder, () => nowMs)
    const size = open()
    expect(size.nodes).toBeUndefined()
    for (const nodes of [1, 10]) size.saw(nodes)
    // Others lose Redis first.
    for (const nodes of [6, 1]) size.saw(nodes)
    expect([size.nodes, open().nodes]).toEqual([10, 10])
    nowMs += HOUR_MS
    size.saw(3)
    expect([size.nodes, open().nodes]).toEqual([3, 3])
    nowMs += 23 * HOUR_MS
    size.saw(3)
    nowMs += 23 * HOUR_MS
    expect(open().nodes).toBe(3)
    nowMs += 2 * HOUR_MS
    expect(open().nodes).toBeUndefined()
    await fs.writeFile(join(folder, 'fleet.json'), '{"nodes":')
    expect(open().nodes).toBeUndefined()
  } finally {
    await fs.rm(folder, { recursive: true })
  }
})
