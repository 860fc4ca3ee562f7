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
  const files = new Set([...text.matchAll(/\$\{file:([^}]+)\}/g)].flatMap(([, name = '']) => name))
  if (files.size > 0) process.stderr.write(`make readable for weir: ${[...files].join(', ')}\n`)
  const stand = Object.fromEntries(unset.map((name) => [name, `https://${name.toLowerCase()}.invalid`]))
  const result = parseConfig(text, { env: { ...env, ...stand }, readFile: () => ({ text: '' }), cores: 1 })
  const lines = result.ok ? [] : result.problems.map(problemText)
  // The value of a variable that is not set, or of a file on another machine, is not known here: nothing to correct.
  const unknown = [...unset.map((name) => `\${${name}}`), '${file:']
  const wrong = lines.filter((line) => !unknown.some((reference) => line.includes(reference)))
  for (const line of wrong) process.stderr.write(`to correct: ${line}\n`)
  return wrong.length === 0 ? exit.done : exit.wrong
}

function failed(line: string): number {
  printToStderr(line)
  return exit.wrong
}
