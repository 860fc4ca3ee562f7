/** Directories for the tests of one file. */

import { afterEach } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A function that makes a new directory, which is removed after the test. Call it once, at the top of a test file. */
export function directories(): () => string {
  const made: string[] = []
  afterEach(() => {
    for (const one of made.splice(0)) rmSync(one, { recursive: true, force: true })
  })
  return () => {
    const directory = mkdtempSync(join(tmpdir(), 'weir-test-'))
    made.push(directory)
    return directory
  }
}
