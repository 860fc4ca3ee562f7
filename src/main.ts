#!/usr/bin/env -S bun --no-env-file --config=/dev/null --tsconfig-override=/dev/null --no-install
/** The command line: a table of the commands. The code of a command is loaded only if it is called. */

import { exit, printToStderr } from './cli/command.ts'

interface Command {
  readonly about: string
  readonly run: (args: readonly string[]) => Promise<number>
}

const commands: Readonly<Record<string, Command>> = {
  serve: { about: 'runs the gateway', run: async (args) => (await import('./cli/serve-command.ts')).serve(args) },
  check: {
    about: 'checks the configuration',
    run: async (args) => (await import('./cli/check-command.ts')).check(args),
  },
  keys: {
    about: 'creates, lists and revokes API keys',
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
    about: 'resets budgets that a wrong clock renewed too early',
    run: async (args) => (await import('./cli/reset-window-command.ts')).ledger(args),
  },
  explain: {
    about: 'shows what would happen to a request',
    run: async (args) => (await import('./cli/explain-command.ts')).explain(args),
  },
  version: {
    about: 'prints the version of weir and of Bun',
    run: async (args) => (await import('./cli/version-command.ts')).version(args),
  },
}

function help(): string {
  const lines = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(9)}${about}`)
  return `Usage: weir COMMAND [FLAGS]\n\n${lines.join('\n')}\n\nweir COMMAND --help shows the flags of a command.\n`
}

async function main([name, ...args]: readonly string[]): Promise<number> {
  // SQLite creates files of its own; they must be private, too.
  process.umask(0o077)
  if (name === 'worker') return work()
  if (name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help())
    return exit.done
  }
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined
  if (name === 'serve') ignoreSignals()
  if (command !== undefined) return command.run(args)
  printToStderr(name === undefined ? 'no command (see weir --help)' : `unknown command "${name}" (see weir --help)`)
  return exit.usage
}

/** The command by which `weir serve` starts its workers. It is not in the help. */
async function work(): Promise<number> {
  if (process.send === undefined) {
    printToStderr('"weir worker" is internal; run "weir serve"')
    return exit.usage
  }
  ignoreSignals()
  const { work } = await import('./process/worker.ts')
  return work()
}

/**
 * Keeps signals without a meaning here from ending the process: SIGQUIT comes with Ctrl-\ to a whole terminal,
 * SIGUSR1 and SIGUSR2 from habits with other servers. Called in the supervisor and in each worker before anything
 * else is loaded, because handlers are not inherited.
 */
function ignoreSignals(): void {
  for (const signal of ['SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {})
}

process.exitCode = await main(process.argv.slice(2))
