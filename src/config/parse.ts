/**
 * The text of a configuration → data → shape → references → `Config`, with all problems at once. It never shows a
 * value that a reference stood for.
 */

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

/** Each problem is one line: `path: what is wrong and what to do`. */
export type LoadResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problems: readonly string[] }

export interface ParseOptions extends Sources {
  /** What `workers: auto` means. */
  readonly cores: number
}

/** Never throws for what stands in a text. */
export function parseConfig(text: string, options: ParseOptions): LoadResult {
  const problems = new Problems()
  const read = readDocument(text, options, problems)
  if (read === undefined) return { ok: false, problems: problems.lines }
  const { file, completed, whole } = checkShape(read, problems)
  const check: Check = {
    file,
    completed,
    problems,
    cores: options.cores,
    shown: (path, word) => quoted(read.written.get(pathText(path)) ?? word),
  }
  checkProcess(check)
  checkProviders(check)
  checkModels(check)
  checkOrganizations(check)
  if (!problems.isEmpty || !Value.Check(schema, whole)) return { ok: false, problems: problems.lines }
  return { ok: true, config: build(complete(whole), options) }
}

/**
 * The file with its defaults. TypeBox does not know the type of what it fills in; `Completed` derives it from the
 * same schema.
 */
function complete(file: File): CompletedFile {
  return withDefaults(file) as CompletedFile
}
