#!/usr/bin/env -S bun --no-env-file --config=/dev/null --tsconfig-override=/dev/null --no-install
/** The command line: one line a command. Each command's code is loaded only when it is asked for. */

import { complain, exit } from './cli/command.ts'
import { ignoreSignals } from './process/signals.ts'

interface Command {
  readonly about: string
  readonly run: (args: readonly string[]) => Promise<number>
}

const commands: Readonly<Record<string, Command>> = {
  serve: { about: 'runs the gateway', run: async (args) => (await import('./cli/serve-command.ts')).serve(args) },
  check: { about: 'checks a configuration', run: async (args) => (await import('./cli/check-command.ts')).check(args) },
  keys: {
    about: 'makes, lists and revokes keys',
    run: async (args) => (await import('./cli/keys-command.ts')).keys(args),
  },
  usage: {
    about: 'shows requests, tokens and spend',
    run: async (args) => (await import('./cli/usage-command.ts')).usage(args),
  },
  audit: {
    about: 'shows the audit trail, one line a request',
    run: async (args) => (await import('./cli/audit-command.ts')).audit(args),
  },
  ledger: {
    about: 'sets back budgets that a wrong clock renewed too early',
    run: async (args) => (await import('./cli/reset-window-command.ts')).ledger(args),
  },
  explain: {
    about: 'shows what would happen to a request',
    run: async (args) => (await import('./cli/explain-command.ts')).explain(args),
  },
  version: {
    about: 'prints the version',
    run: async (args) => (await import('./cli/version-command.ts')).version(args),
  },
}

function help(): string {
  const lines = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(9)}${about}`)
  return `Usage: weir COMMAND [FLAGS]\n\n${lines.join('\n')}\n\nweir COMMAND --help tells more about each.\n`
}

async function main([name, ...args]: readonly string[]): Promise<number> {
  // Files that SQLite and others make beside ours are nobody else's, either.
  process.umask(0o077)
  if (name === 'worker') return work()
  if (name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help())
    return exit.done
  }
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined
  if (name === 'serve') ignoreSignals()
  if (command !== undefined) return command.run(args)
  complain(name === undefined ? 'no command (see weir --help)' : `there is no command "${name}" (see weir --help)`)
  return exit.usage
}

/** `weir serve` starts its workers so; there is no other use for it, and it is not in the help. */
async function work(): Promise<number> {
  if (process.send === undefined) {
    complain('"worker" is started by "weir serve" alone')
    return exit.usage
  }
  ignoreSignals()
  const { work } = await import('./process/worker.ts')
  return work()
}

process.exitCode = await main(process.argv.slice(2))
