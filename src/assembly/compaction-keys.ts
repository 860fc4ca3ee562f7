/** The keys that seal compacted conversations: the configuration's, or one of this machine's own, made once and kept in `data_dir`. */

import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { keepPrivate, makePrivateFolder } from '../sqlite/private-files.ts'

const FILE = 'compaction.key'
const KEY_BYTES = 32

/** Base64, 32 bytes each; the first seals. Throws where the file can be neither read nor made. */
export function compactionKeys(config: Pick<Config, 'compaction' | 'dataDir'>): readonly string[] {
  return config.compaction.keys ?? [ownKey(config.dataDir)]
}

function ownKey(dataDir: string): string {
  const file = join(dataDir, FILE)
  makePrivateFolder(dataDir)
  keepPrivate(file)
  return readKey(file) ?? makeKey(file)
}

/** Written whole under another name and then linked, so that of several processes one makes it and all read the same. */
function makeKey(file: string): string {
  const draft = `${file}.${process.pid}`
  const key64 = Buffer.from(crypto.getRandomValues(new Uint8Array(KEY_BYTES))).toString('base64')
  writeFileSync(draft, `${key64}\n`, { mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(draft)
  }
  const key = readKey(file)
  if (key === undefined) throw new Error(`cannot read ${file}, which was just made`)
  return key
}

function readKey(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
