/** The table of commands as text: the list of `weir help`, and the help of each command. Lines fit 80 columns. */

import { type Parameter, parameter } from '../reports/parameters.ts'
import { actionsOf, COMMANDS, type CommandEntry } from './command-table.ts'

const WIDTH = 80

const HELP_FLAG = parameter('help', 'show this help')

/** The list of commands. */
export function overview(): string {
  const commands = COMMANDS.filter(({ name }) => !name.includes(' '))
  const lines = commands.map(({ name, about }) => [`  ${name}`, about] as const)
  return [
    'weir is a gateway for hosted inference: it keeps the credentials of providers,',
    'routes requests, and holds budgets and rate limits.',
    '',
    'Usage: weir COMMAND [FLAGS]',
    '',
    ...columns(lines),
    '',
    'weir COMMAND --help shows the flags of a command.',
    '',
    ...examples([
      ['weir check', 'checks weir.yaml'],
      ['weir serve', 'runs the gateway'],
    ]),
    '',
  ].join('\n')
}

/** The help of one command. */
export function helpOf(entry: CommandEntry): string {
  const actions = actionsOf(entry.name)
  const { argument } = entry
  const flags = [...entry.flags, HELP_FLAG].map((flag) => [`  ${flagForm(flag)}`, flag.about] as const)
  const named = argument === undefined ? [] : [[`  ${argument.name}`, argument.about] as const]
  return [
    ...usage(entry, actions),
    '',
    ...paragraphs(entry.description),
    ...columns(actions.map((action) => [`  ${action}`, aboutOf(`${entry.name} ${action}`)] as const)),
    ...(actions.length > 0 ? [''] : []),
    ...columns([...named, ...flags]),
    '',
    ...paragraphs(entry.notes ?? []),
    ...examples(entry.examples),
    '',
    ...(entry.failure === undefined ? [] : paragraphs([`Exit codes: 0 done, 1 ${entry.failure}, 2 wrong usage.`])),
  ].join('\n')
}

/** `--since DATE` */
export function flagForm({ name, value }: Parameter): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`
}

function aboutOf(name: string): string {
  return COMMANDS.find((each) => each.name === name)?.about ?? ''
}

/** `Usage: weir …`, continued below its first word. */
function usage({ name, argument, flags }: CommandEntry, actions: readonly string[]): readonly string[] {
  const words = [
    ...(actions.length > 0 ? [actions.join('|'), '[FLAGS]'] : []),
    ...(argument === undefined ? [] : [argument.isOptional === true ? `[${argument.name}]` : argument.name]),
    ...(actions.length > 0 ? [] : flags).map((flag) =>
      flag.isRequired === true ? flagForm(flag) : `[${flagForm(flag)}]`,
    ),
  ]
  const head = `Usage: weir ${name}`
  const lines = [head]
  for (const word of words) {
    const line = `${lines.at(-1)} ${word}`
    if (line.length <= WIDTH) lines[lines.length - 1] = line
    else lines.push(`${' '.repeat(head.length)} ${word}`)
  }
  return lines
}

/** Each paragraph is followed by an empty line. */
function paragraphs(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => [...wrap(text, WIDTH), ''])
}

function examples(list: CommandEntry['examples']): readonly string[] {
  return ['Examples:', ...list.flatMap(([run, about]) => [`  $ ${run}`, `      ${about}`])]
}

/** The widest left column that leaves its text room beside it; a wider one stands on a line of its own. */
const LEFT_MAX = 20

function columns(rows: readonly (readonly [left: string, right: string])[]): readonly string[] {
  const left = Math.min(LEFT_MAX, Math.max(0, ...rows.map(([word]) => word.length)))
  return rows.flatMap(([word, text]) => {
    const lines = wrap(text, WIDTH - left - 2).map((line) => `${' '.repeat(left + 2)}${line}`)
    if (word.length > left) return [word, ...lines]
    return [`${word.padEnd(left + 2)}${lines[0]?.trimStart() ?? ''}`, ...lines.slice(1)]
  })
}

function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
