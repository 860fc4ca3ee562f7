/**
 * Writes what the package takes from the tables of weir: `bun scripts/manual-pages.ts FOLDER VERSION` makes the manual
 * pages weir(1), from the table of commands, and weir.yaml(5), from the page about the configuration, and bash's
 * completion.
 */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { COMMANDS, type CommandEntry } from '../src/cli/command-table.ts'
import { flagForm } from '../src/cli/help-text.ts'
import type { Parameter } from '../src/reports/parameters.ts'
import { bashCompletion } from './bash-completion.ts'
import { configurationPage } from './configuration-page.ts'

const HELP: Parameter = { name: 'help', about: 'show the help of the command' }

/** weir(1). */
export function commandManual(version = ''): string {
  return page('weir', 1, version, [
    '.SH NAME',
    'weir \\- gateway for hosted inference',
    '.SH SYNOPSIS',
    '.B weir',
    '.I COMMAND',
    '.RI [ FLAGS ]',
    '.SH DESCRIPTION',
    text('weir is a gateway for hosted inference: it keeps the credentials of providers, routes requests, and holds '),
    text('budgets and rate limits. Its configuration is described in'),
    '.BR weir.yaml (5).',
    '.SH COMMANDS',
    ...COMMANDS.flatMap(commandSection),
    '.SH EXIT STATUS',
    ...item('0', 'done'),
    ...item(
      '1',
      'the configuration, the ledger or the request is wrong; one line on standard error names what and why',
    ),
    ...item('2', 'wrong usage'),
    '.SH FILES',
    ...item('./weir.yaml, /etc/weir/weir.yaml', 'the configuration, unless --config names another file'),
    ...item('/var/lib/weir', 'the ledger or the outbox, with the data_dir of the package'),
    '.SH SEE ALSO',
    '.BR weir.yaml (5)',
  ])
}

function commandSection({ name, argument, description, flags, notes, examples }: CommandEntry): readonly string[] {
  const word = argument === undefined ? [] : [argument.isOptional === true ? `[${argument.name}]` : argument.name]
  return [
    `.SS ${['weir', name, ...word].map(escaped).join(' ')}`,
    ...paragraphs(description),
    ...(argument === undefined ? [] : item(argument.name, argument.about)),
    ...[...flags, HELP].flatMap((flag) => item(flagForm(flag), flag.about)),
    ...paragraphs(notes ?? []),
    '.PP',
    'Examples:',
    ...examples.flatMap(([run, about]) => ['.TP', `.B ${escaped(run)}`, text(about)]),
  ]
}

/** weir.yaml(5): the Markdown of the page as roff. Throws on Markdown that it does not know. */
export function configurationManual(version = ''): string {
  // How the page is made is for developers.
  const [, ...blocks] = configurationPage()
    .replace(/ It is generated from[^`]*`[^`]*`[^`]*`[^`]*`\./, '')
    .split('\n\n')
  return page('weir.yaml', 5, version, [
    '.SH NAME',
    'weir.yaml \\- configuration of weir',
    '.SH DESCRIPTION',
    ...fenced(blocks).flatMap(block),
    '.SH SEE ALSO',
    '.BR weir (1)',
  ])
}

/** Joins the parts of a code block that has empty lines. */
function fenced(blocks: readonly string[]): readonly string[] {
  const joined: string[] = []
  for (const one of blocks) {
    const last = joined.at(-1)
    if (last?.startsWith('```') && !last.endsWith('```')) joined[joined.length - 1] = `${last}\n\n${one}`
    else joined.push(one.trim())
  }
  return joined
}

function block(markdown: string): readonly string[] {
  if (markdown.startsWith('## ')) return [`.SH ${escaped(markdown.slice(3).toUpperCase())}`]
  if (markdown.startsWith('|')) return table(markdown.split('\n'))
  if (markdown.startsWith('```')) {
    const lines = markdown.split('\n').slice(1, -1)
    return ['.PP', '.nf', '.RS 4', ...lines.map(guarded), '.RE', '.fi']
  }
  if (/^[#>*]|^\d+\./.test(markdown)) throw new Error(`weir.yaml(5): unknown Markdown: ${markdown.slice(0, 80)}`)
  return ['.PP', inline(markdown.replaceAll('\n', ' '))]
}

/** Each row is an item: its first cell, then the others, named by the head of their column. */
function table([head = '', , ...rows]: readonly string[]): readonly string[] {
  const names = cells(head)
  return rows.flatMap((row) => {
    const [first = '', ...others] = cells(row)
    const named = others.flatMap((cell, at) => {
      const name = names[at + 1] ?? ''
      if (cell === '') return []
      return at === others.length - 1 && names.length !== 5 ? [cell] : [`${name}: ${cell}.`]
    })
    return ['.TP', inline(first), inline(named.join(' '))]
  })
}

function cells(row: string): readonly string[] {
  return row
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
}

/** Code and strong text are bold; of a link its text stays. */
function inline(markdown: string): string {
  const parts = markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').split(/(`[^`]*`|\*\*[^*]*\*\*)/)
  const line = parts.map((part) => {
    const strong = /^(?:`([^`]*)`|\*\*([^*]*)\*\*)$/.exec(part)
    return strong === null ? escaped(part) : `\\fB${escaped(strong[1] ?? strong[2] ?? '')}\\fR`
  })
  return guardedLine(line.join(''))
}

function page(name: string, section: number, version: string, lines: readonly string[]): string {
  const title = `.TH ${name.toUpperCase()} ${section} "" "${escaped(`weir ${version}`.trim())}" "weir"`
  return `${[title, '.nh', '.ad l', ...lines].join('\n')}\n`
}

function paragraphs(texts: readonly string[]): readonly string[] {
  return texts.flatMap((each) => ['.PP', text(each)])
}

function item(term: string, meaning: string): readonly string[] {
  return ['.TP', `.B ${escaped(term)}`, text(meaning)]
}

function text(line: string): string {
  return guarded(line)
}

function guarded(line: string): string {
  return guardedLine(escaped(line))
}

/** A line that begins with a dot or an apostrophe would be a request to the formatter. */
function guardedLine(line: string): string {
  return /^[.']/.test(line) ? `\\&${line}` : line
}

function escaped(line: string): string {
  return line.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('"', '\\(dq')
}

if (import.meta.main) {
  const [folder = '', version = ''] = process.argv.slice(2)
  if (version === '') throw new Error('Usage: bun scripts/manual-pages.ts FOLDER VERSION')
  mkdirSync(folder, { recursive: true })
  await Bun.write(join(folder, 'weir.1'), commandManual(version))
  await Bun.write(join(folder, 'weir.yaml.5'), configurationManual(version))
  await Bun.write(join(folder, 'weir.bash'), bashCompletion())
}
