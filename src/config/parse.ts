/** The text of a configuration → `Config`, or all problems at once. No problem shows the value of a reference. */

import { Value } from '@sinclair/typebox/value'
import { build } from './build.ts'
import type { Check } from './check-context.ts'
import { checkModels } from './check-models.ts'
import { checkOrganizations } from './check-organizations.ts'
import { checkProcess } from './check-process.ts'
import { checkProviders } from './check-providers.ts'
import type { Config } from './config.ts'
import { readDocument, type Sources } from './document.ts'
import { Problems, pathText, quoted } from './problems.ts'
import { checkShape, withDefaults } from './schema-errors.ts'
import { type CompletedFile, type File, schema } from './schema-file.ts'

/** Each problem is one line: `path: what is wrong; what to do`. */
export type LoadResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problems: readonly string[] }

export interface ParseOptions extends Sources {
  /** The number that `workers: auto` means. */
  readonly cores: number
}

/** Never throws because of the text. */
export function parseConfig(text: string, options: ParseOptions): LoadResult {
  const problems = new Problems()
  const read = readDocument(text, options, problems)
  if (read === undefined) return { ok: false, problems: problems.lines }
  const { file, completed, data } = checkShape(read, problems)
  const check: Check = {
    file,
    completed,
    problems,
    cores: options.cores,
    // A value that came from a reference may be a secret: the reference is shown instead.
    shown: (path, word) => quoted(read.written.get(pathText(path)) ?? word),
  }
  checkProcess(check)
  checkProviders(check)
  checkModels(check)
  checkOrganizations(check)
  if (!problems.isEmpty || !Value.Check(schema, data)) return { ok: false, problems: problems.lines }
  return { ok: true, config: build(complete(data), options) }
}

/** Fills in the defaults. TypeBox does not type what it fills in; `CompletedFile` is derived from the same schema. */
function complete(file: File): CompletedFile {
  return withDefaults(file) as CompletedFile
}
