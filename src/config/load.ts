/**
 * Reads the configuration file and the files that it refers to. It is the only place that reads the environment. The
 * code that checks a configuration takes 40 ms to load, so it is loaded on first use: `weir serve` has started its
 * first worker by then.
 */

import { closeSync, constants, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, resolve } from 'node:path'
import { decodedUtf8 } from '../core/bytes.ts'
import type { Config } from './config.ts'
import type { Sources } from './config-references.ts'
import type { Problem } from './problems.ts'

/** Problems and warnings are one line each: `weir.yaml:12: models[2].name: what is wrong; what to do`. */
export type LoadResult =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly string[] }
  | { readonly ok: false; readonly problems: readonly string[]; readonly warnings: readonly string[] }

interface LoadOptions {
  /** Since when keys are revoked by command, by id, for warnings. */
  readonly revoked?: ReadonlyMap<string, number> | undefined
  /** References in values without use that cannot be resolved are no problem. Absent: every value is used. */
  readonly use?: 'ledger' | undefined
}

/** Room for thousands of models and keys; a larger file was named by mistake. */
const FILE_BYTES_MAX = 8 * 1024 * 1024
/** Secrets are short. */
const REFERENCE_BYTES_MAX = 64 * 1024

/**
 * Reads and checks the file and fills in defaults. A relative `${file:PATH}` is relative to the file. Never throws
 * because of the content of a file.
 */
export async function loadConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  options: LoadOptions = {},
): Promise<LoadResult> {
  const read = readText(file, FILE_BYTES_MAX)
  if ('error' in read) {
    const advice = read.missing ? '; write one as weir.example.yaml shows, or name another with --config FILE' : ''
    const line = read.line === undefined ? '' : `:${read.line}`
    return { ok: false, problems: [`${file}${line}: ${read.error}${advice}`], warnings: [] }
  }
  return await loadConfigText(read.text, file, env, options)
}

/** The same for a text that the file is to have. */
export async function loadConfigText(
  text: string,
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { revoked, use }: LoadOptions = {},
): Promise<LoadResult> {
  const { parseConfig } = await import('./parse.ts')
  const { problemLine } = await import('./problems.ts')
  const parsed = parseConfig(text, {
    env,
    readFile: referencedFrom(file),
    cores: availableParallelism(),
    revoked,
    use,
  })
  const lines = (problems: readonly Problem[], label = '') =>
    problems
      .toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0))
      .map((problem) => problemLine(file, problem, label))
  const warnings = lines(parsed.warnings, 'warning: ')
  return parsed.ok ? { ...parsed, warnings } : { ok: false, problems: lines(parsed.problems), warnings }
}

/** The text of a configuration of whatever program, or why it cannot be read. */
export function readConfigText(file: string): { readonly text: string } | { readonly error: string } {
  return readText(file, FILE_BYTES_MAX)
}

/** The `data_dir` of a file that may have mistakes, and the first of those that are in the way of it. */
export async function loadDataDir(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly dataDir?: string | undefined; readonly problem?: string | undefined }> {
  const read = readText(file, FILE_BYTES_MAX)
  if ('error' in read) return { problem: `${file}: ${read.error}` }
  const { partialDataDir } = await import('./partial.ts')
  const { problemLine } = await import('./problems.ts')
  const { dataDir, problem } = partialDataDir(read.text, { env, readFile: referencedFrom(file) })
  return { dataDir, problem: problem === undefined ? undefined : problemLine(file, problem) }
}

/** What can be read of a file with mistakes; undefined if `ledger` or `data_dir` cannot be read for certain. */
export async function loadPartialConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Config | undefined> {
  const read = readText(file, FILE_BYTES_MAX)
  if ('error' in read) return undefined
  const { partialConfig } = await import('./partial.ts')
  const found = partialConfig(read.text, { env, readFile: referencedFrom(file), use: 'ledger' })
  return 'config' in found ? found.config : undefined
}

