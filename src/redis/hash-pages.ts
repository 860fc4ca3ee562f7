/** Reads a hash of any size a page at a time: Redis serves others in between. */

import type { RedisClient } from './connect.ts'

const FIELDS_A_PAGE = 500

/** The fields of a hash that match a glob, with their values. One may come twice; the later value is as new. */
export async function* hashPages(
  client: RedisClient,
  hash: string,
  glob = '*',
): AsyncGenerator<readonly (readonly [field: string, value: string])[]> {
  let cursor = '0'
  do {
    const [next, words] = await client.hscan(hash, cursor, 'MATCH', glob, 'COUNT', FIELDS_A_PAGE)
    cursor = next
    yield Array.from({ length: words.length / 2 }, (_, i) => [words[2 * i] ?? '', words[2 * i + 1] ?? ''] as const)
  } while (cursor !== '0')
}

/** The same, all at once. */
export async function readHash(client: RedisClient, hash: string, glob?: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for await (const page of hashPages(client, hash, glob)) for (const [field, value] of page) found.set(field, value)
  return found
}
