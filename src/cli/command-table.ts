/**
 * The table of the commands: every string that `weir help` and `--help` print, and every flag that a command takes.
 * The parser of the flags, the help, the tests of the documentation, manual pages and shell completion are made from
 * it. It holds no code of a command, and loads none.
 */

import type { CommandEntry } from './command-entry.ts'
import { FILE_ENTRIES } from './file-entries.ts'
import { GATEWAY_ENTRIES } from './gateway-entries.ts'
import { INFORMATION_ENTRIES } from './information-entries.ts'
import { KEY_ENTRIES } from './key-entries.ts'
import { ORGANIZATION_ENTRIES } from './organization-entries.ts'
import { REPORT_ENTRIES } from './report-entries.ts'

/** In the order of the help. An entry of a group follows its group. */
export const COMMANDS: readonly CommandEntry[] = [
  ...GATEWAY_ENTRIES,
  ...KEY_ENTRIES,
  ...ORGANIZATION_ENTRIES,
  ...REPORT_ENTRIES,
  ...FILE_ENTRIES,
  ...INFORMATION_ENTRIES,
]

/** The entry of a command that the code names. Throws on a name that the table does not have. */
export function commandEntry(name: string): CommandEntry {
  const entry = COMMANDS.find((each) => each.name === name)
  if (entry === undefined) throw new Error(`the table of commands has no ${name}`)
  return entry
}

/** The commands of a group: `keys` has `create`, `list` and `revoke`. Empty for other commands. */
export function actionsOf(group: string): readonly string[] {
  return COMMANDS.flatMap(({ name }) => (name.startsWith(`${group} `) ? [name.slice(group.length + 1)] : []))
}
