/** Flags and exit codes, for all commands. */

import fs from 'node:fs'
import { parseArgs } from 'node:util'
import { didYouMean, quoted } from '../config/problems.ts'
import { messageOf } from '../core/error-message.ts'
import { actionsOf, type CommandEntry, commandEntry } from './command-table.ts'
import { flagForm, helpOf } from './help-text.ts'

/** 0: done. 1: the configuration, the ledger or the request is wrong. 2: wrong usage. */
export const exit = { done: 0, wrong: 1, usage: 2 } as const

/** Prints a line to standard error, prefixed with `weir: `. */
export function printToStderr(line: string): void {
  process.stderr.write(`weir: ${line}\n`)
}

export type Flags = Readonly<Record<string, string | boolean | undefined>>

/** What is given of a command line. */
interface Parsed {
  readonly flags: Flags
  /** All values of the flags that may be given several times, by name. */
  readonly lists: Readonly<Record<string, readonly string[]>>
  /** Empty if the command takes none. */
  readonly argument: string
}

/** Ends the command with this exit code: what there is to say was printed. */
export class Ended extends Error {
  override readonly name = 'Ended'

  constructor(readonly code: number) {
    super(`ended with ${code}`)
  }
}

/** Wrong usage: one line that refers to the help. */
class UsageProblem extends Error {
  override readonly name = 'UsageProblem'
}

/** Errors whose message is one line for the operator; by name, because their classes would load the ledger. */
const PROBLEMS: readonly string[] = ['GatewayProblem', 'KeyProblem', 'LedgerProblem', 'NodeProblem', 'UnknownKey']

/** Runs a command. Resolves to its exit code; a problem is one line on standard error. */
export async function untilEnd(run: () => number | Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof Ended) return error.code
    if (error instanceof UsageProblem) return misused(error.message)
    if (!(error instanceof Error) || !PROBLEMS.includes(error.name)) throw error
    printToStderr(error.message)
    return exit.wrong
  }
}

/**
 * Reads the flags of a command of the table. Throws `Ended` after `--help` has printed its help, and `UsageProblem`
 * that names the nearest known flag.
 */
export function parseFlags(args: readonly string[], command: string): Parsed {
  const entry = commandEntry(command)
  // Before anything is checked: help is wanted most when the rest of the line is wrong.
  const beforeTerminator = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
  if (beforeTerminator.some((word) => word === '--help' || word === '-h')) {
    process.stdout.write(helpOf(entry))
    throw new Ended(exit.done)
  }
  const { flags, lists, words } = read(args, entry)
  for (const flag of entry.flags) {
    if (flag.isRequired === true && flags[flag.name] === undefined) throw new UsageProblem(`missing ${flagForm(flag)}`)
  }
  return { flags, lists, argument: argumentOf(words, entry) }
}

/** The value of a flag that the table requires. */
export function requiredText(flags: Flags, name: string): string {
  return String(flags[name])
}

/** Prints what is wrong, in one line. Returns the exit code. */
export function failed(line: string): number {
  printToStderr(line)
  return exit.wrong
}

/** Prints a line about wrong usage, with a reference to the help. Returns the exit code. */
export function misused(line: string): number {
  printToStderr(`${line} (see --help)`)
  return exit.usage
}

/** What `read` makes of a file. Ends the command if the file cannot be read, or `read` throws a `Problem`. */
export function readFile<T>(file: string, read: (text: string) => T, Problem: new (message: string) => Error): T {
  try {
    return read(fs.readFileSync(file, 'utf8'))
  } catch (error) {
    if (!(error instanceof Problem) && !(error instanceof Error && 'code' in error)) throw error
    printToStderr(`${file}: ${messageOf(error)}`)
    throw new Ended(exit.wrong)
  }
}

export type RunCommand = (args: readonly string[]) => Promise<number>

/** The commands of a group by name, and what it does without one. */
export interface Actions {
  readonly actions: Readonly<Record<string, RunCommand>>
  readonly list?: RunCommand
}

/** Runs a command of a group, such as `keys create`: the first word names it. Returns the exit code. */
export async function runAction(group: string, { actions, list }: Actions, words: readonly string[]): Promise<number> {
  const [action, ...args] = words
  const known = actionsOf(group)
  if (list !== undefined && (action === undefined || action.startsWith('-'))) return await list(words)
  if (action !== undefined && Object.hasOwn(actions, action)) return (await actions[action]?.(args)) ?? exit.usage
  if (action?.startsWith('-') === true && action !== '--') parseFlags([action, ...args], group)
  if (action === undefined || action.startsWith('-')) return misused(`missing command: ${listed(known)}`)
  const nearest = didYouMean(action, known) || `; known: ${listed(known)}`
  return misused(`unknown command ${quoted(`${group} ${action}`)}${nearest}`)
}

/** `create, list or revoke` */
function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** The flags and the other words. Node's own checks are off, because its messages are for programmers. */
function read(args: readonly string[], entry: CommandEntry): Omit<Parsed, 'argument'> & { words: readonly string[] } {
  const options = Object.fromEntries(
    entry.flags.map(({ name, value }) => [name, { type: value === undefined ? 'boolean' : 'string' }] as const),
  )
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true })
  const flags: Record<string, string | boolean> = {}
  const lists: Record<string, string[]> = {}
  const words: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue } = token
    const flag = entry.flags.find((each) => each.name === name)
    if (flag === undefined) throw new UsageProblem(unknownFlag(rawName, entry))
    if (flag.value === undefined) {
      if (value !== undefined) throw new UsageProblem(`--${name} takes no value`)
      flags[name] = true
      continue
    }
    // `--by --json`: a flag in the place of the value. `--config=`: a script passed an unset variable.
    const isMissing = value === undefined || (value === '' && flag.mayBeEmpty !== true)
    if (isMissing || (inlineValue === false && value.startsWith('-') && value !== '-'))
      throw new UsageProblem(`--${name} needs a value`)
    flags[name] = value
    if (flag.isRepeatable === true) lists[name] = [...(lists[name] ?? []), value]
  }
  return { flags, lists, words }
}

function unknownFlag(rawName: string, { name, flags }: CommandEntry): string {
  const known = [...flags.map((flag) => `--${flag.name}`), '--help']
  // Other programs have -c for --config. One letter is too little for a distance.
  const long = /^-\w$/.test(rawName) ? known.find((each) => each.startsWith(`-${rawName}`)) : undefined
  const nearest = long === undefined ? didYouMean(rawName, known) : ` (did you mean ${quoted(long)}?)`
  return `weir ${name} has no flag ${quoted(rawName)}${nearest}`
}

function argumentOf(words: readonly string[], { name, argument }: CommandEntry): string {
  if (argument === undefined) {
    if (words[0] === undefined) return ''
    throw new UsageProblem(`weir ${name} takes no argument, and ${quoted(words[0])} is one`)
  }
  if (words[0] === undefined && argument.isOptional !== true)
    throw new UsageProblem(`missing ${argument.name}: ${argument.about}`)
  if (words[1] !== undefined)
    throw new UsageProblem(`weir ${name} takes one ${argument.name}, and ${quoted(words[1])} is another`)
  return words[0] ?? ''
}
