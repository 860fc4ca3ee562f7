/** What the checks beyond the schema share: the file, the problems, and how to show a word of the file. */

import type { Path, Problems } from './problems.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'

export interface Check {
  /** The part of the file that matches the schema. */
  readonly file: Loose<File>
  /** The same with defaults. */
  readonly completed: Loose<File>
  readonly problems: Problems
  /** The word in quotes, or the reference that it came from, because that may have named a secret. */
  shown(path: Path, word: string): string
  /** The environment, for settings that it may have instead of the file. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** The number that `workers: auto` means on this machine. */
  readonly cores: number
}
