/**
 * The keys that encrypt compacted conversations: those of the configuration, or one that this machine creates once in
 * `data_dir`.
 */

import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { hasCode } from '../core/system-error.ts'
import { keepPrivate, makePrivateFolder } from '../sqlite/private-files.ts'

export const COMPACTION_KEY_FILE = 'compaction.key'
const KEY_BYTES = 32

/** Base64, 32 bytes each; the first encrypts, all decrypt. Throws if the file can be neither read nor created. */
export function compactionKeys(config: Pick<Config, 'compaction' | 'dataDir'>): readonly string[] {
  return config.compaction.keys ?? [ownKey(config.dataDir)]
}

function ownKey(dataDir: string): string {
  const file = join(dataDir, COMPACTION_KEY_FILE)
  makePrivateFolder(dataDir)
  keepPrivate(file)
  return readKey(file) ?? makeKey(file)
}

/**
 * Writes the whole key under another name and then links it, so that one of several processes creates it and all read
 * the same.
 */
function makeKey(file: string): string {
  const draft = `${file}.${process.pid}`
  const key64 = Buffer.from(crypto.getRandomValues(new Uint8Array(KEY_BYTES))).toString('base64')
  writeFileSync(draft, `${key64}\n`, { mode: 0o600 })
  keepPrivate(draft)
  try {
    linkSync(draft, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(draft)
  }
  const key = readKey(file)
  if (key === undefined) throw new Error(`cannot read ${file}, which was just created`)
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
