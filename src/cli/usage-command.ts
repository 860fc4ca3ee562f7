/** `weir usage`: requests, tokens and spend from the ledger, whether or not the gateway runs. */

import type { Config } from '../config/config.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { addUsage, noUsage, type UsageFigures, usageColumns } from '../ledger/usage-figures.ts'
import type { UsageGroup } from '../ledger/usage-log.ts'
import { namedFigures, usageColumn, usageReport } from '../ledger/usage-report.ts'
import { dayOf } from '../ledger/window.ts'
import { withStoredOrganizations } from '../reports/stored-keys.ts'
import { readUsage, type UsageOptions, usageOptions, usageRemarks } from '../reports/usage-options.ts'
import { exit, misused, parseFlags, printToStderr } from './command.ts'
import { configured, unknownTags } from './ledger-access.ts'
import {
  type Column,
  csvLine,
  type Display,
  displayOf,
  type Form,
  fixedDollars,
  formOf,
  TextTable,
} from './text-table.ts'

/** Returns the exit code. */
export async function usage(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'usage')
  const options = usageOptions(flags, Date.now())
  if (typeof options === 'string') return misused(options)
  const config = await configured(flags['config'])
  const groups = await readUsage(config, options)
  for (const remark of usageRemarks(options, dayOf(Date.now()))) printToStderr(remark)
  for (const remark of unknownTags(config, tagsOf(options.by))) printToStderr(remark)
  if (groups.length === 0) {
    const all = await withStoredOrganizations(config)
    for (const remark of remarks(all, options)) printToStderr(remark)
  }
  process.stdout.write(printed(options, formOf(flags), groups, displayOf(flags['wide'] === true)))
  return exit.done
}

/**
 * Warnings about ids that may be misspelled, if there is no usage. Organisations and keys that are no longer in the
 * configuration are valid, too.
 */
function remarks(config: Config, { organization, key }: UsageOptions): readonly string[] {
  const organizations = config.organizations.map(({ id }) => id)
  const keys = config.organizations.flatMap((one) => one.keys.map(({ id }) => id))
  return [
    ...unknown('organisation', organization, organizations),
    ...(didYouMean(key ?? '', keys) === '' ? [] : unknown('key', key, keys)),
  ]
}

function unknown(what: string, id: string | undefined, known: readonly string[]): readonly string[] {
  if (id === undefined || known.includes(id)) return []
  return [`the configuration has no ${what} ${quoted(id)}${didYouMean(id, known)}`]
}

/** The names of the tags among columns. */
function tagsOf(columns: readonly string[]): readonly string[] {
  return columns.flatMap((column) => (column.startsWith('tag:') ? [column.slice('tag:'.length)] : []))
}

function printed(options: UsageOptions, form: Form, groups: readonly UsageGroup[], display: Display): string {
  const by = options.by.flatMap((word) => usageColumn(word) ?? [])
  switch (form) {
    case 'json':
      return `${JSON.stringify(usageReport(options, options.by, groups))}\n`
    case 'csv': {
      const lines = groups.map(({ names, figures }) => [...names, ...Object.values(namedFigures(figures))])
      return [[...by, ...Object.keys(namedFigures(noUsage))], ...lines].map(csvLine).join('')
    }
    case 'table': {
      const total = {
        names: ['total'],
        figures: groups.reduce((sum, { figures }) => addUsage(sum, figures), noUsage),
      }
      const named = by.map((heading, at): Column<UsageGroup> => {
        const unknown = heading.startsWith('tag:') || heading === 'service_tier' ? '' : '(unknown)'
        return { heading, cell: ({ names }) => (names[at] === '' ? unknown : (names[at] ?? '')) }
      })
      return new TextTable([...named, ...FIGURES], display).print([...groups, total])
    }
  }
}

/** The first that a narrow terminal drops comes first. */
const DROPPED: readonly (keyof UsageFigures)[] = ['images', 'estimatedRequests', 'cachedInputTokens']

const FIGURES: readonly Column<UsageGroup>[] = usageColumns.map(({ heading, field, isMoney }) => ({
  heading,
  isNumber: true,
  cell: ({ figures }) => (isMoney ? fixedDollars(figures[field]) : String(figures[field])),
  ...(DROPPED.includes(field) ? { priority: DROPPED.indexOf(field) } : {}),
}))
