/**
 * Where commands find the running gateway of a configuration file whose `data_dir` cannot be read: a symbolic link to
 * the gateway's `data_dir`, in a folder for running programs, named after the path of the file.
 */

import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { CONTROL_SOCKET } from './control-socket.ts'

/** Every right to write but the owner's. */
const WRITABLE_BY_OTHERS = 0o022

/** The folders in which a gateway of this user may have left its link. systemd makes `/run/weir` for a service. */
function folders(): readonly string[] {
  const uid = process.geteuid?.() ?? 0
  return ['/run/weir', ...(uid === 0 ? [] : [`/run/user/${uid}/weir`]), join(tmpdir(), `weir-${uid}`)]
}

function nameOf(file: string): string {
  return createHash('sha256').update(resolve(file)).digest('hex').slice(0, 32)
}

/**
 * Links the file to `dataDir` until the result is called. Without a folder for it nothing happens: commands then need a
 * file from which `data_dir` can be read.
 */
export function pointToDataDir(file: string, dataDir: string): () => void {
  for (const folder of folders()) {
    const link = join(folder, nameOf(file))
    try {
      mkdirSync(folder, { mode: 0o700, recursive: false })
    } catch {
      // It exists, or the folder above it does not.
    }
    if (ownerOf(folder) !== process.geteuid?.()) continue
    try {
      removeDeadLinks(folder)
      const fresh = `${link}.${process.pid}`
      symlinkSync(resolve(dataDir), fresh)
      renameSync(fresh, link)
      return () => remove(link, resolve(dataDir))
    } catch {
      // Not writable, or full.
    }
  }
  return () => {}
}

/** The `data_dir` of the gateway that last started with this file, if it may still run. */
export function pointedDataDir(file: string): string | undefined {
  for (const folder of folders()) {
    if (!isTrusted(folder)) continue
    const dataDir = targetOf(join(folder, nameOf(file)))
    if (dataDir !== undefined && existsSync(join(dataDir, CONTROL_SOCKET))) return dataDir
  }
  return undefined
}

/** Another user could lead a command of root to a `data_dir` of its own. Only root makes folders in `/run`. */
function isTrusted(folder: string): boolean {
  const owner = ownerOf(folder)
  return owner !== undefined && (owner === 0 || owner === process.geteuid?.() || folder === '/run/weir')
}

/** Undefined if it is no folder, or if others than its owner may write to it. */
function ownerOf(folder: string): number | undefined {
  const stat = lstatSync(folder, { throwIfNoEntry: false })
  return stat?.isDirectory() === true && (stat.mode & WRITABLE_BY_OTHERS) === 0 ? stat.uid : undefined
}

/** Of gateways that were killed. */
function removeDeadLinks(folder: string): void {
  for (const name of readdirSync(folder)) {
    const target = targetOf(join(folder, name))
    if (target !== undefined && !existsSync(join(target, CONTROL_SOCKET))) unlinkSync(join(folder, name))
  }
}

/** Another gateway may have taken the link meanwhile. */
function remove(link: string, dataDir: string): void {
  try {
    if (targetOf(link) === dataDir) unlinkSync(link)
  } catch {
    // The next start removes it.
  }
}

function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch {
    return undefined
  }
}
