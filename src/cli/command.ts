/** Flags and exit codes, for all commands. */

import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/** 0: done. 1: the configuration, the ledger or the request is wrong. 2: wrong usage. */
export const exit = { done: 0, wrong: 1, usage: 2 } as const

/** Prints a line to standard error, prefixed with `weir: `. */
export function printToStderr(line: string): void {
  process.stderr.write(`weir: ${line}\n`)
}

type Parsed =
  | { readonly flags: Readonly<Record<string, string | boolean | undefined>> }
  /** The command ends with this exit code: its help was printed, or its usage is wrong. */
  | { readonly code: number }

/**
 * Reads a command's flags. `--help` prints `help` on standard output; wrong usage prints one line that refers to it.
 */
export function parseFlags(args: readonly string[], help: string, options: ParseArgsOptionsConfig): Parsed {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: false,
      strict: true,
    })
    if (values['help'] === true) {
      process.stdout.write(help)
      return { code: exit.done }
    }
    // A script passed an unset variable.
    const empty = Object.entries<unknown>(values).find(([, value]) => value === '')
    if (empty !== undefined) throw new Error(missing(`--${empty[0]}`))
    const flags: Record<string, string | boolean | undefined> = {}
    for (const [name, value] of Object.entries(values)) if (!Array.isArray(value)) flags[name] = value
    return { flags }
  } catch (error) {
    printToStderr(`${firstSentence(error)} (see --help)`)
    return { code: exit.usage }
  }
}

/** Node's messages continue with hints for programmers; the first sentence names the error. */
function firstSentence(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  // "Option '--by' argument is ambiguous": the flag is followed by another flag instead of its value.
  const flag = /^Option '(?:-\w, )?(--[\w-]+)[^']*' argument (?:is ambiguous|missing)/.exec(message)?.[1]
  if (flag !== undefined) return missing(flag)
  return (message.split(/\.\s|\n/)[0] ?? message).replace(/\.$/, '')
}

function missing(flag: string): string {
  return `${flag} needs a value`
}