/**
 * The file that a command reads: the value of `--config`, else `weir.yaml` in the working directory, else the one of
 * the system. The file need not exist.
 */
export async function configFile(flag: string | undefined): Promise<string> {
  if (flag !== undefined) return flag
  const system = '/etc/weir/weir.yaml'
  return existsSync('weir.yaml') || !existsSync(system) ? 'weir.yaml' : system
}

/** The environment of this process. */
export function environment(): Record<string, string | undefined> {
  return { ...process.env }
}

/** Reads what references of a file name. A relative path is relative to the file. */
function referencedFrom(file: string): Sources['readFile'] {
  return (path) => referenced(resolve(dirname(file), path))
}

/**
 * The content of a file that a reference names. A pipe without a writer would block the whole process, and a reload
 * would find the pipe empty, so pipes are rejected.
 */
function referenced(path: string): ReturnType<Sources['readFile']> {
  const read = readText(path, REFERENCE_BYTES_MAX, constants.O_RDONLY | constants.O_NONBLOCK)
  return 'error' in read ? { error: read.error } : { text: read.text.replace(/\r?\n$/, '') }
}

interface Unreadable {
  readonly error: string
  readonly missing: boolean
  /** Where the problem is, from 1, if it has a place. */
  readonly line?: number
}

type ReadText = { readonly text: string } | Unreadable

/**
 * Reads a whole file of UTF-8, or returns why it cannot. It reads at most `bytesMax` bytes, so a device or an endless
 * file does not block it.
 */
function readText(path: string, bytesMax: number, flags: number = constants.O_RDONLY): ReadText {
  try {
    const bytes = readBytes(path, bytesMax + 1, flags)
    if (bytes === undefined) return { error: 'is a pipe or a socket; name a regular file', missing: false }
    if (bytes.length > bytesMax) return { error: `is larger than ${bytesMax} bytes`, missing: false }
    const text = decodedUtf8(bytes)
    return text === undefined ? notUtf8(bytes) : { text }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error'
    const missing = code === 'ENOENT'
    return { error: missing ? 'there is no such file' : `cannot be read: ${UNREADABLE[code] ?? code}`, missing }
  }
}

const UNREADABLE: Readonly<Record<string, string>> = {
  EACCES: 'this user may not; run weir as a user who may, or change the rights of the file',
  EISDIR: 'it is a directory',
  ENOTDIR: 'a part of its path is not a directory',
}

/** A line break is never a part of another character, so each line can be decoded on its own. */
function notUtf8(bytes: Uint8Array): Unreadable {
  let line = 1
  for (let from = 0; from < bytes.length; line++) {
    const end = bytes.indexOf(0x0a, from)
    const to = end === -1 ? bytes.length : end
    if (decodedUtf8(bytes.subarray(from, to)) === undefined) break
    from = to + 1
  }
  return { error: 'is not UTF-8; save the file in that encoding', missing: false, line }
}

/**
 * Undefined if the flags have `O_NONBLOCK` and the file is a pipe or a socket. Without that flag, a pipe is read to its
 * end, however long that takes: `weir check --config /dev/stdin`.
 */
function readBytes(path: string, bytesMax: number, flags: number): Uint8Array | undefined {
  const descriptor = openSync(path, flags)
  try {
    const stat = fstatSync(descriptor)
    if ((flags & constants.O_NONBLOCK) !== 0 && (stat.isFIFO() || stat.isSocket())) return undefined
    const chunks: Uint8Array[] = []
    let total = 0
    while (total < bytesMax) {
      const chunk = new Uint8Array(Math.min(65_536, bytesMax - total))
      const count = readSync(descriptor, chunk)
      if (count === 0) break
      chunks.push(chunk.subarray(0, count))
      total += count
    }
    return Buffer.concat(chunks)
  } finally {
    closeSync(descriptor)
  }
}
