/** The text of a configuration → `Config`, or all problems at once. No problem shows the value of a reference. */

import { Value } from '@sinclair/typebox/value'
import { isObject } from '../core/json.ts'
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

/**
 * The `data_dir` of a file that may have problems elsewhere: commands that ask the running gateway need nothing else,
 * and may run without the secrets that the gateway has in its environment.
 */
export function dataDirOf(text: string, sources: Sources): { readonly dataDir: string } | { readonly problem: string } {
  const problems = new Problems()
  const read = readDocument(text, sources, problems)
  if (read === undefined) return { problem: problems.lines[0] ?? '' }
  const dataDir = isObject(read.value) ? read.value['data_dir'] : undefined
  const own = problems.lines.find((line) => line.startsWith('data_dir:'))
  if (own !== undefined) return { problem: own }
  return { dataDir: typeof dataDir === 'string' && dataDir !== '' ? dataDir : schema.properties.data_dir.default }
}

/** Fills in the defaults. TypeBox does not type what it fills in; `CompletedFile` is derived from the same schema. */
function complete(file: File): CompletedFile {
  return withDefaults(file) as CompletedFile
}
