/** The form of an entry in the table of commands, and the flags that many commands share. */

import type { Parameter } from '../reports/parameters.ts'

export type Flag = Parameter

/** A command line without the `$`, and what it does. */
interface Example {
  readonly run: string
  readonly about: string
}

export interface CommandEntry {
  /** One word, or two for a command of a group: `usage`, `keys create`. A group (`keys`) has an entry, too. */
  readonly name: string
  /** The rest of a sentence that begins with the command; no full stop. */
  readonly about: string
  /** The argument that is not a flag, if the command takes one. It is required, except for `help`. */
  readonly argument?: { readonly name: string; readonly about: string; readonly isOptional?: boolean }
  /** Paragraphs, not wrapped. */
  readonly description: readonly string[]
  /** All flags but `--help`. */
  readonly flags: readonly Flag[]
  /** Paragraphs that follow the flags, not wrapped. */
  readonly notes?: readonly string[]
  readonly examples: readonly [Example, Example, ...Example[]]
  /** When the exit code is 1; absent if that never happens. 0 is success, 2 wrong usage. */
  readonly failure?: string
}

export const CONFIG: Flag = {
  name: 'config',
  value: 'FILE',
  about: 'configuration file (default: ./weir.yaml, then /etc/weir/weir.yaml)',
}

export const JSON_FLAG = (about: string): Flag => ({ name: 'json', about })

export const WIDE: Flag = { name: 'wide', about: 'show all columns, also those that do not fit the terminal' }

/** When most commands that only read exit with 1. */
export const UNREADABLE = 'the configuration or the ledger cannot be read'
