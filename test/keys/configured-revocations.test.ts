/** Which revocations of keys of the configuration are deleted. */

import { expect, test } from 'bun:test'
import { ConfiguredRevocations } from '../../src/keys/configured-revocations.ts'
import { revocationOf } from '../../src/keys/key-record.ts'
import type { KeyBackend, Replacement } from '../../src/keys/key-store.ts'
import { KeyTable } from '../../src/keys/key-table.ts'

/** What is deleted of a revocation that a configuration released, if the store has one that was made at `storedMs`. */
async function deleted(storedMs: number): Promise<readonly Replacement[]> {
  const known = revocationOf('acme', 'ci', 1000)
  const table = new KeyTable()
  table.put(known)
  const replaced: Replacement[] = []
  const backend: Pick<KeyBackend, 'texts' | 'replace'> = {
    texts: async () => [JSON.stringify(revocationOf('acme', 'ci', storedMs))],
    replace: async (replacements) => {
      replaced.push(...replacements)
      return replacements.map(({ id }) => id)
    },
  }
  let isEnabled = false
  const configured = { ids: () => ['ci'], has: () => isEnabled }
  const revocations = new ConfiguredRevocations(backend, table, { configured })
  revocations.configurationChanged()
  isEnabled = true
  revocations.lookAgain()
  await revocations.removeReleased()
  expect(table.revocation('ci') === undefined).toBe(replaced.length > 0)
  return replaced
}

test('a revocation whose key the configuration disabled is deleted', async () => {
  expect(await deleted(1000)).toMatchObject([{ after: undefined }])
})

test('a later revocation of the same key, which this process has not read yet, is not', async () => {
  expect(await deleted(2000)).toEqual([])
})
