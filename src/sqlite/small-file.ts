/** Small files of `data_dir` that weir can do without: what is lost with one is learned again. */

import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { type JsonObject, parseObject } from '../core/json.ts'
import { FILE_MODE, keepPrivate } from './private-files.ts'

/** Empty if there is no such file, or none that can be read. From then on only weir's own user may read it. */
export function readSmallFile(path: string): JsonObject {
  try {
    keepPrivate(path)
    return parseObject(readFileSync(path, 'utf8')) ?? {}
  } catch (error) {
    if (error instanceof Error && 'code' in error) return {}
    throw error
  }
}

/** A reader never sees half of it. A full disk loses nothing but this: it has an alert of its own. */
export function writeSmallFile(path: string, text: string): void {
  try {
    writeFileSync(`${path}.new`, `${text}\n`, { mode: FILE_MODE })
    renameSync(`${path}.new`, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error
  }
}
