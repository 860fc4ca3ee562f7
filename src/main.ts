#!/usr/bin/env -S bun --no-env-file --config=/dev/null --tsconfig-override=/dev/null --no-install
/** The command line: runs the command that it names. The code of a command is loaded only if it is called. */

import {
  type Actions,
  exit,
  misused,
  parseFlags,
  printToStderr,
  type RunCommand,
  runAction,
  untilEnd,
} from './cli/command.ts'
import { COMMANDS } from './cli/command-table.ts'
import { helpOf, overview } from './cli/help-text.ts'
import { environment } from './config/load.ts'
import { didYouMean, quoted } from './config/problems.ts'
import { useProxiesOf } from './core/forward-proxies.ts'

function group(name: string, load: () => Promise<Actions>): RunCommand {
  return async (args) => runAction(name, await load(), args)
}

const runs: Readonly<Record<string, RunCommand>> = {
  serve: async (args) => (await import('./cli/serve-command.ts')).serve(args),
  check: async (args) => (await import('./cli/check-command.ts')).check(args),
  reload: async (args) => (await import('./cli/running-commands.ts')).reload(args),
  health: async (args) => (await import('./cli/running-commands.ts')).health(args),
  top: async (args) => (await import('./cli/top-command.ts')).top(args),
  alerts: group('alerts', () => import('./cli/alerts-command.ts')),
  keys: group('keys', () => import('./cli/keys-command.ts')),
  budgets: group('budgets', () => import('./cli/budgets-command.ts')),
  organizations: group('organizations', () => import('./cli/organizations-command.ts')),
  usage: async (args) => (await import('./cli/usage-command.ts')).usage(args),
  audit: async (args) => (await import('./cli/audit-command.ts')).audit(args),
  reconcile: async (args) => (await import('./cli/reconcile-command.ts')).reconcileBills(args),
  prices: group('prices', () => import('./cli/prices-command.ts')),
  nodes: group('nodes', () => import('./cli/nodes-command.ts')),
  targets: group('targets', () => import('./cli/running-commands.ts')),
  ledger: group('ledger', () => import('./cli/reset-window-command.ts')),
  explain: async (args) => (await import('./cli/explain-command.ts')).explain(args),
  backup: async (args) => (await import('./cli/backup-command.ts')).backup(args),
  import: group('import', () => import('./cli/import-command.ts')),
  schema: async (args) => (await import('./cli/schema-command.ts')).schema(args),
  version: async (args) => (await import('./cli/version-command.ts')).version(args),
  help: async (args) => help(args),
}

/** Flags that stand for a command, because other programs have them. */
const ALIASES: Readonly<Record<string, string>> = {
  '--help': 'help',
  '-h': 'help',
  '--version': 'version',
  '-v': 'version',
  '-V': 'version',
}

/** `weir help`, `weir help usage`, `weir help keys create`. */
function help(args: readonly string[]): number {
  const name = args.filter((word) => !word.startsWith('-')).join(' ')
  const entry = COMMANDS.find((each) => each.name === name)
  if (name !== '' && entry === undefined) return unknown(name)
  const isFlagged = args.some((word) => word.startsWith('-'))
  if (isFlagged) parseFlags(args, 'help')
  process.stdout.write(entry === undefined ? overview() : helpOf(entry))
  return exit.done
}

function unknown(name: string): number {
  const known = COMMANDS.map((each) => each.name)
  return misused(`unknown command ${quoted(name)}${didYouMean(name, known)}`)
}

async function main([word, ...args]: readonly string[]): Promise<number> {
  useProxiesOf(environment())
  // SQLite creates files of its own; they must be private, too.
  process.umask(0o077)
  if (word === 'worker' || word === 'ledger-owner') return work(word)
  if (word === undefined) {
    process.stdout.write(overview())
    return exit.done
  }
  const name = ALIASES[word] ?? word
  const run = Object.hasOwn(runs, name) ? runs[name] : undefined
  if (name === 'serve') ignoreSignals()
  return run === undefined ? unknown(word) : untilEnd(() => run(args))
}

/** The command by which `weir serve` starts its workers. It is not in the help. */
async function work(role: 'worker' | 'ledger-owner'): Promise<number> {
  if (process.send === undefined) {
    printToStderr(`"weir ${role}" is internal; run "weir serve"`)
    return exit.usage
  }
  ignoreSignals()
  if (role === 'ledger-owner') return (await import('./process/ledger-owner.ts')).ownLedger()
  return (await import('./process/worker.ts')).work()
}

/**
 * Keeps signals without a meaning here from ending the process: SIGQUIT comes with Ctrl-\ to a whole terminal,
 * SIGUSR1 from habits with other servers, SIGUSR2 in a worker that was not meant. Called in the supervisor and in each
 * worker before anything else is loaded, because handlers are not inherited.
 */
function ignoreSignals(): void {
  for (const signal of ['SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const) process.on(signal, () => {})
}

process.exitCode = await main(process.argv.slice(2))
