/**
 * Whether this process may use `data_dir`. SQLite and the journal name only the file that they cannot open; the usual
 * causes are a command that ran as another user and a folder that does not belong to the user of the service.
 */

import { accessSync, constants, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { messageOf } from '../core/error-message.ts'
import { hasCode } from '../core/system-error.ts'
import { makePrivateFolder } from '../sqlite/private-files.ts'

const { R_OK, W_OK, X_OK } = constants

/** For a gateway, which creates the folder. Returns one line for the operator, or undefined if there is no problem. */
export function servingProblem(dataDir: string): string | undefined {
  try {
    makePrivateFolder(dataDir)
  } catch (error) {
    return `data_dir: ${resolve(dataDir)} cannot be created: ${reasonOf(error)}`
  }
  return accessProblem(dataDir) ?? sharedProblem(dataDir)
}

/** The rights of the group and of all others to write. */
const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002

/**
 * For a gateway and `weir check`: another user who may write to the folder can put a journal, keys or a compaction key
 * into it. A folder of root to which this process may write only by its group is a volume that an orchestrator shares
 * with it (`fsGroup` of Kubernetes), and allowed. Returns one line for the operator.
 */
export function sharedProblem(dataDir: string): string | undefined {
  const folder = resolve(dataDir)
  const found = statSync(folder, { throwIfNoEntry: false })
  if (found?.isDirectory() !== true) return undefined
  const me = process.geteuid?.()
  const isVolume = found.uid === 0 && me !== 0
  const isShared = (found.mode & OTHERS_WRITE) !== 0 || ((found.mode & GROUP_WRITES) !== 0 && !isVolume)
  // As root, weir may use the folder of a service's user.
  const isForeign = me !== 0 && found.uid !== me && found.uid !== 0
  if (!isShared && !isForeign) return undefined
  const mode = `mode ${(found.mode & 0o7777).toString(8).padStart(4, '0')}`
  const why = isShared
    ? `may be written to by other users (${mode})`
    : `belongs to user ${userName(found.uid)} (${mode})`
  const fix = isShared ? 'after a look at what is in it, run: chmod go-w' : `run: chown ${userName(me ?? -1)}:`
  return `data_dir: ${folder} ${why}, who could replace the ledger, keys and the compaction key; ${fix} ${folder}`
}

/** As `servingProblem`, for a command: a folder that does not exist is none of its problems. */
export function accessProblem(dataDir: string): string | undefined {
  const folder = resolve(dataDir)
  try {
    const found = statSync(folder, { throwIfNoEntry: false })
    if (found === undefined) return undefined
    if (!found.isDirectory()) return `data_dir: ${folder} is not a directory; name another one`
    const denied = [folder, ...filesOf(folder)].find((path) => !isAllowed(path, path === folder))
    return denied && deniedLine(denied)
  } catch {
    // A folder above it is closed to this user, or it cannot be listed.
    return deniedLine(folder)
  }
}

/** Every file of weir: sockets and what others put there do not matter. */
function filesOf(folder: string): readonly string[] {
  const names = readdirSync(folder).filter((name) => /\.(sqlite|journal|lock|key)$/.test(name))
  return names.map((name) => join(folder, name))
}

function isAllowed(path: string, isFolder: boolean): boolean {
  try {
    accessSync(path, isFolder ? R_OK | W_OK | X_OK : R_OK | W_OK)
    return true
  } catch (error) {
    // Removed since it was listed.
    return hasCode(error, 'ENOENT')
  }
}

function deniedLine(path: string): string {
  const me = userName(process.geteuid?.() ?? -1)
  const owner = ownerOf(path)
  if (owner === undefined || owner === me)
    return `data_dir: ${path} cannot be read and written by this process, which runs as user ${me}`
  return (
    `data_dir: ${path} belongs to user ${owner}, and this process runs as user ${me}; ` +
    `run weir as ${owner}, or run: chown -R ${me}: ${path}`
  )
}

/** Undefined if a folder above it is closed to this user. */
function ownerOf(path: string): string | undefined {
  try {
    return userName(statSync(path).uid)
  } catch {
    return undefined
  }
}

/** The name in /etc/passwd, or the number. */
function userName(uid: number): string {
  return accountRows('/etc/passwd').find(([, , id]) => id === String(uid))?.[0] ?? String(uid)
}

/** The fields of each line. The runtime's own `userInfo` believes the environment. */
export function accountRows(path: '/etc/passwd' | '/etc/group'): readonly (readonly string[])[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
  } catch {
    // A container may have none.
    return []
  }
}

function reasonOf(error: unknown): string {
  if (hasCode(error, 'EACCES')) return `user ${userName(process.geteuid?.() ?? -1)} may not write to a folder above it`
  if (hasCode(error, 'EROFS')) return 'the file system is read-only'
  if (hasCode(error, 'EEXIST') || hasCode(error, 'ENOTDIR')) return 'it, or a folder above it, is a file'
  return messageOf(error)
}
