/** The text of a configuration → `Config`, or all problems at once. No problem shows a secret. */

import { build } from './build.ts'
import { checkAlerts } from './check-alerts.ts'
import type { Check } from './check-context.ts'
import { checkDoubtful } from './check-doubtful.ts'
import { checkModels } from './check-models.ts'
import { checkOrganizations } from './check-organizations.ts'
import { checkProcess } from './check-process.ts'
import { checkProviders } from './check-providers.ts'
import { checkTagList } from './check-tags.ts'
import { checkTracing } from './check-tracing.ts'
import type { Config } from './config.ts'
import type { Sources } from './config-references.ts'
import { readDocument } from './document.ts'
import { locatorOf } from './found-values.ts'
import { otherGateway } from './other-gateways.ts'
import { NOWHERE, type Problem, Problems, pathText, quoted } from './problems.ts'
import { checkShape } from './schema-errors.ts'
import type { CompletedFile } from './schema-file.ts'

export type ParseResult =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] }

export interface ParseOptions extends Sources {
  /** The number that `workers: auto` means. */
  readonly cores: number
  /** For warnings about keys that have expired; the clock if absent. */
  readonly nowMs?: number
  /** For warnings: since when keys of the configuration are revoked by command, in Unix milliseconds by id. */
  readonly revoked?: ReadonlyMap<string, number> | undefined
}

/** Never throws because of the text. */
export function parseConfig(text: string, options: ParseOptions): ParseResult {
  const problems = new Problems()
  const read = readDocument(text, options, problems)
  if (read === undefined) return { ok: false, problems: problems.list(NOWHERE), warnings: [] }
  const locator = locatorOf(read)
  const foreign = otherGateway(read.value)
  if (foreign !== undefined) {
    problems.add([foreign.key], foreign.message)
    return { ok: false, problems: problems.list(locator), warnings: [] }
  }
  const { file, completed, isWhole } = checkShape(read, problems)
  const check: Check = {
    file,
    completed,
    problems,
    cores: options.cores,
    env: options.env,
    // A value that came from a reference may be a secret: the reference is shown instead.
    shown: (path, word) => quoted(read.written.get(pathText(path)) ?? word),
  }
  checkProcess(check)
  checkProviders(check)
  checkTracing(check)
  checkAlerts(check)
  checkModels(check)
  checkTagList(check)
  checkOrganizations(check)
  checkDoubtful(check, options.nowMs ?? Date.now(), options.revoked ?? new Map())
  const warnings = problems.warningList(locator)
  if (!problems.isEmpty || !isWhole) return { ok: false, problems: problems.list(locator), warnings }
  // What is filled in has no type; `CompletedFile` is derived from the same schema.
  return { ok: true, config: build(completed as CompletedFile, options), warnings }
}
