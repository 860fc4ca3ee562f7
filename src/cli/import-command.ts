/** `weir import litellm`: prints a configuration of weir made from that of a LiteLLM proxy. */

import { environment, readConfigText } from '../config/load.ts'
import { problemText } from '../config/problems.ts'
import { exit, parseFlags, printToStderr, runAction } from './command.ts'

/** Returns the exit code. */
export function importConfig(args: readonly string[]): Promise<number> {
  return runAction('import', { litellm }, args)
}

async function litellm(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'import litellm')
  if ('code' in parsed) return parsed.code
  const file = parsed.argument
  const read = readConfigText(file)
  if ('error' in read) return failed(`${file}: ${read.error}`)
  const { fromLitellm } = await import('../config/litellm.ts')
  const imported = fromLitellm(read.text)
  for (const note of 'notes' in imported ? imported.notes : []) process.stderr.write(`${note}\n`)
  if ('problem' in imported) return failed(`${file}: ${imported.problem}`)
  process.stdout.write(imported.text)
  return await remaining(imported.text)
}

/** What the new file still needs: variables that are not set, and values that only the operator can correct. */
async function remaining(text: string): Promise<number> {
  const { parseConfig } = await import('../config/parse.ts')
  const env = environment()
  const names = new Set([...text.matchAll(/\$\{([A-Za-z_]\w*)\}/g)].flatMap(([, name = '']) => name))
  const unset = [...names].filter((name) => env[name] === undefined)
  if (unset.length > 0) process.stderr.write(`set in the environment of weir: ${unset.join(', ')}\n`)
  const stand = Object.fromEntries(unset.map((name) => [name, `https://${name.toLowerCase()}.invalid`]))
  const result = parseConfig(text, { env: { ...env, ...stand }, readFile: () => ({ text: '' }), cores: 1 })
  if (result.ok) return exit.done
  for (const problem of result.problems) process.stderr.write(`to correct: ${problemText(problem)}\n`)
  return exit.wrong
}

function failed(line: string): number {
  printToStderr(line)
  return exit.wrong
}
