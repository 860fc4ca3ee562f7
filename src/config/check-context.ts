/** What the checks beyond the schema share. */

import type { Path, Problems } from './problems.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'

/** What every check sees: what is sound of the file, where problems go, and a word of it as it may be shown. */
export interface Check {
  readonly file: Loose<File>
  /** The same with defaults. */
  readonly completed: Loose<File>
  readonly problems: Problems
  /** The word in quotes; where a reference stood in the file, the reference, because it may have named a secret. */
  shown(path: Path, word: string): string
  /** What `workers: auto` means on this machine. */
  readonly cores: number
}
