/**
 * Whether the program file may be run again: SIGUSR2 runs it as it now is, and another user who may write to it would
 * run a program of his own as the user of weir.
 */

import { realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { accountRows } from '../../assembly/data-dir.ts'
import { messageOf } from '../../core/error-message.ts'
import { hasCode } from '../../core/system-error.ts'
import { workerCommand } from './worker-command.ts'

const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002
const STICKY = 0o1000

/** The reason why the program is not run, for the operator; undefined if only root and this user may write it. */
export function programProblem(command: readonly string[] = workerCommand()): string | undefined {
  const [runtime = '', ...words] = command
  // From a checkout, the script follows the flags of Bun.
  const files = [runtime, ...words.filter((word) => word.startsWith('/'))]
  return files.map(fileProblem).find((problem) => problem !== undefined)
}

function fileProblem(path: string): string | undefined {
  try {
    const file = realpathSync(path)
    const writer = writerOf(file, false) ?? writerOf(dirname(file), true)
    return writer && `${writer}, so ${file} is not run; run: chown root and chmod go-w, or restart weir yourself`
  } catch (error) {
    // The attempt to run it reports that.
    if (hasCode(error, 'ENOENT')) return undefined
    return `${path} cannot be read: ${messageOf(error)}`
  }
}

/** In a folder with the sticky bit, others can add files and cannot replace this one. */
function writerOf(path: string, isFolder: boolean): string | undefined {
  const { uid, gid, mode } = statSync(path)
  if (!isTrusted(uid)) return `${path} belongs to another user (uid ${uid})`
  if (isFolder && (mode & STICKY) !== 0) return undefined
  const shown = `mode ${(mode & 0o7777).toString(8).padStart(4, '0')}`
  if ((mode & OTHERS_WRITE) !== 0) return `other users may write to ${path} (${shown})`
  if ((mode & GROUP_WRITES) === 0 || !hasOthers(gid)) return undefined
  return `its group may write to ${path} (${shown})`
}

function isTrusted(uid: number): boolean {
  return uid === 0 || uid === process.geteuid?.()
}

/** Whether a group has members besides root and this user. One that `/etc/group` does not list may have any. */
function hasOthers(gid: number): boolean {
  const users = accountRows('/etc/passwd').map(([name = '', , uid = '', group]) => ({ name, uid: Number(uid), group }))
  const row = accountRows('/etc/group').find(([, , id]) => id === String(gid))
  if (row === undefined) return true
  const listed = (row[3] ?? '').split(',').filter((name) => name !== '')
  const uids = [
    ...listed.map((name) => users.find((user) => user.name === name)?.uid ?? -1),
    ...users.filter(({ group }) => group === String(gid)).map(({ uid }) => uid),
  ]
  return uids.some((uid) => !isTrusted(uid))
}
