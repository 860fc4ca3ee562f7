/** With `upstream: fetch` the gateway reacts to providers in the same way: the same tests, in another process. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { VIA_FETCH } from '../support/gateway.ts'

const FILES = ['faults-upstream', 'upstream-errors', 'delayed-headers', 'unsent', 'vanished', 'causes'] as const

// Most of them wait for timeouts, so they run together.
test.skipIf(VIA_FETCH).concurrent.each(FILES)(
  '%s',
  async (name) => {
    const child = Bun.spawn([process.execPath, 'test', join(import.meta.dir, `${name}.test.ts`)], {
      env: { ...process.env, WEIR_TEST_UPSTREAM: 'fetch', NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [code, out, err] = await Promise.all([child.exited, child.stdout.text(), child.stderr.text()])
    if (code !== 0) throw new Error(`the tests of ${name} failed:\n${err}${out}`)
    expect(err).toMatch(/^ *[1-9]\d* pass$/m)
  },
  600_000,
)
